"""The target finder: the input nearest to the chosen one at which a functional reaches a value, or its optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp.analysis.base import Functional, Mean, Quantile, TailProbability, evaluate, space_filling
from dtmgp.analysis.optimum import optimal_input
from dtmgp.serve.answers import plain
from dtmgp.serve.capacity import Deadline
from dtmgp.serve.faults import Unprocessable
from dtmgp.serve.requests import TargetRequest, point_from
from dtmgp.serve.served import ServedModel

Array = np.ndarray
SCREEN = 512  # inputs looked at in the whole box
NEAREST = 24  # segments from the chosen point that are bisected
HALVINGS = 30
TOLERANCE = 1e-6  # of the range of the functional over the box


class Watched:
    """A functional that looks at the clock at every call."""

    def __init__(self, functional: Functional, deadline: Deadline) -> None:
        self.functional, self.deadline = functional, deadline
        self.label = getattr(functional, "label", "functional")

    def __call__(self, model: Any, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        self.deadline.check()
        return self.functional(model, x)


def functional_of(request: TargetRequest) -> Functional:
    """What shall reach the target."""
    if request.of == "mean":
        return Mean(request.output)
    if request.of == "quantile":
        return Quantile(request.level, request.output)
    return TailProbability(request.threshold, output=request.output)


def find_target(served: ServedModel, request: TargetRequest, deadline: Deadline) -> dict[str, Any]:
    """A point, the value there, and whether it is the one that was asked for.

    To reach a value: of all segments from the chosen point to points of a space-filling set on the other side of the
    value, the nearest are bisected; each gives an input with that value, and the one nearest to the chosen point is
    taken.
    """
    box = served.box
    at = served.checked(point_from(request.at, box)[None])[0]
    if request.output >= len(served.outputs):
        raise Unprocessable(f"output: {request.output}, the model has {len(served.outputs)}")
    unknown = [name for name in request.locked if name not in box.names]
    if unknown:
        raise Unprocessable(f"locked: no input is called {unknown[0][:60]!r}")
    free = [j for j, name in enumerate(box.names) if name not in request.locked]
    if not free:
        raise Unprocessable("locked: every input is, so that nothing can be moved")
    start = np.clip(at, box.low, box.high)  # the search stays in the fitted range
    functional = Watched(functional_of(request), deadline)
    if request.goal != "reach":
        point = optimum(served, functional, start, free, maximise=request.goal == "maximise")
        return answer(served, functional, point, True, "the best of all inputs tried")
    return reach(served, functional, start, free, request.value)


def optimum(
    served: ServedModel, functional: Watched, start: Float[Array, " d"], free: list[int], maximise: bool
) -> Float[Array, " d"]:
    """The best input, with the others held."""
    held: dict[str | int, float] = {j: float(start[j]) for j in range(served.box.dim) if j not in free}
    return optimal_input(
        served.model,
        functional,
        maximise=maximise,
        fixed=held,
        screen=SCREEN,
        starts=3,
        random_state=0,
    ).x


def reach(
    served: ServedModel, functional: Watched, start: Float[Array, " d"], free: list[int], value: float
) -> dict[str, Any]:
    """The input nearest to the start with the value, or the one that comes closest to it."""
    box, model = served.box, served.model
    unit = space_filling(SCREEN, len(free), np.random.default_rng(0))
    screen = np.repeat(start[None], SCREEN + 1, axis=0)
    screen[1:, free] = np.clip(
        box.low[free] + unit * (box.high - box.low)[free], box.low[free], box.high[free]
    )
    found = evaluate(functional, model, screen) - value
    size = max(float(np.ptp(found)), 1e-300)
    if abs(found[0]) <= TOLERANCE * size:
        return answer(served, functional, start, True, "the chosen point has it already")
    other = np.flatnonzero(np.sign(found) == -np.sign(found[0]))
    ends = screen[other]
    if not len(other):
        ends = optimum(served, functional, start, free, maximise=bool(found[0] < 0))[None]
        best = float(evaluate(functional, model, ends)[0]) - value
        if np.sign(best) == np.sign(found[0]) and abs(best) > TOLERANCE * size:
            return answer(
                served, functional, ends[0], False, "no input tried reaches it; this one is closest"
            )
    width = box.high - box.low
    order = np.argsort((((ends - start) / width) ** 2).sum(axis=1))[:NEAREST]
    near = np.repeat(start[None], len(order), axis=0)
    far = ends[order]
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        same = (np.sign(evaluate(functional, model, middle) - value) == np.sign(found[0]))[:, None]
        near, far = np.where(same, middle, near), np.where(same, far, middle)
    points = np.clip(0.5 * (near + far), box.low, box.high)
    distance = (((points - start) / width) ** 2).sum(axis=1)
    off = np.abs(evaluate(functional, model, points) - value)
    distance[off > 1e-3 * size] = np.inf  # a jump, where no input has the value
    best_row = int(np.argmin(distance))
    if not np.isfinite(distance[best_row]):
        best_row = int(np.argmin(off))
        return answer(
            served, functional, points[best_row], False, "the value is jumped over; this is closest"
        )
    return answer(served, functional, points[best_row], True, "the nearest input found with this value")


def answer(
    served: ServedModel, functional: Watched, point: Float[Array, " d"], reached: bool, message: str
) -> dict[str, Any]:
    """For the page."""
    value = float(evaluate(functional, served.model, point[None])[0])
    return {
        "at": plain(point.tolist()),
        "value": plain(value),
        "label": functional.label,
        "reached": reached,
        "message": message,
    }
