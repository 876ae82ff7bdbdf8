"""Tasks on Ray: the machines of a cluster, or worker processes of this one. Extra ``ray``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtmgp.errors import InputError
from dtmgp.executors.base import Done, attempt, check_workers, lost, missing

IN_FLIGHT = 4  # tasks handed over per processor: enough to keep workers busy, little to lose with the driver


class RayExecutor:
    """Tasks on the Ray cluster at ``address``, or on ``n_jobs`` processes that Ray starts here (-1: one per core).

    A local Ray listens on 127.0.0.1, has no dashboard (its job interface asks nobody for a password), sends no usage
    statistics, and ends with `close` or this process; a session that is already connected is used as it is. On a
    cluster, ``dtmgp`` has to be installed on every machine. A task whose worker or machine dies is tried again
    ``retries`` times.

    >>> RayExecutor("10.0.0.1:6379", retries=1)
    RayExecutor(address='10.0.0.1:6379', retries=1)
    """

    isolated = True

    def __init__(self, address: str | None = None, *, n_jobs: int = -1, retries: int = 2) -> None:
        self.address, self.retries = address, retries
        self.n_jobs = check_workers("n_jobs", n_jobs)
        self._started = False

    def __repr__(self) -> str:
        place = f"n_jobs={self.n_jobs}" if self.address is None else f"address={self.address!r}"
        return f"RayExecutor({place}, retries={self.retries})"

    @property
    def shares_files(self) -> bool:
        """Only the workers of this machine see its files for certain."""
        return self.address is None

    def connect(self) -> Any:
        """The module ``ray``, connected."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # read when Ray is imported, and by its processes
        try:
            import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ModuleNotFoundError:
            raise missing("ray", "ray") from None
        if ray.is_initialized():
            return ray
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is not None:
            ray.init(address=self.address, **quiet)
        else:
            with _for_this_machine():
                ray.init(
                    address="local",
                    num_cpus=None if self.n_jobs == -1 else self.n_jobs,
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    **quiet,
                )
        self._started = True
        if self.address is None and not ray.get_runtime_context().gcs_address.startswith("127."):
            self.close()
            raise InputError(
                "a local Ray",
                got="one that other machines can reach",
                expected="one on 127.0.0.1",
                cause=f"Ray {ray.__version__}, which chooses its address in another way than those we know",
                do="install a version of constraints.txt, or start Ray yourself and give --address",
            )
        return ray

    def close(self) -> None:
        """End the Ray that this executor has started, or leave the cluster that it has joined."""
        if self._started:
            import ray

            ray.shutdown()
            self._started = False

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        """As they finish; a few per processor are handed over at a time."""
        ray = self.connect()
        remote = ray.remote(num_cpus=1, max_retries=self.retries, retry_exceptions=False)(attempt)
        shared = ray.put(function)
        limit = IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting = iter(enumerate(tasks))
        running: dict[Any, tuple[int, float]] = {}
        try:
            while True:
                for number, task in waiting:
                    running[remote.remote(shared, number, task)] = number, time.perf_counter()
                    if len(running) >= limit:
                        break
                if not running:
                    return
                for reference in ray.wait(list(running), num_returns=1)[0]:
                    number, begun = running.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayTaskError as error:  # what the task made could not be sent back
                        yield Done(number, error=error)
                    except ray.exceptions.RayError:
                        yield lost(number, 1 + self.retries, begun)
        finally:
            for reference in running:  # the caller has had enough
                ray.cancel(reference, force=True)

    @contextlib.contextmanager
    def joblib_backend(self) -> Iterator[None]:
        """Everything that uses joblib inside, such as scikit-learn's searches with ``n_jobs=-1``, runs on Ray."""
        import joblib  # type: ignore[import-untyped]

        self.connect()
        from ray.util.joblib import register_ray

        register_ray()
        with joblib.parallel_config(backend="ray"):
            yield


@contextlib.contextmanager
def _for_this_machine() -> Iterator[None]:
    """A Ray that is started inside stays on the loopback device, and its workers find the modules that we find.

    Ray replaces 127.0.0.1 by an address that others can reach, unless it is told that there are no clusters, by a
    variable that it reads when it is imported.
    """
    from ray._private import ray_constants  # type: ignore[import-not-found, import-untyped, unused-ignore]

    clusters = ray_constants.ENABLE_RAY_CLUSTER
    given = {
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
