"""Where independent tasks run: here, in worker processes, or on a cluster that Ray or Dask manages.

Lives here: one protocol (`Executor`) and its adapters. May not live here: what the tasks are.
"""

from dtmgp.executors.base import Done, Executor, Lost
from dtmgp.executors.dask import DaskExecutor
from dtmgp.executors.local import JoblibExecutor, SerialExecutor
from dtmgp.executors.naming import EXECUTORS, ending, executor_named
from dtmgp.executors.ray import RayExecutor

__all__ = [
    "DaskExecutor",
    "Done",
    "EXECUTORS",
    "Executor",
    "JoblibExecutor",
    "Lost",
    "RayExecutor",
    "SerialExecutor",
    "ending",
    "executor_named",
]
