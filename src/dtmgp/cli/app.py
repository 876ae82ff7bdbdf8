"""The commands. Each imports what it needs when it runs, so that `--help` is immediate."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="dtmgp",
    help="Sparse expansions of Markov Gaussian processes: studies and information.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Sparse expansions of Markov Gaussian processes: studies and information."""


@app.command()
def reproduce(
    study: Annotated[str, typer.Argument(help="Which study: theory.")],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All levels (minutes) or fewer (seconds).")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the result files.")] = Path("out"),
    figure: Annotated[Path | None, typer.Option(help="Where the figure goes, if not into --out.")] = None,
) -> None:
    """Run a study: write its tables and its figure, print its summary."""
    from dtmgp.experiments.reproduce import reproduce as run

    words = ["dtmgp", "reproduce", study, "--full" if full else "--quick", "--out", str(out)]
    words += [] if figure is None else ["--figure", str(figure)]
    for line in run(study, out, full=full, command=shlex.join(words), figure=figure):
        typer.echo(line)


@app.command()
def info() -> None:
    """Print versions, the folder of compiled code, and the cores that may be used."""
    from importlib.metadata import PackageNotFoundError, version

    from dtmgp import __version__
    from dtmgp.expansion import _jit
    from dtmgp.experiments.results import commit, machine

    typer.echo(f"dtmgp         {__version__} ({commit()})")
    typer.echo(f"machine       {machine()}")
    for name in ("numpy", "scipy", "numba", "scikit-learn", "torch", "matplotlib", "pandas"):
        try:
            typer.echo(f"{name:13} {version(name)}")
        except PackageNotFoundError:
            typer.echo(f"{name:13} not installed")
    typer.echo(f"compiled code {_jit.tensor_features.stats.cache_path}")
    typer.echo(f"interpreter   {sys.executable}")
