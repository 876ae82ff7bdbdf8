"""Tasks in this process, and in worker processes of joblib."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtmgp.executors.base import Done, attempt, check_workers, lost

Numbered = dict[int, Any]


class SerialExecutor:
    """One task after another in this process.

    >>> [done.value for done in SerialExecutor().map(abs, [-1, 2])]
    [1, 2]
    """

    isolated = False
    shares_files = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        """In order."""
        for number, task in enumerate(tasks):
            yield attempt(function, number, task)


class JoblibExecutor:
    """Tasks in ``n_jobs`` worker processes of joblib (-1: one per core).

    joblib gives up a whole call when a worker dies. Here every result is yielded as it is there; after a death the
    rest is made in groups of ``n_jobs``, the members of a group that dies one by one, and a task that takes its
    process with it even alone is lost.

    >>> JoblibExecutor(2)
    JoblibExecutor(n_jobs=2)
    """

    isolated = True
    shares_files = True

    def __init__(self, n_jobs: int = -1) -> None:
        self.n_jobs = check_workers("n_jobs", n_jobs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_jobs={self.n_jobs})"

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        """As they finish."""
        import joblib  # type: ignore[import-untyped]

        workers = joblib.effective_n_jobs(self.n_jobs)
        left: Numbered = dict(enumerate(tasks))
        for done in self._group(function, dict(left), workers):
            del left[done.number]
            yield done
        rest = list(left.items())
        for start in range(0, len(rest), workers):
            group = dict(rest[start : start + workers])
            for done in self._group(function, dict(group), workers):
                del group[done.number]
                yield done
            for number, task in group.items():
                begun = time.perf_counter()
                found = list(self._group(function, {number: task}, 1))
                yield found[0] if found else lost(number, 3, begun)

    def _group(self, function: Callable[[Any], Any], tasks: Numbered, workers: int) -> Iterator[Done]:
        """Results until all are there or a worker dies."""
        import joblib
        from joblib.externals.loky.process_executor import BrokenProcessPool  # type: ignore[import-untyped]

        if not tasks:
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
                yield from pool(
                    joblib.delayed(attempt)(function, number, task) for number, task in tasks.items()
                )
            except BrokenProcessPool:
                return
