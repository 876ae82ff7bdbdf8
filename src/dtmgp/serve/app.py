"""The application: routes from requests to answers. What can be refused is refused before the model is asked."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from dtmgp import __version__
from dtmgp.errors import InputError
from dtmgp.serve import answers
from dtmgp.serve.answers import Options
from dtmgp.serve.capacity import Capacity, Deadline
from dtmgp.serve.faults import Fault, Overrun
from dtmgp.serve.guard import Guard
from dtmgp.serve.policy import Policy
from dtmgp.serve.profile import Profiler
from dtmgp.serve.requests import (
    JSON,
    NDJSON,
    PredictOptions,
    PredictRequest,
    ProfileRequest,
    QuantileOptions,
    QuantileRequest,
    SampleOptions,
    SampleRequest,
    TargetRequest,
    checked,
    content_type,
    decode_lines,
    inputs_from,
    parse,
    read_body,
)
from dtmgp.serve.served import ServedModel
from dtmgp.serve.target import find_target

ASSETS = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/assets/page.css": ("page.css", "text/css; charset=utf-8"),
    "/assets/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/assets/draw.js": ("draw.js", "text/javascript; charset=utf-8"),
    "/assets/icon.svg": ("icon.svg", "image/svg+xml"),
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words}
    for status, words in {
        400: "no JSON",
        401: "no token",
        408: "an upload that is too slow",
        413: "too many bytes",
        415: "another content type",
        422: "inputs that the model cannot answer, or too many of them",
        429: "too many requests at a time",
        503: "a computation that takes too long",
    }.items()
}


def create_app(served: ServedModel, policy: Policy | None = None, *, digest: str = "") -> Any:
    """The ASGI application of one model. ``digest`` is that of its file, for clients to tell models apart."""
    policy = policy or Policy()
    profiler = Profiler(served)
    begun = time.monotonic()
    state: dict[str, Any] = {}

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        state["capacity"] = Capacity(policy.concurrency, policy.waiting, policy.seconds)
        yield
        state["capacity"].close()

    app = FastAPI(
        title=f"dtmgp: {served.title}",
        version=__version__,
        description=f"The predicted law of {', '.join(served.outputs)} given {', '.join(served.box.names)}.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )

    @app.exception_handler(Fault)
    async def on_fault(request: Request, fault: Fault) -> Response:
        _note(request)["error"] = fault.code
        headers = {"retry-after": "1"} if fault.status in (429, 503) else None
        return Response(answers.dump(fault.content), fault.status, headers, media_type=JSON)

    @app.exception_handler(InputError)
    async def on_input(request: Request, error: InputError) -> Response:
        _note(request)["error"] = "unprocessable"
        content = {"error": {"code": "unprocessable", "message": str(error)}}
        return Response(answers.dump(content), 422, media_type=JSON)

    @app.exception_handler(HTTPException)
    async def on_route(request: Request, error: HTTPException) -> Response:
        content = {"error": {"code": "no_such_route", "message": f"{error.detail}: see /openapi.json"}}
        return Response(answers.dump(content), error.status_code, error.headers, media_type=JSON)

    async def compute(request: Request, work: Callable[[Deadline], bytes]) -> Response:
        start = time.perf_counter()
        body = await state["capacity"].run(work)
        _note(request)["compute_ms"] = round(1000 * (time.perf_counter() - start), 1)
        return Response(body, media_type=JSON)

    async def rows(request: Request, kind: type[BaseModel], options_kind: type[Options]) -> Response:
        if content_type(request) == NDJSON:
            return await streamed(request, options_kind)
        asked = parse(kind, await read_body(request, policy.body_bytes, policy.seconds))
        x = served.checked(inputs_from(asked.inputs, served.box, policy.rows))
        answers.check_size(asked, len(x), served, policy.values)
        _note(request)["rows"] = len(x)
        return await compute(
            request, lambda deadline: answers.dump(answers.whole(served, asked, x, deadline))
        )

    async def streamed(request: Request, kind: type[Options]) -> Response:
        options = checked(kind, answers.options_from_query(kind, dict(request.query_params)))
        body = await read_body(request, policy.stream_bytes, policy.seconds)
        capacity: Capacity = state["capacity"]
        values = await capacity.run(
            lambda _: served.checked(
                inputs_from(decode_lines(body, policy.stream_rows), served.box, policy.stream_rows)
            )
        )
        answers.check_size(options, min(len(values), answers.STREAM_PART), served, policy.values)
        _note(request)["rows"] = len(values)

        async def parts() -> AsyncIterator[bytes]:
            for first in answers.starts(len(values)):
                x = values[first : first + answers.STREAM_PART]
                try:
                    yield await capacity.run(
                        lambda deadline, x=x, first=first: answers.lines(served, options, x, first, deadline)  # type: ignore[misc]
                    )
                except Fault as fault:  # the status is sent: the last line says why rows are missing
                    _note(request)["error"] = fault.code
                    yield answers.dump({"row": first, **fault.content}) + b"\n"
                    return

        return StreamingResponse(parts(), media_type=NDJSON)

    @app.post("/predict", responses=REFUSALS, openapi_extra=_body(PredictRequest, PredictOptions))
    async def predict(request: Request) -> Response:
        """Mean, standard deviation and central interval of Y(x), noise included."""
        return await rows(request, PredictRequest, PredictOptions)

    @app.post("/quantiles", responses=REFUSALS, openapi_extra=_body(QuantileRequest, QuantileOptions))
    async def quantiles(request: Request) -> Response:
        """Quantiles of Y(x)."""
        return await rows(request, QuantileRequest, QuantileOptions)

    @app.post("/sample", responses=REFUSALS, openapi_extra=_body(SampleRequest, SampleOptions))
    async def sample(request: Request) -> Response:
        """Draws of Y(x), or of functions of x that are consistent over all rows."""
        return await rows(request, SampleRequest, SampleOptions)

    @app.post("/profile", responses=REFUSALS, openapi_extra=_body(ProfileRequest))
    async def profile(request: Request) -> Response:
        """The picture of the page at a point: density, interval, curves along every input."""
        asked = await one(request, ProfileRequest)
        return await compute(request, lambda deadline: answers.dump(profiler(asked, deadline)))

    @app.post("/target", responses=REFUSALS, openapi_extra=_body(TargetRequest))
    async def target(request: Request) -> Response:
        """The nearest input at which a functional reaches a value, or its optimum."""
        asked = await one(request, TargetRequest)
        return await compute(request, lambda deadline: answers.dump(find_target(served, asked, deadline)))

    async def one(request: Request, kind: type[BaseModel]) -> Any:
        if content_type(request) != JSON:
            raise answers.Unprocessable(f"content type: send {JSON}")
        return parse(kind, await read_body(request, policy.body_bytes, policy.seconds))

    @app.get("/model")
    async def model() -> Response:
        """Inputs with their bounds, outputs, limits."""
        limits = {
            name: getattr(policy, name) for name in ("body_bytes", "rows", "values", "stream_rows", "seconds")
        }
        about = {**served.describe(), "sha256": digest, "dtmgp": __version__, "limits": limits}
        return Response(answers.dump(about), media_type=JSON)

    @app.get("/health")
    async def health() -> Response:
        """Whether computations are accepted, for probes; no token is asked."""
        capacity: Capacity | None = state.get("capacity")
        if capacity is None:
            raise Overrun("the service is starting or stopping")
        about = {
            "status": "ok",
            "seconds": round(time.monotonic() - begun, 1),
            "running": capacity.active,
            "waiting": capacity.queued,
        }
        return Response(answers.dump(about), media_type=JSON)

    for path, (name, kind) in ASSETS.items():
        app.add_api_route(path, _asset(name, kind), include_in_schema=False)
    return Guard(app, policy)


def _asset(name: str, kind: str) -> Callable[[], Any]:
    content = (resources.files("dtmgp.serve") / "assets" / name).read_bytes()

    async def asset() -> Response:
        return Response(content, media_type=kind)

    return asset


def _note(request: Request) -> dict[str, Any]:
    """What the log line of the request will say besides."""
    note: dict[str, Any] = request.scope.get("state", {}).get("note", {})
    return note


def _body(kind: type[BaseModel], options: type[BaseModel] | None = None) -> dict[str, Any]:
    """The body in the OpenAPI description: it is read here, not by FastAPI, whose parser takes NaN."""
    content: dict[str, Any] = {JSON: {"schema": kind.model_json_schema()}}
    extra: dict[str, Any] = {}
    if options is not None:
        row = {"description": "one row per line, as in inputs; options in the query", "type": "string"}
        content[NDJSON] = {"schema": row}
        extra["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": schema, "description": "for NDJSON"}
            for name, schema in options.model_json_schema()["properties"].items()
        ]
    return {"requestBody": {"required": True, "content": content}, **extra}


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
