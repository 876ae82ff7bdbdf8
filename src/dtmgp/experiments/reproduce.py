"""The studies by name: each writes its files into a folder and returns the lines to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dtmgp.errors import InputError
from dtmgp.executors import ending, executor_named
from dtmgp.experiments import deep_theory, theory
from dtmgp.experiments.figures import deep_figure, theory_figure
from dtmgp.experiments.results import Value, origin, read_csv, write_csv
from dtmgp.experiments.study_options import StudyOptions

SEED = 0


def reproduce_theory(out: Path, full: bool, command: str, figure: Path | None = None) -> list[str]:
    """Theorem 3: ``theory_residual.csv``, ``theory_slopes.csv``; Theorem 4: ``theory_deep*.csv``; a figure of each."""
    stated = origin(command, SEED)
    target = out / "theory_residual.csv"
    rows = list(theory.study(theory.FULL if full else theory.QUICK, random_state=SEED))
    write_csv(target, rows, stated)
    table = read_csv(target)
    fitted = theory.slopes(table)
    write_csv(out / "theory_slopes.csv", fitted, stated)
    lines = [
        "Largest residual variance over the closed unit cube, divided by the rate (theory: bounded)",
        f"{'kernel':16} d {'levels':>6}  over l^(2d-2)/2^l: first, middle, last   over l^(d-1)/2^l: the same",
    ]
    for summary in fitted:
        own = [r for r in table.rows if r["kernel"] == summary["kernel"] and r["dim"] == summary["dim"]]
        if own[0]["over_level_rate"] is not None:
            shown = [own[0], own[len(own) // 2], own[-1]]
            cells = [
                "".join(f"{float(row[name]):12.3g}" for row in shown)  # type: ignore[arg-type]
                for name in ("over_level_rate", "over_sharp_rate")
            ]
            lines.append(f"{summary['kernel']:16} {summary['dim']} {len(own):6}  {cells[0]}   {cells[1]}")
    lines += ["", "Slopes over the upper half of the levels", f"{'kernel':16} d  in l    in m"]
    lines += [
        f"{row['kernel']:16} {row['dim']} {_number(row['level_exponent'])} {_number(row['feature_slope'])}"
        for row in fitted
    ]
    deep = out / "theory_deep.csv"
    write_csv(deep, list(deep_theory.study(16 if full else 10, random_state=SEED)), stated)
    deep_slopes = deep_theory.slopes(read_csv(deep))
    write_csv(out / "theory_deep_slopes.csv", deep_slopes, stated)
    lines += [
        "",
        "Theorem 4: L2 distance of a deep process and its expansion, slopes in m over the upper half of the levels",
        f"{'widths':20} {'levels':>6}  slope  of the bound   distance / bound: first, last",
    ]
    lines += [
        f"{row['case']!s:20} {row['levels']!s:>6} {_number(row['slope'])}        {_number(row['rate_slope'])}"
        f"   {_number(row['over_rate_first'])} {_number(row['over_rate_last'])}"
        for row in deep_slopes
    ]
    drawn = out / "theory_residual.png" if figure is None else figure
    deep_drawn = drawn.with_name("theory_deep.png")
    written = [target, out / "theory_slopes.csv", deep, out / "theory_deep_slopes.csv"]
    try:
        theory_figure(target, drawn)
        deep_figure(deep, deep_drawn)
        written += [drawn, deep_drawn]
    except InputError as error:
        lines.append(str(error))
    return [*lines, "", "written: " + ", ".join(map(str, written))]


def _number(value: Value) -> str:
    return f"{'-':>6}" if value is None else f"{float(value):6.2f}"


def reproduce_study(
    study: str, out: Path, full: bool, command: str, options: StudyOptions, say: Callable[[str], None]
) -> list[str]:
    """One of the simulation studies: a log of rows that later runs go on with, its tables, a figure per variant."""
    from dtmgp.experiments.studies.log import ResultLog
    from dtmgp.experiments.studies.options import VARIANTS, plan
    from dtmgp.experiments.studies.runner import COLUMNS, run_study
    from dtmgp.experiments.studies.summary import describe, summary, times
    from dtmgp.experiments.study_figures import study_figure

    executor = executor_named(options.executor, options.jobs, options.address)

    cells, models, protocol = plan(study, full, options)
    stem = study.replace("-", "_")
    target = out / f"{stem}.csv"
    log = ResultLog(target, COLUMNS)
    log.open(origin(command, SEED), protocol.describe(cells[0].problem))
    try:
        with ending(executor):
            run_study(cells, models, protocol, log, executor=executor, say=say)
    except KeyboardInterrupt:
        say(
            f"interrupted; {target} keeps {len(log.read().rows)} rows, and the same command goes on from there"
        )
    table = log.read()
    lines: list[str] = describe(table.rows)
    written = [target]
    for name, rows in (("summary", summary(table.rows)), ("times", times(table.rows))):
        if rows:
            written.append(out / f"{stem}_{name}.csv")
            write_csv(written[-1], rows, table.origin)
    averages = summary(table.rows)
    for variant in dict.fromkeys(str(row["variant"]) for row in averages):
        drawn = out / f"{stem}_{variant}.png"
        try:
            words = VARIANTS[study][variant]
            study_figure(averages, variant, drawn, cells[0].problem.size_name, f"{study}: {words}")
            written.append(drawn)
        except InputError as error:
            lines.append(str(error))
    return [*lines, "", "written: " + ", ".join(map(str, written))]


STUDIES = ("theory", "random-field", "activity-network", "rc49")


def reproduce(
    study: str,
    out: Path,
    *,
    full: bool = False,
    command: str = "",
    figure: Path | None = None,
    options: StudyOptions | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Run a study by its name; ``say`` hears of its progress."""
    options = StudyOptions() if options is None else options
    if study not in STUDIES:
        raise InputError("study", got=repr(study), expected=f"one of {', '.join(STUDIES)}")
    if out.exists() and not out.is_dir():
        raise InputError("--out", got=f"the file {out}", expected="a folder, or a new name for one")
    if study == "theory":
        if options.given:
            raise InputError(
                f"{' '.join(options.given)} with theory",
                got="an option of the simulation studies",
                expected="random-field or activity-network",
            )
        return reproduce_theory(out, full, command, figure)
    if figure is not None:
        raise InputError("--figure", got=str(figure), expected="none: there is one per variant, in --out")
    if study == "rc49":
        if options.given:
            raise InputError(
                f"{' '.join(options.given)} with rc49",
                got="an option of the simulation studies",
                expected="random-field or activity-network",
            )
        from dtmgp.experiments.rc49_reproduce import reproduce_rc49

        return reproduce_rc49(out, full, command, say)
    return reproduce_study(study, out, full, command, options, say)
