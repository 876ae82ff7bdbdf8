"""What commands print: words for people on the standard error or output, one JSON object for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from dtmgp.errors import InputError


def say(text: str, *, to_error: bool = False) -> None:
    """One line for a person; on the standard error when the standard output carries data."""
    typer.echo(text, err=to_error)


def emit(result: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON value on the standard output; NaN and infinity become null."""
    typer.echo(json.dumps(_plain(result), allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def split_names(text: str | None) -> list[str] | None:
    """``a, b`` as names; a CSV line, so that names may hold commas in quotes."""
    if text is None:
        return None
    import csv

    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InputError("names of columns", got=repr(text), expected="different names, separated by commas")
    return names


def split_numbers(text: str, what: str, low: float, high: float) -> list[float]:
    """``0.05,0.95`` as numbers strictly between two ends."""
    try:
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values or not all(low < value < high for value in values):
        raise InputError(
            what, got=repr(text), expected=f"numbers between {low:g} and {high:g}, separated by commas"
        )
    return values


def is_terminal() -> bool:
    """Whether a person reads the standard output."""
    return sys.stdout.isatty()
