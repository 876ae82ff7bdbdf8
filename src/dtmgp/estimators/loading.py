"""Model files of any kind: which class wrote a file, and the fitted model in it."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from dtmgp.errors import InputError
from dtmgp.files import FORMAT, MOST_HEADER_BYTES

# kind of a file -> module and class whose ``load`` reads it
KINDS = {
    "TMGPRegressor": ("dtmgp.estimators.tmgp", "TMGPRegressor"),
    "DTMGPRegressor": ("dtmgp.estimators.dtmgp", "DTMGPRegressor"),
}


def load_model(path: str | os.PathLike[str]) -> Any:
    """The fitted model of a file that ``save`` of any estimator wrote. Nothing in a file is executed.

    >>> import tempfile
    >>> from dtmgp import TMGPRegressor
    >>> path = tempfile.mkdtemp() + "/line.dtmgp"
    >>> TMGPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).save(path)
    >>> type(load_model(path)).__name__
    'TMGPRegressor'
    """
    kind = kind_of(path)
    if kind not in KINDS:
        raise InputError(
            f"model file {path}",
            got=f"a {kind}" if kind else "a file of another program",
            expected=f"one of {', '.join(KINDS)}",
            cause="a damaged file, another kind of file, or one of a newer release" if kind else "",
            do="update dtmgp" if kind else "pass a file that save() or `dtmgp fit` wrote",
        )
    module, name = KINDS[kind]
    try:
        estimator = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"model file {path}",
            got=f"a {kind}, but no {error.name}",
            expected="the packages that it needs",
            do="pip install 'dtmgp[deep]'",
        ) from None
    return estimator.load(path)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind that a file claims, or None; ``load`` of that class then checks every byte."""
    source = Path(path)
    try:
        with source.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(size) if size <= MOST_HEADER_BYTES else b""
    except OSError as error:
        raise InputError(
            f"model file {source}",
            got=error.strerror or str(error),
            expected="a file that save() or `dtmgp fit` wrote",
            do="check the path",
        ) from None
    try:
        meta = json.loads(header.decode("utf-8"))["__metadata__"]
        return str(meta["kind"]) if meta["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
