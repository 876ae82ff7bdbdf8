"""`dtmgp fit`: a table in, a model file out, and what a person should know about both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say, split_names
from dtmgp.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(fit)


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="CSV or Parquet, or a folder of Parquet files; - for the standard input."
        ),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="Output column; several: a,b.")],
    inputs: Annotated[
        str | None, typer.Option("--inputs", "-i", help="Input columns, a,b. Default: all but the target.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file. Default: TABLE's name.dtmgp.")
    ] = None,
    model: options.ModelKind = "auto",
    settings: options.Settings = None,
    bounds: Annotated[
        str | None, typer.Option(help="a=0:1,b=0:5: the box of the inputs. Default: the data's range.")
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of the distinct inputs that are held out. 0: none.")
    ] = 0.2,
    test: Annotated[str | None, typer.Option(help="Table of held-out rows, instead of a share.")] = None,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Fit to all rows after the held-out score.")
    ] = True,
    drop_missing: options.DropMissing = False,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read Parquet piece by piece, as for a folder, and do not load it."),
    ] = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Fit a model to a table and save it; print its score on held-out rows beside trivial models.

    Rows with the same inputs are replicates, and are held out together. A folder of Parquet files is streamed: it may
    be larger than the memory.

    Example: [bold]dtmgp fit runs.csv --target wait --inputs arrival,service --out queue.dtmgp[/bold]
    """
    from dtmgp.cli.launching import first_of_fit
    from dtmgp.cli.streaming import fit_streamed, loaded, rows_of
    from dtmgp.cli.tables import check_present, numeric_columns, read_table
    from dtmgp.emulation.assessment import assess, hold_out

    first = first_of_fit(data, model)
    targets = split_names(target) or []
    rows = rows_of(data, targets, split_names(inputs), stream=stream, drop_missing=drop_missing)
    if rows is not None and rows.rows > rows.streaming.start:
        path = _model_file(out, data)
        estimator = options.chosen_estimator(model, settings or [], seed)
        _set_bounds(estimator, bounds, list(rows.names))
        fit_streamed(
            rows, estimator, path, held_out=held_out, test=test, seed=seed, as_json=as_json, first=first
        )
        return
    table = read_table(data) if rows is None else loaded(rows)
    check_present(table, targets, data)
    chosen = split_names(inputs) or [name for name in table.columns if name not in targets]
    clash = [name for name in chosen if name in targets]
    if clash or not chosen:
        raise InputError(
            "--inputs", got=", ".join(clash) or "no column", expected="columns besides the target"
        )
    path = _model_file(out, data)
    kept, keep = numeric_columns(table, [*chosen, *targets], data, drop_missing=drop_missing)
    x, y = kept[chosen], kept[targets].to_numpy()
    if len(x) < 10:
        raise InputError(f"table {data}", got=f"{len(x)} rows", expected="at least 10 to learn from")
    estimator = options.chosen_estimator(model, settings or [], seed)
    _set_bounds(estimator, bounds, chosen)
    facts: dict[str, Any] = {
        "table": data,
        "rows": len(x),
        "left_out": int((~keep).sum()),
        "inputs": chosen,
        "targets": targets,
        **_replicates(x.to_numpy()),
        "seed": seed,
    }
    if test is None:
        learn = hold_out(x.to_numpy(), held_out, seed)
        x_test, y_test = x[~learn], y[~learn]
    else:
        other, _ = numeric_columns(read_table(test), [*chosen, *targets], test, drop_missing=drop_missing)
        learn = hold_out(x.to_numpy(), 0.0, seed)
        x_test, y_test = other[chosen], other[targets].to_numpy()
    facts |= {"learn_rows": int(learn.sum()), "test_rows": len(x_test), "test": test}
    if not as_json:
        _say_data(facts)
    start = time.perf_counter()
    fitted = estimator.fit(x[learn], _shaped(y[learn]))
    facts |= {"model": type(fitted).__name__, "seconds": round(time.perf_counter() - start, 2)}
    reports: dict[str, Any] = {}
    for k, name in enumerate(targets if len(x_test) >= 2 and first else []):
        several = k if len(targets) > 1 else None
        reports[name] = assess(
            fitted,
            x_test.to_numpy(),
            _shaped(y_test),
            x[learn].to_numpy(),
            y[learn, k],
            output=several,
            random_state=seed,
        )
    if not as_json:
        say(f"model: {facts['model']}, fitted in {facts['seconds']:g} s")
        if hasattr(fitted, "summary"):
            say(fitted.summary())
        for name, report in reports.items():
            say(f"\n{name}, {'rows of ' + test if test else 'held-out rows'}:\n{report}\n")
    if refit and not learn.all():
        _other_checkpoint(estimator)
        fitted = estimator.fit(x, _shaped(y))
    if not first:
        return
    fitted.save(path)
    facts |= {
        "refitted": bool(refit and not learn.all()),
        "held_out": {name: report.to_dict() for name, report in reports.items()},
        "out": str(path),
        "bytes": path.stat().st_size,
    }
    if as_json:
        emit(facts)
        return
    if facts["refitted"]:
        say(f"fitted again to all {facts['rows']} rows: the scores above are those of the first fit")
    say(f"saved: {path} ({max(1, round(facts['bytes'] / 1000))} kB)")


def _model_file(out: Path | None, data: str) -> Path:
    path = out or Path("model.dtmgp" if data == "-" else f"{Path(data).stem}.dtmgp")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}", got=f"no folder {path.parent}", expected="a folder that exists")
    return path


def _set_bounds(estimator: Any, text: str | None, names: list[str]) -> None:
    found = options.parse_bounds(text)
    if found is None:
        return
    if set(found) != set(names):
        raise InputError("--bounds", got=", ".join(found), expected=f"bounds of {', '.join(names)}")
    estimator.set_params(bounds=[found[name] for name in names])


def _other_checkpoint(estimator: Any) -> None:
    """The second fit has other data: a run that is killed in it must not meet the file of the first."""
    file = estimator.get_params(deep=False).get("checkpoint")
    if file is not None:
        estimator.set_params(checkpoint=f"{file}.refit")


def _replicates(x: Any) -> dict[str, Any]:
    import numpy as np

    counts = np.unique(x, axis=0, return_counts=True)[1]
    return {
        "distinct_inputs": len(counts),
        "fewest_replicates": int(counts.min()),
        "most_replicates": int(counts.max()),
    }


def _say_data(facts: dict[str, Any]) -> None:
    few, most = facts["fewest_replicates"], facts["most_replicates"]
    times = (
        "no replicates" if most == 1 else f"{few} runs each" if few == most else f"{few} to {most} runs each"
    )
    left_out = f" ({facts['left_out']} left out)" if facts["left_out"] else ""
    name = "standard input" if facts["table"] == "-" else facts["table"]
    say(f"{name}: {facts['rows']} rows{left_out}")
    say(f"inputs: {', '.join(facts['inputs'])}; output: {', '.join(facts['targets'])}")
    say(f"distinct inputs: {facts['distinct_inputs']}, {times}")
    if facts["test"] is None:
        say(
            f"split: {facts['learn_rows']} rows to learn, {facts['test_rows']} held out, "
            f"by distinct input, seed {facts['seed']}"
        )


def _shaped(y: Any) -> Any:
    """(n,) for one output."""
    return y[:, 0] if y.shape[1] == 1 else y
