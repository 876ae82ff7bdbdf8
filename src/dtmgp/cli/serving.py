"""`dtmgp serve`: a model file in, a prediction service and the profiler page on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say, split_names
from dtmgp.errors import InputError

VARIABLE = "DTMGP_TOKEN"


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(serve)


def serve(
    model: options.ModelFile,
    host: Annotated[
        str, typer.Option(help="Address; another than this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes any free port.")
    ] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with the token that clients send. Or set {VARIABLE}.")
    ] = None,
    outputs: Annotated[str | None, typer.Option(help="Names of the outputs, a,b. Default: y.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page. Default: the file's name.")] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a JSON request.")] = 10_000,
    max_body: Annotated[float, typer.Option(min=0.001, help="Size of a JSON request in MB.")] = 8.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Computations at a time.")] = 2,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds that a request may take.")] = 30.0,
    host_name: Annotated[
        list[str] | None, typer.Option(help="Further host name of requests: a proxy's. Repeatable.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Answer predictions over HTTP, and show the profiler page: a slider per input, the law of the output.

    Stops on Ctrl-C or SIGTERM when the answers under way are given. One line of JSON per request goes to the
    standard error. Routes: /predict, /sample, /quantiles, /model, /health, /openapi.json.

    Example: [bold]dtmgp serve queue.dtmgp --port 8000[/bold], then open http://127.0.0.1:8000/
    """
    from dtmgp.estimators.loading import load_model
    from dtmgp.serve import Policy, ServedModel
    from dtmgp.serve.app import file_digest
    from dtmgp.serve.running import serve as run

    policy = Policy(
        host=host,
        port=port,
        token=read_token(token_file),
        rows=max_rows,
        body_bytes=round(max_body * 1e6),
        concurrency=concurrency,
        seconds=timeout,
        names=tuple(host_name or ()),
    )
    served = ServedModel.of(load_model(model), split_names(outputs), title or Path(model).stem)

    def started(url: str) -> None:
        if as_json:
            emit({"url": url, "model": model, "token": policy.token is not None, "pid": os.getpid()})
        else:
            say(f"profiler: {url}" + ("#token=TOKEN" if policy.token else ""))
            say("Ctrl-C stops it.")

    run(served, policy, digest=file_digest(model), started=started)


def read_token(path: Path | None) -> str | None:
    """From the file, or from the environment; never from the command line, which others on the machine can list."""
    if path is None:
        return os.environ.get(VARIABLE) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--token-file {path}", got=str(error), expected="a text file with the token"
        ) from None
