"""Where runs are made: here, or in worker processes whose death costs one run at most."""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from dtmgp.emulation.runs import Outcome, Run
from dtmgp.emulation.shell import RunFailed, RunTimeout, ShellCommand
from dtmgp.emulation.sources import Source
from dtmgp.errors import InputError

GRACE = 5.0  # seconds between the polite and the hard end of a run that hangs


@runtime_checkable
class Executor(Protocol):
    """Makes runs and yields their outcomes as they finish, in any order, one for every run.

    An executor for a cluster is one method: submit ``execute(source, run, timeout)`` and yield what it returns.
    """

    def run(self, source: Source, runs: Sequence[Run], timeout: float | None = None) -> Iterator[Outcome]:
        """Outcomes as they finish; a run that is lost has an outcome with an error."""
        ...


def execute(source: Source, run: Run, timeout: float | None = None) -> Outcome:
    """Make one run; exceptions, values that are not finite and time-outs become the error of its outcome.

    >>> execute(lambda x, seed, timeout: 1 / x[0], Run(0, (0.0,), seed=0)).error
    'ZeroDivisionError: float division by zero'
    """
    start = time.perf_counter()
    y, error = None, None
    try:
        with _time_limit(None if isinstance(source, ShellCommand) else timeout):
            value = float(source(run.x, run.seed, timeout))
        if math.isfinite(value):
            y = value
        else:
            error = f"output {value}"
    except RunFailed as failure:
        error = str(failure)
    except Exception as failure:
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500].rstrip(": ")
    return Outcome(run.number, run.attempt, y, error, round(time.perf_counter() - start, 6))


class SerialExecutor:
    """One run after another in this process.

    Time limits interrupt Python code only, in the main thread only, on POSIX only; :class:`JoblibExecutor` has no such
    limits.

    >>> runs = [Run(k, (float(k),), seed=0) for k in range(3)]
    >>> [outcome.y for outcome in SerialExecutor().run(lambda x, seed, timeout: 2 * x[0], runs)]
    [0.0, 2.0, 4.0]
    """

    def run(self, source: Source, runs: Sequence[Run], timeout: float | None = None) -> Iterator[Outcome]:
        """Outcomes in the order of the runs."""
        for run in runs:
            yield execute(source, run, timeout)


class JoblibExecutor:
    """Runs in ``n_jobs`` worker processes of joblib (-1: one per core).

    joblib gives up a whole call when a worker dies. Here every outcome is yielded as it finishes; after a death the
    rest is made in groups of ``n_jobs``, the members of a group that dies one by one, and a run that takes its
    process with it has an outcome like any other failure. A run that ignores its time limit is ended together with
    its process, by a watchdog that needs no help from Python.
    """

    def __init__(self, n_jobs: int = -1) -> None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
            raise InputError(
                "n_jobs", got=repr(n_jobs), expected="a number of processes, or -1 for all cores"
            )
        self.n_jobs = n_jobs

    def __repr__(self) -> str:
        return f"JoblibExecutor(n_jobs={self.n_jobs})"

    def run(self, source: Source, runs: Sequence[Run], timeout: float | None = None) -> Iterator[Outcome]:
        """Outcomes as they finish."""
        import joblib  # type: ignore[import-untyped]

        workers = joblib.effective_n_jobs(self.n_jobs)
        left = {run.key: run for run in runs}
        for outcome in self._group(source, list(left.values()), timeout, workers):
            del left[outcome.key]
            yield outcome
        rest = list(left.values())
        for start in range(0, len(rest), workers):
            group = {run.key: run for run in rest[start : start + workers]}
            for outcome in self._group(source, list(group.values()), timeout, workers):
                del group[outcome.key]
                yield outcome
            for run in group.values():
                begun = time.perf_counter()
                found = list(self._group(source, [run], timeout, 1))
                yield found[0] if found else _lost(run, time.perf_counter() - begun, timeout)

    def _group(
        self, source: Source, runs: Sequence[Run], timeout: float | None, workers: int
    ) -> Iterator[Outcome]:
        """Outcomes until all are there or a worker dies."""
        import joblib
        from joblib.externals.loky.process_executor import BrokenProcessPool  # type: ignore[import-untyped]

        if not runs:
            return
        # With one worker joblib would run in this process; two workers of which one is fed do not.
        pool = joblib.Parallel(
            n_jobs=max(2, workers),
            backend="loky",
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch=workers if workers == 1 else 2 * workers,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A worker stopped", category=UserWarning)
            try:
                yield from pool(joblib.delayed(_in_worker)(source, run, timeout) for run in runs)
            except BrokenProcessPool:
                return


def _in_worker(source: Source, run: Run, timeout: float | None) -> Outcome:
    """`execute`, with a watchdog in C behind the time limit: it ends the process."""
    if timeout is None or isinstance(source, ShellCommand):
        return execute(source, run, timeout)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(timeout + GRACE, exit=True, file=nowhere)
        try:
            return execute(source, run, timeout)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _lost(run: Run, seconds: float, timeout: float | None) -> Outcome:
    late = timeout is not None and seconds >= timeout
    error = (
        f"timeout after {timeout:g} s (the process was ended)"
        if late
        else "the worker process died (killed, out of memory, or crashed)"
    )
    return Outcome(run.number, run.attempt, None, error, round(seconds, 6))


class _Expired(BaseException):
    """Raised by the alarm; not an Exception, so that a simulator that catches those does not swallow it."""


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    if seconds is None or os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise _Expired

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Expired:
        raise RunTimeout(f"timeout after {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def default_executor(n_jobs: int, timeout: float | None, source: Source) -> Executor:
    """Here if one process is enough and nothing can hang; in worker processes else."""
    if n_jobs == 1 and (timeout is None or isinstance(source, ShellCommand)):
        return SerialExecutor()
    return JoblibExecutor(n_jobs)
