"""From checked inputs to JSON: the same arrays as the Python methods give, and which rows extrapolate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp.serve.capacity import Deadline
from dtmgp.serve.faults import Unprocessable
from dtmgp.serve.requests import PredictOptions, QuantileOptions, SampleOptions
from dtmgp.serve.served import ServedModel

Array = np.ndarray
Options = PredictOptions | QuantileOptions | SampleOptions
STREAM_PART = 2048  # rows of a streamed answer per computation
# options with a list of values in the query of a streamed request
LISTS = {"levels"}


def plain(values: Any) -> Any:
    """Numbers as JSON has them: what is not finite becomes null."""
    if isinstance(values, np.ndarray):
        return values.tolist() if np.isfinite(values).all() else plain(values.tolist())
    if isinstance(values, list):
        return [plain(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


def dump(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def check_size(options: Options, rows: int, served: ServedModel, most: int) -> None:
    """Refuse an answer of too many numbers."""
    each = 4
    if isinstance(options, QuantileOptions):
        each = len(options.levels)
    elif isinstance(options, SampleOptions):
        each = options.number
    total = rows * each * len(served.outputs)
    if total > most:
        raise Unprocessable(f"an answer of {total:,} numbers, at most {most:,} are given: ask for fewer")


def columns(
    served: ServedModel, options: Options, x: Float[Array, "n d"], deadline: Deadline, part: int = 0
) -> dict[str, Array]:
    """Arrays with one entry per row. ``part`` numbers the parts of a streamed answer, which have seeds of their own."""
    if isinstance(options, PredictOptions):
        mean, std = served.moments(x, deadline)
        low, high = served.interval(x, options.coverage, deadline)
        return {"mean": mean, "std": std, "low": low, "high": high}
    if isinstance(options, QuantileOptions):
        return {"quantiles": served.quantiles(x, options.levels, deadline)}
    if options.functions and not hasattr(served.model, "sample_functions"):
        raise Unprocessable("functions: this kind of model draws no functions")
    return {"draws": served.draws(x, options.number, options.seed, options.functions, deadline, part)}


def whole(
    served: ServedModel, options: Options, x: Float[Array, "n d"], deadline: Deadline
) -> dict[str, Any]:
    """One JSON object for all rows."""
    found = {name: plain(values) for name, values in columns(served, options, x, deadline).items()}
    return {
        "outputs": list(served.outputs),
        **options.model_dump(include=set(type(options).model_fields) - {"inputs"}),
        **found,
        "extrapolates": served.outside(x),
    }


def lines(
    served: ServedModel,
    options: Options,
    x: Float[Array, "n d"],
    first: int,
    deadline: Deadline,
) -> bytes:
    """One JSON object per row, one per line."""
    found = columns(served, options, x, deadline, part=first // STREAM_PART)
    outside = served.outside(x)
    names, values = list(found), [plain(array) for array in found.values()]
    return b"".join(
        dump({"row": first + number, **dict(zip(names, cells)), "extrapolates": outside[number]}) + b"\n"
        for number, cells in enumerate(zip(*values))
    )


def starts(rows: int) -> Iterator[int]:
    """First rows of the parts of a streamed answer."""
    return iter(range(0, rows, STREAM_PART))


def options_from_query(kind: type[Options], query: dict[str, str]) -> dict[str, Any]:
    """The options of a streamed request, as values that `requests.checked` can look at."""
    found: dict[str, Any] = {}
    for name, text in query.items():
        if name in LISTS:
            found[name] = [_value(part) for part in text.split(",")]
        else:
            found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    """A number or a truth value, or the text itself, which is then refused by its field."""
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text) if len(text) < 40 else text
        except ValueError:
            continue
    return text
