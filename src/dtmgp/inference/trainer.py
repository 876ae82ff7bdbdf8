"""One training loop: Adam, a one-cycle learning rate, minibatches of inputs, the best held-out state.

Nobody has to use it: an objective is a function of (model, batch), and any torch loop will do.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.inference.checkpoint import Fingerprint, fingerprint_of, load_checkpoint, save_checkpoint
from dtmgp.inference.data import Batch, Runs
from dtmgp.inference.objectives import AbstractObjective, Loss
from dtmgp.inference.validation import non_finite_message
from dtmgp.model import TrainableModel

Score = Callable[[TrainableModel, Runs], float]


class Epoch(NamedTuple):
    """One line of the trace; ``validation`` is NaN in epochs without a score."""

    number: int
    loss: float
    data: float
    kl: float
    rate: float
    validation: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Settings:
    """``epochs`` passes in batches of ``batch_size`` distinct inputs, learning rate up to ``learning_rate``.

    ``warm_up`` is the fraction of steps in which the rate rises (cosine, from 1/20) before it falls to 1/1000;
    ``kl_warm_up`` the fraction in which the KL term rises from 0. Gradients are clipped to the norm ``clip``. The
    score is taken about ``scores`` times; training stops after ``patience`` (a fraction of the epochs) without a
    better one.
    """

    epochs: int = 100
    batch_size: int = 500
    learning_rate: float = 0.02
    warm_up: float = 0.3
    kl_warm_up: float = 0.0
    clip: float = 10.0
    scores: int = 20
    patience: float = 0.5

    def rate(self, progress: float) -> float:
        """Learning rate at a fraction of the steps."""
        if progress < self.warm_up:
            low, share = 0.05, progress / self.warm_up
            return self.learning_rate * (low + (1 - low) * 0.5 * (1 - math.cos(math.pi * share)))
        share = (progress - self.warm_up) / max(1e-12, 1.0 - self.warm_up)
        return self.learning_rate * (1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * share)))


@dataclasses.dataclass
class Training:
    """Everything that a run of the loop changes beside the parameters; what checkpoints hold."""

    model: TrainableModel
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    epochs: int = 0  # that were asked for
    epoch: int = 0
    trace: list[Epoch] = dataclasses.field(default_factory=list)
    best_score: float = math.inf
    best_epoch: int = 0
    best_state: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    reason: str = "all epochs done"

    def keep(self, score: float) -> None:
        """Remember the present parameters as the best so far."""
        self.best_score, self.best_epoch = score, self.epoch
        self.best_state = copy_state(self.model)


Callback = Callable[[Training], bool | None]


def copy_state(model: TrainableModel) -> dict[str, Tensor]:
    """A copy of the parameters and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def train(
    model: TrainableModel,
    runs: Runs,
    objective: AbstractObjective,
    settings: Settings,
    *,
    generator: torch.Generator,
    validation: Runs | None = None,
    score: Score | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    fingerprint: Fingerprint = "",
) -> Training:
    """Train in place; the model ends in its best state by the held-out score, or its last without one.

    A callback that returns True stops. Ctrl-C stops and keeps the best state so far. A loss or gradient that is not
    finite stops, goes back to the last state at the start of an epoch whose loss was finite, and says in ``reason``
    which parameter or layer was hit. With ``checkpoint`` the state is written every so many epochs, and a run that
    finds its own file goes on from there: to the same bits as if it had never stopped. Its own has the same data,
    settings, objective and ``fingerprint``; put there what else decides the result, such as the seed.
    """
    whole = (settings.epochs, settings.batch_size, settings.scores, checkpoint_every)
    if min(whole) < 1 or not 0 < settings.learning_rate < math.inf or not settings.clip > 0:
        raise InputError(
            "training settings",
            got=f"{settings!r}, checkpoint_every={checkpoint_every}",
            expected="positive epochs, batch size, rate, clip, scores and checkpoint_every",
        )
    parameters = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.Adam(parameters, lr=settings.learning_rate)
    state = Training(model, adam, generator, settings.epochs)
    if checkpoint is not None:
        fingerprint = fingerprint_of(fingerprint, settings, objective, *(part.cpu().numpy() for part in runs))
        load_checkpoint(checkpoint, state, fingerprint)
    steps = max(1, -(-len(runs.x) // settings.batch_size))
    every = max(1, settings.epochs // settings.scores)
    good = latest = copy_state(model)
    batch = runs.batch(torch.arange(min(len(runs.x), settings.batch_size), device=runs.x.device))
    try:
        while state.epoch < settings.epochs:
            begun = time.perf_counter()
            sums, count = [0.0, 0.0, 0.0], 0
            for number, batch in enumerate(runs.batches(settings.batch_size, generator)):
                progress = (state.epoch + number / steps) / settings.epochs
                for group in state.optimiser.param_groups:
                    group["lr"] = settings.rate(progress)
                kl_scale = 1.0 if settings.kl_warm_up <= 0 else min(1.0, progress / settings.kl_warm_up)
                state.optimiser.zero_grad(set_to_none=True)
                loss = _evaluate(objective, model, batch, generator, kl_scale)
                loss.value.backward()
                gradients = [p.grad for p in parameters if p.grad is not None]
                norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
                if not (math.isfinite(loss.value.detach()) and math.isfinite(norm)):
                    state.reason = non_finite_message(model, loss, batch, state.epoch)
                    break
                good = latest  # only now known: a state is good if its loss and gradient are finite
                torch.nn.utils.clip_grads_with_norm_(parameters, settings.clip, norm, foreach=True)
                state.optimiser.step()
                for k, part in enumerate(loss):
                    sums[k] += float(part.detach()) * len(batch.x)
                count += len(batch.x)
            else:
                state.epoch += 1
                held_out = math.nan
                due = state.epoch % every == 0 or state.epoch == settings.epochs
                if validation is not None and score is not None and due:
                    held_out = score(model, validation)
                    if math.isfinite(held_out) and held_out < state.best_score:
                        state.keep(held_out)
                loss_mean, data_mean, kl_mean = (part / count for part in sums)
                rate, taken = float(state.optimiser.param_groups[0]["lr"]), time.perf_counter() - begun
                line = Epoch(state.epoch, loss_mean, data_mean, kl_mean, rate, held_out, taken)
                state.trace.append(line)
                latest = copy_state(model)
                asked = [callback(state) for callback in callbacks]  # every callback hears of every epoch
                if any(asked):
                    state.reason = "stopped by a callback"
                    break
                waited = state.epoch - state.best_epoch
                if state.best_state and waited > settings.patience * settings.epochs:
                    state.reason = f"no better held-out score for {waited} epochs"
                    break
                # after the decisions to stop: a run that is killed here and resumed must make them all again
                if checkpoint is not None and state.epoch % checkpoint_every == 0:
                    save_checkpoint(checkpoint, state, fingerprint)
                continue
            model.load_state_dict(good)
            break
        if not state.best_state:
            _check_last(state, objective, batch, good)
    except KeyboardInterrupt:
        state.reason = "interrupted"
        model.load_state_dict(good)
    if state.best_state:
        model.load_state_dict(state.best_state)
    if checkpoint is not None and state.reason != "interrupted":
        Path(checkpoint).unlink(missing_ok=True)  # its run has ended: the model file is the result
    return state


def _evaluate(
    objective: AbstractObjective,
    model: TrainableModel,
    batch: Batch,
    generator: torch.Generator,
    kl_scale: float = 1.0,
) -> Loss:
    try:
        return objective(model, batch, generator, kl_scale)
    except torch.linalg.LinAlgError:  # of the features, when a lengthscale has left every scale
        nothing = torch.full((), math.nan, requires_grad=True)
        return Loss(nothing, nothing.detach(), nothing.detach())


def _check_last(state: Training, objective: AbstractObjective, batch: Batch, good: dict[str, Tensor]) -> None:
    """The last step has had no loss of its own yet: go back if it led nowhere."""
    loss = _evaluate(objective, state.model, batch, torch.Generator().manual_seed(0))
    if not math.isfinite(loss.value.detach()):
        state.optimiser.zero_grad(set_to_none=True)
        state.reason = non_finite_message(state.model, loss, batch, state.epoch - 1)
        state.model.load_state_dict(good)
