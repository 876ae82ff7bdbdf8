"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dtmgp.cli.tables import numeric_columns
from dtmgp.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of words.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file that `dtmgp fit` wrote.")]
TableFile = Annotated[str, typer.Argument(metavar="TABLE", help="CSV or Parquet; - for the standard input.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the model: level=4, kernel=Laplace. Repeatable."
    ),
]
ModelKind = Annotated[
    str, typer.Option("--model", help="auto (deep if torch is installed), deep, or one-layer.")
]
ExecutorName = Annotated[
    str,
    typer.Option(help="Where tasks run: joblib (here), ray or dask (here, or on the cluster at --address)."),
]
Address = Annotated[str | None, typer.Option(help="Address of a Ray or Dask cluster: host:port.")]


def chosen_estimator(kind: str, settings: Sequence[str], seed: int) -> Any:
    """An unfitted estimator from its kind and ``name=value`` texts; values are JSON, or else plain texts."""
    from dtmgp.estimators.default import default_estimator
    from dtmgp.estimators.loading import KINDS
    from dtmgp.estimators.tmgp import TMGPRegressor

    if kind not in ("auto", "deep", "one-layer"):
        raise InputError("--model", got=repr(kind), expected="auto, deep or one-layer")
    estimator: Any = TMGPRegressor() if kind == "one-layer" else default_estimator()
    if kind == "deep" and type(estimator).__name__ != "DTMGPRegressor":
        raise InputError(
            "--model deep",
            got=f"no {KINDS['DTMGPRegressor'][1]} that can be imported",
            expected="torch",
            do="pip install 'dtmgp[deep]', or use --model one-layer",
        )
    known = estimator.get_params(deep=False)
    if "random_state" in known:
        estimator.set_params(random_state=seed)
    for text in settings:
        name, mark, value = text.partition("=")
        if not mark or name not in known:
            raise InputError(
                f"--set {text}", got=repr(name), expected=f"NAME=VALUE with one of {', '.join(sorted(known))}"
            )
        estimator.set_params(**{name: setting(value)})
    return estimator


def setting(text: str) -> Any:
    """The value of a text: JSON, or a kernel, likelihood, warp or objective of the library, or else the text itself.

    Nothing is evaluated: names are looked up, and arguments are plain numbers, texts and lists.

    >>> setting("0.5"), setting("[4, 2]"), setting("float64"), setting("Laplace(lengthscale=3.0)")
    (0.5, [4, 2], 'float64', Laplace(lengthscale=3.0, variance=1.0))
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    call = node if isinstance(node, ast.Call) else None
    name = node if call is None else call.func
    kind = _library_class(name.id) if isinstance(name, ast.Name) else None
    if kind is None:
        return text
    try:
        given = [ast.literal_eval(argument) for argument in (call.args if call else [])]
        named = {str(k.arg): ast.literal_eval(k.value) for k in (call.keywords if call else [])}
        return kind(*given, **named)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"--set ..={text}", got=str(error), expected=f"arguments of {kind.__name__} in plain numbers"
        ) from None


def _library_class(name: str) -> Any:
    """A public class that a model takes as a parameter, or None."""
    from importlib import import_module

    for module in ("dtmgp.kernels", "dtmgp.likelihoods", "dtmgp.inference"):
        try:
            package = import_module(module)
        except ModuleNotFoundError:  # without torch
            continue
        if name in package.__all__ and isinstance(getattr(package, name), type):
            return getattr(package, name)
    return None


def parse_bounds(text: str | None, option: str = "--bounds") -> dict[str, tuple[float, float]] | None:
    """``a=0:1,b=-2:2`` as a table of bounds.

    >>> parse_bounds("a=0:1, b=-2:2")
    {'a': (0.0, 1.0), 'b': (-2.0, 2.0)}
    """
    if text is None:
        return None
    found: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        name, mark, ends = part.strip().rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError:
            pair = (np.nan, np.nan)
        if (
            not (mark and colon and name)
            or name in found
            or not pair[0] < pair[1]
            or not np.isfinite(pair).all()
        ):
            raise InputError(
                option, got=repr(part.strip()), expected="NAME=LOW:HIGH for every input, as in a=0:1,b=-2:2"
            )
        found[name] = pair
    return found


def input_names(model: Any, table: pd.DataFrame, where: str) -> list[str]:
    """The columns of a table that a model reads: by name, or all in order if the model knows no names."""
    names = [str(name) for name in model.cube_.names]
    if getattr(model, "feature_names_in_", None) is None and not set(names) <= set(table.columns):
        if len(table.columns) != len(names):
            raise InputError(
                f"table {where}",
                got=f"{len(table.columns)} columns",
                expected=f"{len(names)} in the order of the fit, or columns called {', '.join(names)}",
                cause="a model that was fitted to an array without names",
            )
        return [str(name) for name in table.columns]
    return names


def model_inputs(
    model: Any, table: pd.DataFrame, where: str, *, drop_missing: bool
) -> tuple[Any, np.ndarray, int]:
    """Inputs in the form that the model wants, which rows were kept, and how many lie outside the fitted range."""
    names = input_names(model, table, where)
    inputs, keep = numeric_columns(table, names, where, drop_missing=drop_missing)
    values = inputs.to_numpy()
    outside = ((values < model.cube_.low) | (values > model.cube_.high)).any(axis=1)
    named = getattr(model, "feature_names_in_", None) is not None
    return (inputs if named else values), keep, int(outside.sum())
