"""Tasks on Dask: a thin adapter to ``distributed``. Extra ``dask``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtmgp.executors.base import Done, attempt, check_workers, lost, missing

IN_FLIGHT = 4  # tasks handed over per thread


class DaskExecutor:
    """Tasks on the Dask scheduler at ``address``, or on ``n_jobs`` processes that Dask starts here (-1: one per core).

    A local cluster listens on 127.0.0.1 without a dashboard and ends with `close` or this process. The scheduler tries
    a task again whose worker has died, three times unless it is configured otherwise.

    >>> DaskExecutor(n_jobs=2)
    DaskExecutor(n_jobs=2)
    """

    isolated = True

    def __init__(self, address: str | None = None, *, n_jobs: int = -1) -> None:
        self.address = address
        self.n_jobs = check_workers("n_jobs", n_jobs)
        self._client: Any = None
        self._cluster: Any = None

    def __repr__(self) -> str:
        place = f"n_jobs={self.n_jobs}" if self.address is None else f"address={self.address!r}"
        return f"DaskExecutor({place})"

    @property
    def shares_files(self) -> bool:
        """Only the workers of this machine see its files for certain."""
        return self.address is None

    def connect(self) -> Any:
        """The client."""
        if self._client is not None:
            return self._client
        try:
            from distributed import Client, LocalCluster  # type: ignore[import-not-found, unused-ignore]
        except ModuleNotFoundError:
            raise missing("distributed", "dask") from None
        if self.address is None:
            import joblib  # type: ignore[import-untyped]

            self._cluster = LocalCluster(
                n_workers=joblib.effective_n_jobs(self.n_jobs),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=True,
            )
        self._client = Client(self.address if self._cluster is None else self._cluster, set_as_default=False)
        return self._client

    def close(self) -> None:
        """Leave the scheduler, and end the cluster if it was started here."""
        for part in (self._client, self._cluster):
            if part is not None:
                part.close()
        self._client = self._cluster = None

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        """As they finish; a few per thread are handed over at a time.

        Dask blames a death on all tasks that the worker held. Those are tried once more at the end, one by one.
        """
        client = self.connect()
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        limit = IN_FLIGHT * max(1, sum(client.nthreads().values()))
        waiting = iter(enumerate(tasks))
        running: dict[Any, tuple[int, float]] = {}
        blamed: list[tuple[int, float]] = []
        finished = as_completed(loop=client.loop)
        try:
            while True:
                for number, task in waiting:
                    future = client.submit(attempt, function, number, task, pure=False)
                    running[future] = number, time.perf_counter()
                    finished.add(future)
                    if len(running) >= limit:
                        break
                if not running:
                    break
                future = next(finished)
                number, begun = running.pop(future)
                error = future.exception()
                if isinstance(error, KilledWorker):
                    blamed.append((number, begun))
                else:
                    yield future.result() if error is None else Done(number, error=error)
            for number, begun in blamed:
                future = client.submit(attempt, function, number, tasks[number], pure=False)
                running[future] = number, begun
                error = future.exception()
                del running[future]
                if isinstance(error, KilledWorker):
                    yield lost(number, 2 * (1 + self._allowed()), begun)
                else:
                    yield future.result() if error is None else Done(number, error=error)
        finally:
            if running:
                client.cancel(list(running), force=True)

    @staticmethod
    def _allowed() -> int:
        import dask

        return int(dask.config.get("distributed.scheduler.allowed-failures", 3))

    @contextlib.contextmanager
    def joblib_backend(self) -> Iterator[None]:
        """Everything that uses joblib inside, such as scikit-learn's searches with ``n_jobs=-1``, runs on Dask."""
        import joblib

        with joblib.parallel_config(backend="dask", client=self.connect()):
            yield
