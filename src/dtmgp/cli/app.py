"""The application: every group of commands is a module with ``register(app)``; adding a group is one line here."""

from __future__ import annotations

from typing import Annotated

import typer

from dtmgp import __version__
from dtmgp.cli import emulating, fitting, predicting, reporting, serving, studies

app = typer.Typer(
    name="dtmgp",
    help="Emulators of stochastic simulations: fit, predict, sample, report, emulate, serve.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dtmgp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Emulators of stochastic simulations: fit, predict, sample, report, emulate, serve.

    Tables are CSV or Parquet with column names; [bold]-[/bold] is the standard input or output. Exit codes: 0 done,
    2 an error that you can mend, told in one line. [bold]dtmgp COMMAND --help[/bold] shows an example of each command.
    """


for group in (fitting, predicting, reporting, emulating, serving, studies):
    group.register(app)
