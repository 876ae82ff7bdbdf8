"""`dtmgp report`: a model file and held-out rows in, one HTML file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say, split_names
from dtmgp.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(report)


def report(
    model: options.ModelFile,
    data: options.TableFile,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Output column. Default: the only one besides the inputs."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(help="Table that the model was fitted to, for trivial models to compare with."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file. Default: MODEL's name.html.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    drop_missing: options.DropMissing = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write one HTML file about a model: accuracy on held-out rows, calibration, effects, a profiler.

    Example: [bold]dtmgp report queue.dtmgp fresh.csv --target wait --train runs.csv --out queue.html[/bold]
    """
    from dtmgp.cli.tables import numeric_columns, read_table
    from dtmgp.estimators.loading import load_model
    from dtmgp.report import write_report

    fitted = load_model(model)
    table = read_table(data)
    names = options.input_names(fitted, table, data)
    others = [name for name in table.columns if name not in names]
    targets = split_names(target) or others
    if target is None and len(others) != 1:
        raise InputError(
            "--target",
            got=f"none, and {len(others)} columns besides the inputs"
            + (f": {', '.join(others)}" if others else ""),
            expected="the name of the output column",
        )
    kept, _ = numeric_columns(table, [*names, *targets], data, drop_missing=drop_missing)
    trained = None
    if train is not None:
        trained, _ = numeric_columns(read_table(train), [*names, *targets], train, drop_missing=drop_missing)
    path = write_report(
        fitted,
        kept[names],
        kept[targets].to_numpy(),
        out or Path(model).with_suffix(".html").name,
        X_train=None if trained is None else trained[names],
        y_train=None if trained is None else trained[targets].to_numpy(),
        title=title,
        output_names=targets,
        random_state=seed,
    )
    facts = {"rows": len(kept), "targets": targets, "out": str(path), "bytes": path.stat().st_size}
    if as_json:
        emit(facts)
    else:
        say(f"saved: {path} ({path.stat().st_size / 1e6:.1f} MB, from {len(kept)} held-out rows)")
