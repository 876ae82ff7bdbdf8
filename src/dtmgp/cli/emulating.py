"""`dtmgp emulate`: a simulator in; a model, all its runs and a report on fresh runs out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say
from dtmgp.errors import InputError

if TYPE_CHECKING:
    from dtmgp.executors import Executor


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(emulate)


def emulate(
    simulator: Annotated[
        str, typer.Argument(help="module:function, module:Class, or a shell command in quotes.")
    ],
    budget: Annotated[int, typer.Option("--budget", "-n", min=1, help="Runs in all, validation included.")],
    bounds: Annotated[
        str | None, typer.Option("--bounds", "-b", help="a=0:1,b=-2:2. Default: those of the simulator.")
    ] = None,
    replicates: Annotated[int, typer.Option("--replicates", "-r", min=1, help="Runs at an input.")] = 5,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for state and results; the same command resumes.")
    ] = Path("campaign"),
    score: Annotated[str, typer.Option(help="Where runs help most: alc, law or alm.")] = "alc",
    target_crps: Annotated[float | None, typer.Option(help="Stop at this CRPS on the fresh runs.")] = None,
    target_rmse: Annotated[float | None, typer.Option(help="Stop at this RMSE on the fresh runs.")] = None,
    initial: Annotated[
        int | None, typer.Option(help="Inputs of the first design. Default: from the budget.")
    ] = None,
    validation: Annotated[int | None, typer.Option(help="Inputs of the validation. Default: 20%.")] = None,
    batch: Annotated[int | None, typer.Option(help="Runs per round. Default: eight rounds.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="Further attempts of a failed run.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as failed.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Runs at a time; -1: one per core.")] = 1,
    executor: options.ExecutorName = "joblib",
    address: options.Address = None,
    form: Annotated[str, typer.Option(help="What a shell command reads: csv or json.")] = "csv",
    output: Annotated[
        str | None, typer.Option(help="Which output of a shell command, if it writes several.")
    ] = None,
    model: options.ModelKind = "auto",
    settings: options.Settings = None,
    seed: options.Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run a simulator where it helps most, fit a model, and say on fresh runs how good it is.

    A shell command gets one line of inputs (names, then values, and a seed) and answers with a number. State is
    kept in the folder: a killed campaign goes on with the same command.

    Example: [bold]dtmgp emulate dtmgp.simulators:MM1Queue --budget 300 --out queue[/bold]

    Example: [bold]dtmgp emulate "./model --fast" --bounds load=0:1,speed=5:9 --budget 300 --timeout 60[/bold]
    """
    from dtmgp.emulation import SCORES, Form, ShellCommand, Target
    from dtmgp.emulation import emulate as run
    from dtmgp.emulation.sources import PATH
    from dtmgp.executors import ending

    box = options.parse_bounds(bounds)
    if score not in SCORES:
        raise InputError("--score", got=repr(score), expected=", ".join(SCORES))
    if form not in list(Form):
        raise InputError("--form", got=repr(form), expected=", ".join(Form))
    given = {"crps": target_crps, "rmse": target_rmse}
    target = Target(**given) if any(value is not None for value in given.values()) else None
    source = simulator if PATH.match(simulator.strip()) else ShellCommand(simulator, Form(form), output)
    worker = chosen_executor(executor, jobs, address)
    with ending(worker):
        result = run(
            source,
            None if box is None else list(box.values()),
            budget=budget,
            replicates=replicates,
            model=options.chosen_estimator(model, settings or [], seed),
            score=SCORES[score],
            target=target,
            names=None if box is None else list(box),
            output="y" if output is None else output,
            initial=initial,
            validation=validation,
            batch=batch,
            retries=retries,
            timeout=timeout,
            n_jobs=jobs,
            executor=worker,
            folder=out,
            random_state=seed,
            verbose=0 if quiet else 1,
        )
    failed = sum(error is not None for error in result.runs.columns()["error"])
    if as_json:
        emit(
            {
                "model": type(result.model).__name__,
                "runs": len(result.runs),
                "failed": failed,
                "stopped": result.stopped,
                "validation": None if result.report is None else result.report.to_dict(),
                "out": str(out),
            }
        )
        return
    say(f"{len(result.runs)} runs, {failed} failed; {result.stopped}")
    if result.report is not None:
        say(f"\n{result.report}\n")
    say(
        f"saved in {out}: "
        + ", ".join(sorted(p.name for p in out.iterdir() if p.name != "lock" and p.name[0] != "."))
    )


def chosen_executor(name: str, jobs: int, address: str | None) -> Executor | None:
    """None for joblib: `emulate` then knows whether runs may hang."""
    from dtmgp.executors import executor_named

    found = executor_named(name, jobs, address)
    return None if name == "joblib" else found
