"""Bodies of requests: read within limits, parsed without trust, turned into an array of inputs and a few options."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Request
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from dtmgp.analysis.base import Box
from dtmgp.serve.faults import Malformed, SlowUpload, TooLarge, Unprocessable, WrongType

Array = np.ndarray
JSON, NDJSON = "application/json", "application/x-ndjson"
Level = Annotated[float, Field(gt=0.0, lt=1.0)]
Row = {
    "oneOf": [
        {"type": "array", "items": {"type": "number"}, "description": "numbers in the order of /model"},
        {"type": "object", "additionalProperties": {"type": "number"}, "description": "numbers by name"},
    ]
}
Inputs = Annotated[Any, Field(json_schema_extra={"type": "array", "minItems": 1, "items": Row})]
Point = Annotated[Any, Field(json_schema_extra=Row)]


class Strict(BaseModel):
    """Unknown fields are refused, and texts are no numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PredictOptions(Strict):
    """What ``/predict`` takes beside inputs."""

    coverage: Level = 0.9


class QuantileOptions(Strict):
    """What ``/quantiles`` takes beside inputs."""

    levels: Annotated[list[Level], Field(min_length=1, max_length=999)] = [0.05, 0.25, 0.5, 0.75, 0.95]


class SampleOptions(Strict):
    """What ``/sample`` takes beside inputs."""

    number: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    functions: bool = False


class PredictRequest(PredictOptions):
    """Inputs of ``/predict``."""

    inputs: Inputs


class QuantileRequest(QuantileOptions):
    """Inputs of ``/quantiles``."""

    inputs: Inputs


class SampleRequest(SampleOptions):
    """Inputs of ``/sample``."""

    inputs: Inputs


class ProfileRequest(Strict):
    """The point of the profiler page, and what it draws there."""

    at: Point
    coverage: Level = 0.9
    output: Annotated[int, Field(ge=0)] = 0


class TargetRequest(ProfileRequest):
    """The target finder: which functional shall reach a value, or its largest or smallest one; from where."""

    goal: Literal["reach", "maximise", "minimise"] = "reach"
    of: Literal["mean", "quantile", "exceedance"] = "mean"
    level: Level = 0.9
    threshold: Annotated[float, Field(ge=-1e300, le=1e300)] = 0.0
    value: Annotated[float, Field(ge=-1e300, le=1e300)] = 0.0
    locked: Annotated[list[str], Field(max_length=10_000)] = []


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """All bytes of a body, at most ``limit`` of them, within ``seconds``."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise WrongType(f"content encoding {encoding[:40]!r}: send the body as it is")
    parts: list[bytes] = []
    size = 0
    too_large = TooLarge(f"more than {limit:,} bytes: send fewer rows at a time")
    if int(request.headers.get("content-length", "0")) > limit:  # a number: the guard has looked at it
        raise too_large
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise SlowUpload(f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise Malformed("the client went away before the end of the body") from None
    return b"".join(parts)


def content_type(request: Request) -> str:
    """`JSON` or `NDJSON`; a form or plain text, which any web page can post, is refused."""
    given = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if given == JSON:
        return JSON
    if given in (NDJSON, "application/ndjson", "application/jsonl"):
        return NDJSON
    raise WrongType(f"content type {given[:60]!r}: send {JSON}, or {NDJSON} with one row per line")


def parse(kind: type[BaseModel], body: bytes) -> Any:
    """A JSON object as a request of the given kind."""
    return checked(kind, decode(body, "the body"))


def checked(kind: type[BaseModel], value: Any) -> Any:
    """A decoded value as a request; the first thing that is wrong with it is told."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"])
        raise Unprocessable(f"{place or 'the body'}: {first['msg']}") from None


def decode(body: bytes, what: str) -> Any:
    """JSON without NaN and infinity; deep nesting is refused by the parser."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Malformed(f"{what} is no JSON: {str(error)[:120]}") from None


def decode_lines(body: bytes, most: int) -> list[Any]:
    """Values of the lines that are not blank."""
    rows: list[Any] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            if len(rows) == most:
                raise Unprocessable(f"more than {most:,} rows: send them in several requests")
            rows.append(decode(line, f"line {number}"))
    return rows


def inputs_from(value: Any, box: Box, most: int) -> Float[Array, "n d"]:
    """Rows, as lists in the model's order or as objects by name, as an array (n, d)."""
    if not isinstance(value, list) or not value:
        raise Unprocessable("inputs: expected a list of at least one row")
    if len(value) > most:
        raise Unprocessable(f"inputs: {len(value):,} rows, at most {most:,} are answered: send {NDJSON}")
    return np.array([_row(row, number, box.names) for number, row in enumerate(value)], dtype=np.float64)


def point_from(value: Any, box: Box) -> Float[Array, " d"]:
    """One row as an array (d,)."""
    return np.array(_row(value, 0, box.names), dtype=np.float64)


def _row(row: Any, number: int, names: Sequence[str]) -> list[float]:
    if isinstance(row, dict):
        missing = [name for name in names if name not in row]
        unknown = [name for name in row if name not in names]
        if missing:
            raise Unprocessable(f"row {number}: no input {missing[0]!r}; it needs {_listed(names)}")
        if unknown:
            raise Unprocessable(f"row {number}: no input of the model is called {unknown[0][:60]!r}")
        row = [row[name] for name in names]
    elif not isinstance(row, list):
        raise Unprocessable(f"row {number}: expected a list of numbers or an object of numbers by name")
    elif len(row) != len(names):
        raise Unprocessable(
            f"row {number}: {len(row)} numbers, expected {len(names)}, in the order {_listed(names)}"
        )
    for name, cell in zip(names, row):
        if type(cell) not in (int, float):
            raise Unprocessable(f"row {number}, input {name!r}: expected a number")
        if not -1e300 <= cell <= 1e300:
            raise Unprocessable(f"row {number}, input {name!r}: a number that no model reads")
    return row


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
