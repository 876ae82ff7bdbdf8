"""Around every request: host names, token, headers of safety, one line of log, and no traceback to anybody."""

from __future__ import annotations

import hmac
import json
import logging
import time
import uuid
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dtmgp.serve.answers import dump
from dtmgp.serve.faults import Fault, ForeignHost, TooLarge, Unauthorised
from dtmgp.serve.policy import Policy

log = logging.getLogger("dtmgp.serve")
# The page itself holds nothing of the model; what it shows is asked for with the token.
OPEN = {"/", "/health", "/assets/page.css", "/assets/page.js", "/assets/draw.js", "/assets/icon.svg"}
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}


class Guard:
    """ASGI middleware, outermost."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass what may pass; answer and log everything."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        name = uuid.uuid4().hex[:12]
        status, sent = 0, 0

        async def watched(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [*HEADERS, (b"x-request-id", name.encode())]
                message["headers"] = [*message.get("headers", []), *own]
            elif message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            await send(message)

        note: dict[str, object] = {}
        scope.setdefault("state", {})["note"] = note
        try:
            self.check(scope)
            await self.app(scope, receive, watched)
        except Fault as fault:
            note["error"] = fault.code
            if not status:
                await refuse(fault, watched)
        except Exception:  # the last wall: what is a fault of ours
            log.exception("request %s failed", name)
            note["error"] = "internal"
            if not status:
                await answer(500, {"error": {"code": "internal", "message": f"see the log, {name}"}}, watched)
        finally:
            client = scope.get("client") or ("", 0)
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "request": name,
                "client": client[0],
                "method": scope["method"],
                "path": scope["path"][:200],
                "status": status,
                "bytes": sent,
                "ms": round(1000 * (time.perf_counter() - start), 1),
                **note,
            }
            log.info("%s", json.dumps(line, default=str))

    def check(self, scope: Scope) -> None:
        """Host, token, announced size."""
        headers = dict(reversed(scope["headers"]))
        known = LOCAL_NAMES | {self.policy.host, *self.policy.names}
        if self.policy.local and host_name(headers.get(b"host", b"")) not in known:
            raise ForeignHost("this service answers to localhost and 127.0.0.1 only")
        announced = headers.get(b"content-length", b"0")
        most = max(self.policy.body_bytes, self.policy.stream_bytes)
        if not announced.isdigit() or len(announced) > 18 or int(announced) > most:
            raise TooLarge(f"more than {most:,} bytes: send fewer rows at a time")
        if self.policy.token is not None and scope["path"] not in OPEN:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            same = hmac.compare_digest(given.strip(), self.policy.token.encode())
            if kind.lower() != b"bearer" or not same:
                raise Unauthorised("send the header  Authorization: Bearer TOKEN")


def host_name(header: bytes) -> str:
    """The name in a Host header, without its port; IPv6 without brackets."""
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


async def refuse(fault: Fault, send: Send) -> None:
    """A fault as an answer."""
    extra = []
    if fault.status in (429, 503):
        extra.append((b"retry-after", b"1"))
    if fault.status == 401:
        extra.append((b"www-authenticate", b"Bearer"))
    await answer(fault.status, fault.content, send, extra)


async def answer(
    status: int, content: object, send: Send, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A JSON answer, by hand: the application may not have been reached."""
    body = dump(content)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(extra or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
