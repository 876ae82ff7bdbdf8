"""`dtmgp reproduce`, `dtmgp bench` and `dtmgp info`: studies, benchmarks, and where they run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from dtmgp.cli import options
from dtmgp.cli.console import emit, say, split_names
from dtmgp.errors import InputError

SHARED = {"common", "fused_common"}  # modules of benchmarks/ that are no scripts
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "matplotlib", "pandas", "pyarrow", "joblib")


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command()(reproduce)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)
    app.command()(info)


def reproduce(
    study: Annotated[
        str, typer.Argument(help="Which study: theory, random-field, activity-network or rc49.")
    ],
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="The whole study (hours) or a small one (minutes)."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the result files.")] = Path("out"),
    figure: Annotated[
        Path | None, typer.Option(help="Where theory's first figure goes, if not into --out.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Training inputs n, or replicates m, separated by commas.")
    ] = None,
    replications: Annotated[int | None, typer.Option(help="Macro-replications.")] = None,
    models: Annotated[str | None, typer.Option(help="Some of the models, separated by commas.")] = None,
    variants: Annotated[
        str | None, typer.Option(help="independent, path; or runs-1, runs-1000. Separated by commas.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds of processor time after which a fit stops.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Macro-replications at a time; -1: one per core.")] = 1,
    executor: options.ExecutorName = "joblib",
    address: options.Address = None,
) -> None:
    """Run a study: write its tables and its figure, print its summary.

    The simulation studies add rows to their file as they finish; the same command goes on after an interruption.

    Example: [bold]dtmgp reproduce random-field --quick --out out[/bold]

    Example: [bold]dtmgp reproduce random-field --full --executor ray --address 10.0.0.1:6379[/bold]
    """
    from dtmgp.experiments.reproduce import reproduce as run
    from dtmgp.experiments.study_options import StudyOptions

    words = ["dtmgp", "reproduce", study, "--full" if full else "--quick", "--out", str(out)]
    for option, value in {
        "--figure": figure,
        "--sizes": sizes,
        "--replications": replications,
        "--models": models,
        "--variants": variants,
        "--time-limit": time_limit,
        "--jobs": None if jobs == 1 else jobs,
        "--executor": None if executor == "joblib" else executor,
        "--address": address,
    }.items():
        words += [] if value is None else [option, f"{value:g}" if isinstance(value, float) else str(value)]
    chosen = StudyOptions(
        sizes=None if sizes is None else _integers("--sizes", sizes),
        replications=replications,
        models=split_names(models),
        variants=split_names(variants),
        time_limit=time_limit,
        jobs=jobs,
        executor=executor,
        address=address,
    )
    for line in run(
        study,
        out,
        full=full,
        command=shlex.join(words),
        figure=figure,
        options=chosen,
        say=lambda line: say(line, to_error=True),
    ):
        typer.echo(line)


def _integers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise InputError(option, got=repr(text), expected="whole numbers, separated by commas")
    return [int(part) for part in parts]


def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Script of benchmarks/. Default: list them.")] = None,
) -> None:
    """Run a script of the folder benchmarks/ with the arguments that follow its name, or list the scripts.

    Example: [bold]dtmgp bench emulate_against_lhs --seeds 2[/bold]
    """
    scripts = find_scripts()
    if name is None:
        for script in scripts.values():
            first = script.read_text(encoding="utf-8").lstrip('"').split("\n", 1)[0]
            typer.echo(f"{script.stem:24} {first.rstrip(chr(34))}")
        return
    if name.removesuffix(".py") not in scripts:
        raise InputError(f"benchmark {name!r}", got="no such script", expected=f"one of {', '.join(scripts)}")
    script = scripts[name.removesuffix(".py")]
    done = subprocess.run([sys.executable, str(script), *context.args], check=False)
    raise typer.Exit(done.returncode)


def find_scripts() -> dict[str, Path]:
    """The scripts of ``benchmarks/`` in the current folder, or in the checkout that this package is imported from."""
    places = [Path.cwd(), Path(__file__).resolve().parents[3]]
    for place in places:
        found = sorted((place / "benchmarks").glob("*.py"))
        if found:
            return {path.stem: path for path in found if path.stem not in SHARED}
    raise InputError(
        "benchmarks",
        got=f"no folder benchmarks in {places[0]}",
        expected="a checkout of the repository: installed packages do not hold the scripts",
        do="run it in the root of the repository",
    )


def info(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="A model file. Default: this installation.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print what is in a model file; without one: versions, the folder of compiled code, the cores that may be used.

    Example: [bold]dtmgp info queue.dtmgp[/bold]

    Example: [bold]dtmgp info --json[/bold]
    """
    if model is not None:
        from dtmgp.cli.describing import describe_model, say_model

        found = describe_model(model)
        if as_json:
            emit(found)
        else:
            say_model(model, found)
        return
    from importlib.metadata import PackageNotFoundError, version

    from dtmgp import __version__
    from dtmgp.expansion import _jit
    from dtmgp.experiments.results import commit, machine

    facts: dict[str, str | None] = {"dtmgp": f"{__version__} ({commit()})", "machine": machine()}
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = None
    facts |= {"compiled code": str(_jit.tensor_features.stats.cache_path), "interpreter": sys.executable}
    if as_json:
        emit(facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name:13} {'not installed' if value is None else value}")
