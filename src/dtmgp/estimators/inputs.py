"""Checks of what a user passes in, made before scikit-learn's own so that a message can name the column and the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtmgp.errors import InputError
from dtmgp.grids import AbstractGrid


def check_columns(X: Any) -> None:
    """Refuse text and non-finite numbers in a table, naming the column; other shapes and kinds are left alone.

    >>> check_columns(np.array([[0.0, 1.0], [2.0, np.nan]]))
    Traceback (most recent call last):
    dtmgp.errors.InputError: input column 'x1': got NaN in row 1 and in 0 others; expected finite numbers. ...
    """
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name in X.columns:
            values = np.asarray(X[name])
            if values.ndim == 1:
                _check_column(name, values)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and np.issubdtype(X.dtype, np.floating):
        for j in np.flatnonzero(~np.isfinite(X).all(axis=0))[:1]:
            _check_column(f"x{j}", X[:, j])


def _check_column(name: object, values: np.ndarray) -> None:
    if np.iscomplexobj(values) or values.dtype.kind in "mM":
        return
    try:
        floats = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"input column {str(name)!r}",
            got=f"{values[0]!r} in row 0, of type {values.dtype}",
            expected="numbers",
            cause="a category or a name among the inputs",
            do="encode it as numbers or drop the column",
        ) from None
    bad = np.flatnonzero(~np.isfinite(floats))
    if len(bad):
        kind = "NaN" if np.isnan(floats[bad[0]]) else "inf or -inf"
        raise InputError(
            f"input column {str(name)!r}",
            got=f"{kind} in row {bad[0]} and in {len(bad) - 1} others",
            expected="finite numbers",
            cause="a missing value or a failed run",
            do="drop or impute these rows",
        )


def check_level(level: object, largest: int, features: Callable[[int], int]) -> list[int | AbstractGrid]:
    """The levels or the grid to try; ``features(level)`` counts without enumeration, ``largest`` is the most taken."""
    if isinstance(level, AbstractGrid):
        return [level]
    found = list(level) if isinstance(level, list | tuple | range | np.ndarray) else [level]
    levels = [int(k) for k in found if isinstance(k, int | np.integer) and k >= 1]
    if not found or len(levels) < len(found):
        raise InputError(
            "level",
            got=repr(level),
            expected="an integer of at least 1, a sequence of them, a grid, Adaptive(), or None",
            do="try level=3",
        )
    for k in levels:
        if (count := features(k)) > largest:
            raise InputError(
                "level",
                got=f"{k}, a sparse grid of {count:,} features",
                expected=f"at most {largest:,} features",
                do="lower the level, or pass a LowerSet that refines fewer coordinates",
            )
    return [*levels]


def check_number(
    name: str, value: Any, low: float, *, strict: bool = False, whole: bool = False, do: str = ""
) -> None:
    """Refuse what is no number of at least ``low`` (or above it, if ``strict``)."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if not isinstance(value, kinds) or not np.isfinite(value) or value < low or (strict and value == low):
        word = "an integer" if whole else "a number"
        expected = f"{word} {'above' if strict else 'of at least'} {low:g}"
        raise InputError(name, got=repr(value), expected=expected, do=do)
