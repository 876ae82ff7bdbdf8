"""Runs the service until it is told to stop: structured logs, no new work after a signal, what runs is finished."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from datetime import UTC, datetime

import uvicorn
from threadpoolctl import threadpool_limits

from dtmgp.errors import InputError
from dtmgp.serve.app import create_app
from dtmgp.serve.policy import Policy
from dtmgp.serve.served import ServedModel


class Server(uvicorn.Server):
    """Ends with success after SIGTERM or SIGINT; uvicorn would raise the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handlers for as long as the server runs."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bind(policy: Policy) -> socket.socket:
    """A listening socket, or an error that says why there is none."""
    family = socket.AF_INET6 if ":" in policy.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((policy.host, policy.port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"address {policy.host}:{policy.port}",
            got=error.strerror or str(error),
            expected="an address of this machine and a free port",
            do="--port 0 takes any free one",
        ) from None
    return listener


def url_of(policy: Policy, listener: socket.socket) -> str:
    """Where the page is."""
    host = f"[{policy.host}]" if ":" in policy.host else policy.host
    return f"http://{host}:{listener.getsockname()[1]}/"


class Lines(logging.Formatter):
    """Every record is one line of JSON; those of requests are that already."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage()
        if record.levelno == logging.INFO and message.startswith("{"):
            return message
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": message,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_logging() -> None:
    """Requests, and what uvicorn warns of, on the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name, level in (("dtmgp.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(level)
        log.propagate = False


def serve(
    served: ServedModel,
    policy: Policy,
    *,
    digest: str = "",
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``started`` gets the address of the page when requests are taken."""
    listener = bind(policy)
    try:
        app = create_app(served, policy, digest=digest)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            limit_concurrency=policy.connections,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(policy.seconds) + 5,
            h11_max_incomplete_event_size=32 << 10,
            http="h11",
            ws="none",
        )
        set_logging()
        listener.listen(128)
        started(url_of(policy, listener))
        with threadpool_limits(limits=max(1, (os.cpu_count() or 1) // policy.concurrency)):
            Server(config).run(sockets=[listener])
    finally:
        listener.close()
