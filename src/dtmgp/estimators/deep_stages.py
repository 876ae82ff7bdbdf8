"""The stages of training after the start: which, how long, and when the next one is worth its time."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dtmgp.inference import Runs, RunSource
from dtmgp.inference.freeze import fixed_location, has_shape
from dtmgp.inference.gauss_newton import Found
from dtmgp.inference.trainer import Callback, Settings, copy_state, shared_score, train
from dtmgp.inference.validation import negative_log_density

if TYPE_CHECKING:
    from dtmgp.estimators.deep_fit import Fitted, Plan

log = logging.getLogger("dtmgp")


@dataclasses.dataclass(frozen=True)
class Stage:
    """One run of the training loop: steps, largest learning rate, and whether the location stays what it is."""

    steps: int
    rate: float
    fixed: bool = True


# After a start, a gentle stage; longer ones follow while the held-out score rises by much: laws that are no shift of
# one shape, such as two branches. What does not raise the score is taken back. Where the start has used up much of the
# data the location stays what it is.
GENTLE, CAREFUL = Stage(300, 0.002, fixed=False), Stage(300, 0.005)
LONGER = (Stage(1600, 0.02), Stage(3200, 0.02))
UNSTARTED = (Stage(1600, 0.02, fixed=False), Stage(4800, 0.02, fixed=False))
WORTH = 0.05  # nats a run that a stage must have gained for another one to follow
STOPPED = ("interrupted", "stopped by a callback")
MOST_WHOLE = 8  # processes up to which each draws the noise of whole batches, as one process alone does
LITTLE = 0.1  # effective parameters per run up to which everything is trained

Data = Callable[[Stage], tuple[RunSource, Runs | None]]


def stages_of(plan: Plan, inputs: int, start: Found | None) -> list[Stage]:
    """The stages; one stage of the user's own if he gave epochs or a rate."""
    if plan.max_epochs is not None or plan.learning_rate is not None:
        fixed = start is not None and start.exact
        return [Stage(UNSTARTED[0].steps, plan.learning_rate or (0.002 if start else 0.02), fixed)]
    if start is None:
        return list(UNSTARTED)
    # what has used up much of the data would be judged by inputs that it knows
    mean = 0.0 if start.leverage is None else float(start.leverage.mean())
    share = min(1.0, (inputs + 50) / 500)
    fixed = start.exact or mean >= LITTLE
    stages = [CAREFUL if fixed else GENTLE, *LONGER]
    return [dataclasses.replace(stage, steps=int(stage.steps * share), fixed=fixed) for stage in stages]


def settings_of(plan: Plan, stage: Stage, inputs: int) -> Settings:
    """A stage in epochs."""
    batch = plan.batch_size or int(min(max(inputs / 16, 64), 1000))
    steps = max(1, -(-inputs // batch))
    epochs = plan.max_epochs or max(8, min(stage.steps // steps, 300))
    many = plan.processes.world > MOST_WHOLE
    return Settings(epochs, batch, stage.rate, noise_in_blocks=many)


def run_stages(
    plan: Plan,
    fitted: Fitted,
    course: Sequence[tuple[Stage, Settings]],
    data: Data,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    fingerprint: str = "",
) -> None:
    """Train the model in place; ``data(stage)`` is what to learn from, and the runs that judge, if any."""
    model = fitted.model
    score, enough = math.inf, True
    generator = torch.Generator().manual_seed(plan.seed)
    for number, (stage, settings) in enumerate(course):
        if not enough or (stage.fixed and not has_shape(model)):
            break
        learn, validation = data(stage)
        if validation is not None and number == 0:
            score = shared_score(negative_log_density, model, validation, plan.processes)
        kept = copy_state(model)
        with fixed_location(model) if stage.fixed else nullcontext():
            training = train(
                model,
                learn,  # type: ignore[arg-type]
                plan.objective,
                settings,
                generator=generator,
                validation=validation,
                score=negative_log_density,
                callbacks=callbacks,
                checkpoint=f"{checkpoint}.{number + 1}" if checkpoint and number else checkpoint,
                checkpoint_every=checkpoint_every,
                fingerprint=fingerprint,
                processes=plan.processes,
            )
        fitted.stages.append(training)
        if training.reason in STOPPED or validation is None or not training.best_state:
            break
        log.info("stage %d: held-out score %.4f after %.4f", number + 1, training.best_score, score)
        enough = score - training.best_score > WORTH
        if training.best_score < score:
            score = training.best_score
        else:
            model.load_state_dict(kept)
