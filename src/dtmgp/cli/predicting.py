"""`dtmgp predict` and `dtmgp sample`: a model file and a table of inputs in, a table out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say, split_numbers

if TYPE_CHECKING:
    import pandas as pd

Out = Annotated[str, typer.Option("--out", "-o", help="CSV or Parquet file; - for the standard output.")]
Only = Annotated[bool, typer.Option("--only", help="Leave the columns of the input table out.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(predict)
    app.command()(sample)


def predict(
    model: options.ModelFile,
    data: options.TableFile,
    out: Out = "-",
    quantiles: Annotated[str | None, typer.Option("--quantiles", "-q", help="Levels: 0.05,0.5,0.95.")] = None,
    interval: Annotated[
        float | None, typer.Option(help="Coverage of a central interval, e.g. 0.9: columns low, high.")
    ] = None,
    only: Only = False,
    drop_missing: options.DropMissing = False,
    as_json: options.Json = False,
) -> None:
    """Mean, standard deviation, quantiles and intervals of Y(x), noise included, for every row of a table.

    Example: [bold]dtmgp predict queue.dtmgp new.csv --interval 0.9 --quantiles 0.5,0.99 --out out.csv[/bold]
    """
    fitted, table, inputs = _opened(model, data, drop_missing)
    mean, std = fitted.predict(inputs, return_std=True)
    columns: dict[str, Any] = {"mean": mean, "std": std}
    for level in split_numbers(quantiles, "--quantiles", 0.0, 1.0) if quantiles else []:
        columns[f"q{level:g}"] = fitted.predict_quantiles(inputs, level)
    if interval is not None:
        columns["low"], columns["high"] = fitted.predict_interval(inputs, interval)
    _write(table, _flat(columns), out, only, as_json)


def sample(
    model: options.ModelFile,
    data: options.TableFile,
    out: Out = "-",
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Draws per row.")] = 1,
    functions: Annotated[
        bool, typer.Option("--functions", help="Draws of the mean response, each consistent over rows.")
    ] = False,
    only: Only = False,
    drop_missing: options.DropMissing = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Draw from the predicted law of Y(x) at every row of a table: columns draw1, draw2, ...

    Example: [bold]dtmgp sample queue.dtmgp new.csv --number 1000 --out draws.parquet[/bold]
    """
    fitted, table, inputs = _opened(model, data, drop_missing)
    draw = fitted.sample_functions if functions else fitted.sample_y
    draws = np.asarray(draw(inputs, number, seed))
    columns = {f"draw{k + 1}": draws[..., k] for k in range(number)}
    _write(table, _flat(columns), out, only, as_json)


def _opened(model: str, data: str, drop_missing: bool) -> tuple[Any, pd.DataFrame, Any]:
    """The fitted model, the rows of the table that are used, and its inputs."""
    from dtmgp.cli.tables import read_table
    from dtmgp.estimators.loading import load_model

    fitted = load_model(model)
    table = read_table(data)
    inputs, keep, outside = options.model_inputs(fitted, table, data, drop_missing=drop_missing)
    if outside:
        say(
            f"note: {outside} of {len(inputs)} rows lie outside the range of the fit: extrapolation",
            to_error=True,
        )
    return fitted, table.loc[keep].reset_index(drop=True), inputs


def _flat(columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """One column per output: ``mean`` for one, ``y0_mean``, ``y1_mean`` for several."""
    flat: dict[str, np.ndarray] = {}
    for name, values in columns.items():
        array = np.asarray(values)
        if array.ndim == 1 or array.shape[1] == 1:
            flat[name] = array.reshape(len(array))
        else:
            flat |= {f"y{k}_{name}": array[:, k] for k in range(array.shape[1])}
    return flat


def _write(table: pd.DataFrame, columns: dict[str, np.ndarray], out: str, only: bool, as_json: bool) -> None:
    import pandas as pd

    from dtmgp.cli.tables import write_table

    new = pd.DataFrame(columns)
    old = table.drop(columns=[name for name in table.columns if only or name in columns])
    joined = pd.concat([old, new], axis=1)
    if as_json and out == "-":
        emit(joined.to_dict(orient="records"))
        return
    write_table(joined, out)
    if as_json:
        emit({"rows": len(joined), "columns": list(joined.columns), "out": out})
    elif out != "-":
        say(f"saved: {out} ({len(joined)} rows, {len(joined.columns)} columns)")
