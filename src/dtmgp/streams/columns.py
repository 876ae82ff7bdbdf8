"""Columns of record batches as arrays: which are meant, whether they are numbers, and their conversion."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp.errors import InputError


def check_names(
    where: str, columns: Sequence[str], targets: Sequence[str], inputs: Sequence[str] | None
) -> tuple[str, ...]:
    """The input columns: those asked for, or all but the targets; what is missing is refused by name."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError(where, got=f"the column {twice[0]!r} more than once", expected="different names")
    if not targets:
        raise InputError("target", got="no name", expected="an output column, or several")
    for name in [*targets, *(inputs or ())]:
        if name not in columns:
            close = difflib.get_close_matches(name, list(columns), n=1, cutoff=0.6)
            raise InputError(
                where,
                got=f"no column {name!r}",
                expected=f"the columns {', '.join([*(inputs or ()), *targets])}",
                do=(f"did you mean {close[0]!r}? " if close else "") + f"There is {', '.join(columns)}",
            )
    found = tuple(inputs) if inputs is not None else tuple(n for n in columns if n not in targets)
    clash = [name for name in found if name in targets]
    if clash or not found or len(set(found)) < len(found):
        raise InputError(
            "inputs",
            got=f"{clash[0]!r}, a target" if clash else "a name twice" if found else "no column",
            expected="different columns besides the target",
        )
    return found


def check_kind(where: str, name: str, kind: Any) -> None:
    """Refuse an Arrow type that is no number."""
    import pyarrow.types as types

    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not number and not types.is_decimal(kind):
        raise text_column(where, name, str(kind))


def text_column(where: str, name: str, kind: str) -> InputError:
    """What to say about a column that is no number."""
    return InputError(
        f"{where}, column {name!r}",
        got=f"the type {kind}",
        expected="numbers",
        cause="a category, a name or a date among the numbers",
        do="encode it as numbers, or choose the columns: inputs=[...] (--inputs a,b)",
    )


def arrow_values(batch: Any, names: Sequence[str]) -> Float[np.ndarray, "n k"]:
    """Columns of an Arrow batch as floats; nulls are NaN."""
    found = np.empty((batch.num_rows, len(names)))
    for k, name in enumerate(names):
        column = batch.column(name)
        if str(column.type) not in ("float", "double"):
            column = column.cast("double")
        found[:, k] = column.to_numpy(zero_copy_only=False)
    return found
