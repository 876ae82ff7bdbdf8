"""Accuracy while a model trains: scores at marks of processor seconds, which the scoring does not count to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from board.problem import Problem, Size
from board.scores import Scores, score_model


def follow(
    model: Any, given: Problem, marks: Sequence[float], size: Size, seed: int
) -> Iterator[tuple[float, bool, Scores]]:
    """Seconds of training, whether the model's own training has ended, and scores: at every mark, and at the end.

    A model with ``steps(X, y)`` is stopped at the last mark; one that only has ``fit`` is fitted to its end.
    """
    if not hasattr(model, "steps"):
        begun = time.process_time()
        model.fit(given.X, given.y)
        yield time.process_time() - begun, True, score_model(given, model, size, seed)
        return
    used, left = 0.0, sorted(marks)
    steps = model.steps(given.X, given.y)
    while left:
        begun = time.process_time()
        ended = next(steps, "end") == "end"
        used += time.process_time() - begun
        if ended or used >= left[0]:
            yield used, ended, score_model(given, model, size, seed)
            left = [] if ended else [mark for mark in left if mark > used]
