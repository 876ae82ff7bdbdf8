"""How an executor makes runs: time limits, and outcomes of runs that fail or take their process with them."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dtmgp.emulation.runs import Outcome, Run
from dtmgp.emulation.shell import RunFailed, RunTimeout, ShellCommand
from dtmgp.emulation.sources import Source
from dtmgp.executors import Executor, JoblibExecutor, SerialExecutor

GRACE = 5.0  # seconds between the polite and the hard end of a run that hangs


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


def make_runs(
    executor: Executor, source: Source, runs: Sequence[Run], timeout: float | None = None
) -> Iterator[Outcome]:
    """Outcomes as they finish, in any order, one for every run; a run that is lost has an outcome with an error.

    In this process, time limits interrupt Python code only, in the main thread only, on POSIX only. Executors with
    workers of their own have no such limits: a run that ignores its time limit is ended together with its process, by
    a watchdog that needs no help from Python.

    >>> from dtmgp.executors import SerialExecutor
    >>> runs = [Run(k, (float(k),), seed=0) for k in range(3)]
    >>> [outcome.y for outcome in make_runs(SerialExecutor(), lambda x, seed, timeout: 2 * x[0], runs)]
    [0.0, 2.0, 4.0]
    """
    make = functools.partial(_in_worker if executor.isolated else execute, source, timeout=timeout)
    for done in executor.map(make, runs):
        yield _lost(runs[done.number], done.seconds or 0.0, timeout) if done.lost else done.result()


def _in_worker(source: Source, run: Run, timeout: float | None = None) -> Outcome:
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
