"""Executors by the names that the command line gives them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dtmgp.errors import InputError
from dtmgp.executors.base import Executor
from dtmgp.executors.dask import DaskExecutor
from dtmgp.executors.local import JoblibExecutor, SerialExecutor
from dtmgp.executors.ray import RayExecutor

EXECUTORS = ("joblib", "ray", "dask")


def executor_named(name: str, jobs: int = 1, address: str | None = None) -> Executor:
    """``joblib``, ``ray`` or ``dask`` with so many processes here, or the engine's cluster at an address.

    >>> executor_named("joblib", jobs=1), executor_named("ray", address="10.0.0.1:6379")
    (SerialExecutor(), RayExecutor(address='10.0.0.1:6379', retries=2))
    """
    if name == "ray":
        return RayExecutor(address, n_jobs=jobs)
    if name == "dask":
        return DaskExecutor(address, n_jobs=jobs)
    if name != "joblib":
        raise InputError("--executor", got=repr(name), expected=f"one of {', '.join(EXECUTORS)}")
    if address is not None:
        raise InputError(
            "--address",
            got=repr(address),
            expected="none: joblib works on this machine",
            do="add --executor ray or --executor dask",
        )
    return SerialExecutor() if jobs == 1 else JoblibExecutor(jobs)


@contextlib.contextmanager
def ending(executor: Executor | None) -> Iterator[None]:
    """At the end, let go of what the executor has started or joined."""
    try:
        yield
    finally:
        close = getattr(executor, "close", None)
        if close is not None:
            close()
