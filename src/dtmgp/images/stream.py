"""Training on images that stay where they are: minibatches from a file or an array, checkpoints that resume exactly."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.images.rc49 import RC49
from dtmgp.inference.checkpoint import fingerprint_of, load_checkpoint, save_checkpoint
from dtmgp.inference.data import Batch
from dtmgp.inference.objectives import Loss
from dtmgp.inference.trainer import Epoch, Settings, Training

RIGHT_ANGLE = 90.0


class Source(Protocol):
    """Images with labels: yaw in degrees (N,), chairs (N,), and a way to read some of them as (k, pixels) floats."""

    yaw: np.ndarray
    types: np.ndarray

    def read(self, rows: Tensor) -> Tensor:
        """Images (k, pixels) in [0, 1]; ``rows`` are on the CPU."""
        ...


class FileSource:
    """Some rows of an open RC-49 file; nothing is kept in memory."""

    def __init__(self, file: RC49, rows: np.ndarray) -> None:
        self.file, self.rows = file, np.asarray(rows)
        self.yaw, self.types = file.labels[self.rows], file.types[self.rows]

    def read(self, rows: Tensor) -> Tensor:
        """From disk."""
        return torch.from_numpy(self.file.images(self.rows[rows.numpy()])).flatten(1)


class ArraySource:
    """Images (N, h, w), floats in [0, 1] or bytes, in memory or on a device."""

    def __init__(self, images: np.ndarray | Tensor, yaw: np.ndarray, types: np.ndarray) -> None:
        self.store = torch.as_tensor(images).flatten(1)
        if not len(self.store) == len(yaw) == len(types):
            raise InputError("images", got=f"{len(self.store)} images, {len(yaw)} labels", expected="as many")
        self.yaw, self.types = np.asarray(yaw), np.asarray(types)

    def read(self, rows: Tensor) -> Tensor:
        """From the array; bytes become floats."""
        found = self.store[rows.to(self.store.device)]
        return found.to(torch.get_default_dtype()) / 255 if found.dtype == torch.uint8 else found


@dataclasses.dataclass(frozen=True)
class ImageBatch:
    """A minibatch with its chairs, which only an objective with given classes looks at."""

    batch: Batch
    types: Tensor


def angles_of(yaw: np.ndarray) -> Tensor:
    """Inputs (n, 1) of models: angles in degrees over 90."""
    return torch.as_tensor(yaw / RIGHT_ANGLE, dtype=torch.get_default_dtype()).unsqueeze(1)


@dataclasses.dataclass(frozen=True)
class RandomImages:
    """Batches of ``size`` images in random order: one input per image."""

    size: int = 256

    def batches(
        self, source: Source, generator: torch.Generator, device: torch.device
    ) -> Iterator[ImageBatch]:
        """One pass."""
        order = torch.randperm(len(source.yaw), generator=generator)
        for rows in order.tensor_split(max(1, -(-len(order) // self.size))):
            yaw = angles_of(source.yaw[rows.numpy()]).to(device)
            types = torch.from_numpy(source.types[rows.numpy()]).to(device)
            yield ImageBatch(Batch.of(yaw, source.read(rows).to(device), len(order)), types)

    def steps(self, source: Source) -> int:
        """Batches in a pass."""
        return max(1, -(-len(source.yaw) // self.size))


@dataclasses.dataclass(frozen=True)
class WholeAngles:
    """Batches of ``size`` distinct angles with all their images: what is computed per angle serves all of them."""

    size: int = 16

    def batches(
        self, source: Source, generator: torch.Generator, device: torch.device
    ) -> Iterator[ImageBatch]:
        """One pass."""
        sort = np.argsort(source.yaw, kind="stable")
        values, start = np.unique(source.yaw[sort], return_index=True)
        ends = np.append(start[1:], len(sort))
        order = torch.randperm(len(values), generator=generator)
        for angles in order.tensor_split(self.steps(source)):
            rows = [sort[start[k] : ends[k]] for k in angles.tolist()]
            group = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(r) for r in rows]))
            every = np.concatenate(rows)
            x = angles_of(values[angles.numpy()])
            y = source.read(torch.from_numpy(every)).to(device)
            types = torch.from_numpy(source.types[every]).to(device)
            yield ImageBatch(Batch(x.to(device), y, group.to(device), len(sort)), types)

    def steps(self, source: Source) -> int:
        """Batches in a pass."""
        return max(1, -(-len(np.unique(source.yaw)) // self.size))


Objective = Callable[[nn.Module, ImageBatch, torch.Generator, float], Loss]
Report = Callable[[str], None]


def stream_train(
    model: nn.Module,
    source: Source,
    objective: Objective,
    batching: RandomImages | WholeAngles,
    settings: Settings,
    *,
    generator: torch.Generator,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callable[[Training], bool | None]] = (),
    report: Report | None = None,
    name: str = "",
) -> Training:
    """Adam with the one-cycle rate of ``settings``; all else is read from the stream.

    ``objective(model, batch, generator, progress)``. The state is written to ``checkpoint`` after every epoch, and a
    run that finds its own file there goes on from it, to the same bits; a finished run leaves its file, and is not run
    again. A loss that is not finite is an error. Callbacks are called after every epoch that is run.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate)
    state = Training(model, optimiser, generator)  # type: ignore[arg-type]
    mark = ""
    if checkpoint is not None:
        told = settings.epochs, settings.learning_rate, settings.warm_up, settings.clip
        mark = fingerprint_of(name, told, batching, objective_name(objective), source.yaw, source.types)
        load_checkpoint(checkpoint, state, mark)
    steps = batching.steps(source)
    while state.epoch < settings.epochs:
        begun = told_at = time.perf_counter()
        sums = torch.zeros(3, device=device)
        for number, part in enumerate(batching.batches(source, generator_on_cpu(generator), device)):
            progress = (state.epoch + number / steps) / settings.epochs
            for group in optimiser.param_groups:
                group["lr"] = settings.rate(progress)
            optimiser.zero_grad(set_to_none=True)
            loss = objective(model, part, generator, progress)
            loss.value.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings.clip, foreach=True)
            optimiser.step()
            sums += torch.stack([p.detach() for p in loss])
            now = time.perf_counter()
            if report is not None and now - told_at > 30.0:
                told_at = now
                passed = (number + 1) / steps
                left = (now - begun) / passed * (settings.epochs - state.epoch - passed)
                done = f"{name} epoch {state.epoch + 1}, {passed:.0%}"
                report(f"{done}: loss {float(loss.value.detach()):.1f}, {clock(left)} left")
        means = [float(s) / steps for s in sums]
        if not np.isfinite(means[0]):
            raise InputError(
                f"training of {type(model).__name__}",
                got=f"a loss of {means[0]} in epoch {state.epoch + 1}",
                expected="finite losses",
                cause="a learning rate that is too high",
                do="lower learning_rate; a checkpoint, if any, holds the epoch before",
            )
        state.epoch += 1
        seconds = time.perf_counter() - begun
        rate = float(optimiser.param_groups[0]["lr"])
        state.trace.append(Epoch(state.epoch, means[0], means[1], means[2], rate, float("nan"), seconds))
        if report is not None:
            left = seconds * (settings.epochs - state.epoch)
            done = f"{name} epoch {state.epoch}/{settings.epochs}"
            report(f"{done}: loss {means[0]:.1f}, {seconds:.1f} s, {clock(left)} left")
        if checkpoint is not None:
            save_checkpoint(checkpoint, state, mark)
        asked = [callback(state) for callback in callbacks]  # every callback hears of every epoch
        if any(asked):
            state.reason = "stopped by a callback"
            break
    return state


def generator_on_cpu(generator: torch.Generator) -> torch.Generator:
    """Orders are drawn on the CPU: from the generator itself if it lives there, else from one that it seeds."""
    if generator.device.type == "cpu":
        return generator
    seed = torch.randint(2**31, (), generator=generator, device=generator.device)
    return torch.Generator().manual_seed(int(seed))


def objective_name(objective: Objective) -> str:
    """What a checkpoint remembers of an objective."""
    return getattr(objective, "__qualname__", repr(objective))


def clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock(125.4)
    '2 min 5 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
