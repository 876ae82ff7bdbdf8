"""The protocol: a function and tasks in, what came of every task out, as they finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from dtmgp.errors import InputError


class Lost(RuntimeError):
    """The worker of a task died, and so did those of its retries."""


class Done(NamedTuple):
    """What came of the task ``tasks[number]``: a value, or the error that it ended with.

    ``seconds`` is what the caller waited for a task that was lost, else None: tasks time themselves.

    >>> Done(0, 4.0).result()
    4.0
    """

    number: int
    value: Any = None
    error: BaseException | None = None
    seconds: float | None = None

    @property
    def lost(self) -> bool:
        """Whether no worker lived to the end of the task."""
        return isinstance(self.error, Lost)

    def result(self) -> Any:
        """The value; raises the error instead, if there is one."""
        if self.error is not None:
            raise self.error
        return self.value


@runtime_checkable
class Executor(Protocol):
    """Runs independent tasks. An executor for another engine is one method and two facts.

    ``isolated``: tasks run in other processes, whose death is not ours. ``shares_files``: these see the same files.
    """

    @property
    def isolated(self) -> bool: ...

    @property
    def shares_files(self) -> bool: ...

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        """``function(task)`` for every task, one `Done` each, in any order, as they finish.

        Exceptions become errors of their task. A task whose worker dies is tried again; after some deaths it is
        `Lost`. Others are not affected, and what is done is never done again. Function and tasks are picklable (by
        cloudpickle) unless the executor runs them here; what a task computes depends on the task alone.
        """
        ...


def attempt(function: Callable[[Any], Any], number: int, task: Any) -> Done:
    """Run one task where we are.

    >>> attempt(lambda x: 1 / x, 3, 0).error
    ZeroDivisionError('division by zero')
    """
    try:
        return Done(number, function(task))
    except Exception as error:
        return Done(number, error=error)


def lost(number: int, tries: int, begun: float) -> Done:
    """A task that took its workers with it."""
    error = Lost(f"the worker process died (killed, out of memory, or crashed), {tries} times")
    return Done(number, error=error, seconds=time.perf_counter() - begun)


def check_workers(name: str, n_jobs: object) -> int:
    """A number of workers, or -1 for all cores."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise InputError(name, got=repr(n_jobs), expected="a number of processes, or -1 for all cores")
    return n_jobs


def missing(package: str, extra: str) -> InputError:
    """The message for an engine that is not installed."""
    return InputError(
        f"executor {extra}",
        got=f"no package {package}",
        expected="an installed one",
        do=f"pip install 'dtmgp[{extra}]', or use --executor joblib",
    )
