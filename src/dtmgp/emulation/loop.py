"""`emulate`: simulator in, validated emulator out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from dtmgp.emulation.assessment import Target, ValidationReport
from dtmgp.emulation.campaign import Campaign
from dtmgp.emulation.executors import default_executor, make_runs
from dtmgp.emulation.log import write_text
from dtmgp.emulation.progress import Progress, progress_for
from dtmgp.emulation.record import RunTable
from dtmgp.emulation.scores import Score
from dtmgp.emulation.shell import ShellCommand
from dtmgp.emulation.sources import as_source
from dtmgp.errors import InputError
from dtmgp.executors import Executor

HOPELESS = 10  # failures, and not one output, after which a campaign stops


@dataclasses.dataclass(frozen=True)
class Emulation:
    """What `emulate` returns: the fitted model, all runs, and the report on the runs that the model never saw.

    ``report`` is None if there were no validation runs; ``stopped`` says why the campaign ended.
    """

    model: Any
    runs: RunTable
    report: ValidationReport | None
    stopped: str

    def __repr__(self) -> str:
        crps = "" if self.report is None else f", CRPS {self.report.model.crps:.4g}"
        return f"Emulation({type(self.model).__name__}, {len(self.runs)} runs{crps}; {self.stopped})"

    def save(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """Write ``model.dtmgp``, ``runs.parquet`` (``runs.csv`` without pyarrow) and ``validation.json``."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = {"model": target / "model.dtmgp"}
        self.model.save(written["model"])
        try:
            import pyarrow.parquet  # noqa: F401

            written["runs"] = self.runs.write(target / "runs.parquet")
        except ModuleNotFoundError:
            written["runs"] = self.runs.write(target / "runs.csv")
        if self.report is not None:
            written["validation"] = target / "validation.json"
            write_text(written["validation"], self.report.to_json() + "\n")
        return written


def emulate(
    simulator: Any,
    bounds: npt.ArrayLike | None = None,
    *,
    budget: int,
    replicates: int = 5,
    model: Any = None,
    score: Score | None = None,
    target: Target | None = None,
    names: Sequence[str] | None = None,
    output: str = "y",
    initial: int | None = None,
    validation: int | None = None,
    batch: int | None = None,
    retries: int = 1,
    timeout: float | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    folder: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    verbose: int = 1,
) -> Emulation:
    """Learn the law of a simulator's output from ``budget`` runs, and say on fresh runs how good that is.

    Arguments: ``simulator`` is a function ``f(x)`` or ``f(x, random_state)`` of inputs (d,), an object with
    ``sample(X, n_replicates, random_state)``, a text ``module:function``, or a shell command (`ShellCommand`).
    ``bounds`` (d, 2) and ``names`` default to those of the simulator. ``timeout`` is in seconds per run; with it, or
    with ``n_jobs``, runs are made in worker processes, unless ``executor`` (`dtmgp.executors`: Ray, Dask) says
    otherwise. ``target`` ends the campaign
    before the budget is spent. ``verbose=0`` is silent. The others are those of `Campaign`.

    With a ``folder`` nothing is lost: call again with the same arguments, and the campaign goes on where it was
    killed; finished ones can be given a larger ``budget``. Model, runs and report are written there, too.

    >>> from dtmgp import TMGPRegressor
    >>> from dtmgp.simulators import MM1Queue
    >>> result = emulate(MM1Queue(), budget=60, replicates=4, model=TMGPRegressor(), verbose=0)
    >>> len(result.runs), result.stopped
    (60, 'the budget is spent')
    """
    source, described = as_source(simulator)
    bounds = getattr(described, "bounds", None) if bounds is None else bounds
    if bounds is None:
        raise InputError(
            "bounds",
            got="none, and the simulator has none",
            expected="(d, 2): a lower and an upper bound for every input",
        )
    names = getattr(described, "input_names", None) if names is None else names
    if timeout is not None and not timeout > 0:
        raise InputError("timeout", got=repr(timeout), expected="a positive number of seconds, or None")
    progress = progress_for(verbose)
    campaign = Campaign(
        bounds,
        budget=budget,
        replicates=replicates,
        model=model,
        score=score,
        names=names,
        output=output,
        initial=initial,
        validation=validation,
        batch=batch,
        retries=retries,
        folder=folder,
        random_state=random_state,
        report=progress.say,
    )
    if isinstance(source, ShellCommand) and not source.names:
        source = dataclasses.replace(source, names=campaign.settings.names)
    worker = default_executor(n_jobs, timeout, source) if executor is None else executor
    with campaign, progress:
        if campaign.done:
            progress.say(f"resumed: {campaign.done} runs are there already")
        stopped, report = _loop(campaign, source, worker, timeout, target, progress)
        result = Emulation(campaign.model, campaign.runs, report, stopped)
        if folder is not None:
            result.save(folder)
    return result


def _loop(
    campaign: Campaign,
    source: Any,
    executor: Executor,
    timeout: float | None,
    target: Target | None,
    progress: Progress,
) -> tuple[str, ValidationReport | None]:
    """Rounds until the budget is spent or the target reached; why it ended, and the last report."""
    total, made, failed = campaign.settings.budget, 0, 0
    report: ValidationReport | None = None
    while True:
        runs = campaign.ask()
        if not runs:
            return "the budget is spent", _validated(campaign) if report is None else report
        for outcome in make_runs(executor, source, runs, timeout):
            campaign.tell(outcome)
            progress.step(campaign.done, total)
            made, failed = made + 1, failed + outcome.failed
            if made == failed == HOPELESS:
                raise InputError(
                    "simulator",
                    got=f"{failed} failures in the first {made} runs, the last one: {outcome.error}",
                    expected="outputs",
                    do="mend the simulator and try one run by hand; a campaign with a folder then goes on",
                )
        report = None
        if campaign.complete:
            report = _validated(campaign)
            if report is not None:
                new = len({run.x for run in runs})
                progress.say(
                    f"round {campaign.round}: {campaign.done} runs ({new} inputs in this round), "
                    f"CRPS {report.model.crps:.4g} on {report.runs} fresh runs"
                )
                if target is not None and target.reached(report):
                    return "the target is reached", report


def _validated(campaign: Campaign) -> ValidationReport | None:
    return campaign.validate() if campaign.settings.validation else None
