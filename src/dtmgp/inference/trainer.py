"""One training loop: Adam, a one-cycle learning rate, minibatches of inputs, the best held-out state.

Nobody has to use it: an objective is a function of (model, batch), and any torch loop will do. Several processes run
the same loop, each on its part of every batch: gradients and losses are summed in every step (`inference.reduction`),
and what ends the loop is decided by the first process (`inference.distributed`).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.inference.checkpoint import Fingerprint, fingerprint_of, load_shared, save_checkpoint
from dtmgp.inference.data import Batch, Runs, RunSource, part_of
from dtmgp.inference.distributed import Interrupts, Processes
from dtmgp.inference.objectives import AbstractObjective, Loss
from dtmgp.inference.optimisers import WithTables, with_table_steps
from dtmgp.inference.reduction import sum_gradients
from dtmgp.inference.validation import non_finite_message
from dtmgp.model import TrainableModel

Score = Callable[[TrainableModel, Runs], float]  # a mean over runs: several processes score a part each
ALONE = Processes()
UNLIKE = "processes that read different tables or got different parameters"
WHOLE = "give each the same arguments and all of the data: the loop takes the parts; or set distributed='off'"


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
    better one. ``noise_in_blocks`` is for many processes: each draws the noise of its own inputs only. The numbers are
    others than without it, and again the same for any number of processes.
    """

    epochs: int = 100
    batch_size: int = 500
    learning_rate: float = 0.02
    warm_up: float = 0.3
    kl_warm_up: float = 0.0
    clip: float = 10.0
    scores: int = 20
    patience: float = 0.5
    noise_in_blocks: bool = False

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
    runs: RunSource,
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
    processes: Processes = ALONE,
) -> Training:
    """Train in place; the model ends in its best state by the held-out score, or its last without one.

    A callback that returns True stops. Ctrl-C stops and keeps the best state so far. A loss or gradient that is not
    finite stops, goes back to the last state at the start of an epoch whose loss was finite, and says in ``reason``
    which parameter or layer was hit. With ``checkpoint`` the state is written every so many epochs, and a run that
    finds its own file goes on from there: to the same bits as if it had never stopped. Its own has the same data,
    settings, objective and ``fingerprint``; put there what else decides the result, such as the seed.

    With several ``processes`` each has the same model, data, settings and generator state, and all end with the same
    bits; they differ from those of one process by rounding. Callbacks, checkpoints and decisions are the first one's.
    """
    check_settings(settings, checkpoint_every)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = with_table_steps(optimiser_of(parameters, settings), model)  # type: ignore[arg-type]  # a module
    state = Training(model, optimiser, generator, settings.epochs)
    if checkpoint is not None or processes.world > 1:
        fingerprint = fingerprint_of(fingerprint, settings, objective, *runs.fingerprint())
        processes.check_same("data or settings", fingerprint, cause=UNLIKE, do=WHOLE)
    if checkpoint is not None:
        load_shared(checkpoint, state, fingerprint, processes)
    good = latest = copy_state(model)
    processes.check_in_step(generator, list(latest.values()))
    steps = runs.steps(settings.batch_size)
    every = max(1, settings.epochs // settings.scores)
    batch: Batch | None = None
    try:
        with Interrupts(processes) as interrupts:
            while state.epoch < settings.epochs:
                begun = time.perf_counter()
                sums, count = [0.0, 0.0, 0.0], 0
                for number, batch in enumerate(runs.batches(settings.batch_size, generator, processes.share)):
                    progress = (state.epoch + number / steps) / settings.epochs
                    set_rate(state.optimiser, settings.rate(progress))
                    kl_scale = 1.0 if settings.kl_warm_up <= 0 else min(1.0, progress / settings.kl_warm_up)
                    if settings.noise_in_blocks:
                        batch = with_noise_seed(batch, generator)
                    state.optimiser.zero_grad(set_to_none=True)
                    loss, own = gradients_of(state, objective, batch, kl_scale, processes, interrupts)
                    norm = gradient_norm(parameters)
                    if not (math.isfinite(loss.value) and math.isfinite(norm)):
                        state.reason = _what_failed(state, own, batch, processes, state.epoch)
                        break
                    good = latest  # only now known: a state is good if its loss and gradient are finite
                    if isinstance(optimiser, WithTables):
                        optimiser.prepare(batch.total, objective.kl_weight * kl_scale, steps)
                    step(state.optimiser, parameters, norm, settings)
                    inputs = len(batch.x) if batch.place is None else batch.place[1]
                    for k, part in enumerate(loss):
                        sums[k] += float(part) * inputs
                    count += inputs
                else:
                    state.epoch += 1
                    held_out = math.nan
                    due = state.epoch % every == 0 or state.epoch == settings.epochs
                    if validation is not None and score is not None and due:
                        held_out = shared_score(score, model, validation, processes)
                        if math.isfinite(held_out) and held_out < state.best_score:
                            state.keep(held_out)
                    loss_mean, data_mean, kl_mean = (part / count for part in sums)
                    rate = float(state.optimiser.param_groups[0]["lr"])
                    taken = time.perf_counter() - begun
                    line = Epoch(state.epoch, loss_mean, data_mean, kl_mean, rate, held_out, taken)
                    state.trace.append(line)
                    latest = copy_state(model)
                    processes.check_in_step(generator, list(latest.values()))
                    end = processes.once(lambda: _end(state, settings, callbacks))
                    if end is not None:
                        state.reason = end
                        break
                    # after the decisions to stop: a run that is killed here and resumed must make them all again
                    if checkpoint is not None and state.epoch % checkpoint_every == 0:
                        processes.once(lambda: save_checkpoint(checkpoint, state, fingerprint))
                    continue
                model.load_state_dict(good)
                break
        if not state.best_state:
            if batch is None:  # the checkpoint was of the last epoch
                batch = next(iter(runs.batches(settings.batch_size, torch.Generator(), processes.share)))
            _check_last(state, objective, batch, good, processes)
    except KeyboardInterrupt:
        state.reason = "interrupted"
        model.load_state_dict(good)
    if state.best_state:
        model.load_state_dict(state.best_state)
    if checkpoint is not None and state.reason != "interrupted":
        # its run has ended: the model file is the result
        processes.once(lambda: Path(checkpoint).unlink(missing_ok=True))
    return state


# -- parts of a step ------------------------------------------------------------------------------------------
def with_noise_seed(batch: Batch, generator: torch.Generator) -> Batch:
    """The batch with a seed for its noise, the same in every process."""
    drawn = torch.randint(1 << 62, (1,), generator=generator, device=generator.device)
    return batch._replace(noise_seed=int(drawn))


def optimiser_of(parameters: list[nn.Parameter], settings: Settings) -> torch.optim.Optimizer:
    """The optimiser of a run."""
    return torch.optim.Adam(parameters, lr=settings.learning_rate)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def gradient_norm(parameters: list[nn.Parameter]) -> Tensor:
    """Length of the gradient, of all parameters together."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], foreach=True)


def step(
    optimiser: torch.optim.Optimizer, parameters: list[nn.Parameter], norm: Tensor, settings: Settings
) -> None:
    """One step along the gradient, cut to the length ``settings.clip``."""
    torch.nn.utils.clip_grads_with_norm_(parameters, settings.clip, norm, foreach=True)
    optimiser.step()


def gradients_of(
    state: Training,
    objective: AbstractObjective,
    batch: Batch,
    kl_scale: float,
    processes: Processes,
    interrupts: Interrupts,
) -> tuple[Loss, Loss]:
    """Gradients of the global batch's loss in every parameter; that loss, and the loss of this process's part.

    The KL term and its gradient are the same in all processes: they are added after the sum and never sent.
    """
    model = state.model
    if processes.world == 1:
        loss = _evaluate(objective, model, batch, state.generator, kl_scale)
        loss.value.backward()
        return Loss(*(part.detach() for part in loss)), loss
    own = _evaluate(objective, model, batch, state.generator, None)
    (own.data / processes.world).backward()
    parameters = [p for p in model.parameters() if p.requires_grad]
    numbers = own.data.detach() / processes.world, float(interrupts.asked)
    (data, asked), _ = sum_gradients(processes, parameters, numbers)
    if asked:
        raise KeyboardInterrupt
    if isinstance(state.optimiser, WithTables):
        state.optimiser.exchange(processes)
    kl = model.kl() / batch.total
    weighted = objective.kl_weight * kl_scale * kl
    if weighted.requires_grad:
        weighted.backward()
    kl = kl.detach()
    data_mean = torch.full_like(kl, data)
    return Loss(data_mean + weighted.detach(), data_mean, kl), Loss(own.data.detach(), own.data.detach(), kl)


def _evaluate(
    objective: AbstractObjective,
    model: TrainableModel,
    batch: Batch,
    generator: torch.Generator,
    kl_scale: float | None = 1.0,
) -> Loss:
    """The loss; without ``kl_scale`` of the data alone, and then all three are the term with its graph."""
    try:
        if kl_scale is not None:
            return objective(model, batch, generator, kl_scale)
        data = batch.weight * objective.data_term(model, batch, generator)
        return Loss(data, data, data)
    except torch.linalg.LinAlgError:  # of the features, when a lengthscale has left every scale
        nothing = torch.full((), math.nan, requires_grad=True)
        return Loss(nothing, nothing if kl_scale is None else nothing.detach(), nothing.detach())


def _what_failed(state: Training, own: Loss, batch: Batch, processes: Processes, epoch: int) -> str:
    """The reason of the first process in whose part something was not finite."""
    message = non_finite_message(state.model, own, batch, epoch)
    said = processes.gather((math.isfinite(own.value.detach()), message))
    return next((text for finite, text in said if not finite), said[0][1])


def _end(state: Training, settings: Settings, callbacks: Sequence[Callback]) -> str | None:
    """Why training ends after this epoch, or None; every callback hears of every epoch."""
    asked = [callback(state) for callback in callbacks]
    if any(asked):
        return "stopped by a callback"
    waited = state.epoch - state.best_epoch
    if state.best_state and waited > settings.patience * settings.epochs:
        return f"no better held-out score for {waited} epochs"
    return None


def _check_last(
    state: Training, objective: AbstractObjective, batch: Batch, good: dict[str, Tensor], processes: Processes
) -> None:
    """The last step has had no loss of its own yet: go back if it led nowhere."""
    loss = _evaluate(objective, state.model, batch, torch.Generator().manual_seed(0))
    if not all(processes.gather(math.isfinite(loss.value.detach()))):
        state.optimiser.zero_grad(set_to_none=True)
        state.reason = _what_failed(state, loss, batch, processes, state.epoch - 1)
        state.model.load_state_dict(good)


# -- what several processes share -----------------------------------------------------------------------------
def shared_score(score: Score, model: TrainableModel, validation: Runs, processes: Processes) -> float:
    """The score of held-out runs; each process takes some of the inputs."""
    if processes.world == 1:
        return score(model, validation)
    own, _ = part_of(torch.arange(validation.inputs, device=validation.x.device), processes.share)
    part = validation.take(own)
    found = processes.gather((score(model, part) * part.total if len(own) else 0.0, part.total))
    return sum(value for value, _ in found) / sum(runs for _, runs in found)


def check_settings(settings: Settings, checkpoint_every: int) -> None:
    """Refuse numbers that cannot be used."""
    whole = (settings.epochs, settings.batch_size, settings.scores, checkpoint_every)
    if min(whole) < 1 or not 0 < settings.learning_rate < math.inf or not settings.clip > 0:
        raise InputError(
            "training settings",
            got=f"{settings!r}, checkpoint_every={checkpoint_every}",
            expected="positive epochs, batch size, rate, clip, scores and checkpoint_every",
        )
