"""Progress of a training run for people: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtmgp.inference.trainer import Callback, Training


@contextmanager
def report_progress(verbose: int) -> Iterator[Sequence[Callback]]:
    """Callbacks that show a bar with loss, held-out score and time left; none if quiet, off a terminal, without rich.

    >>> with report_progress(0) as callbacks:
    ...     callbacks
    []
    """
    if not verbose or not sys.stderr.isatty():
        yield []
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        yield []
        return
    columns = TextColumn("epoch {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def show(state: Training) -> None:
            line = state.trace[-1]
            score = "" if math.isinf(state.best_score) else f", held-out {state.best_score:.4f}"
            text = f"loss {line.loss:.4f}{score}"
            bar.update(task, completed=state.epoch, total=state.epochs, description=text)

        yield [show]
