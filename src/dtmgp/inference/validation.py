"""Held-out scores, and what to say when a number is not finite."""

from __future__ import annotations

import math

import torch

from dtmgp.inference.data import Batch, Runs
from dtmgp.inference.objectives import Loss
from dtmgp.model import DTMGP, TrainableModel

ENTRIES = 1 << 22  # of components held at once while a score is computed


FEW, FEW_RUNS, FEWEST = (
    150,
    500,
    30,
)  # inputs or runs for a default share; inputs below which nothing is held out
SHARE = 0.1


def held_out_count(inputs: int, runs: int, fraction: float | None) -> int:
    """How many of the distinct inputs judge the training; without a ``fraction`` a tenth, if there is enough.

    Enough are 150 inputs, or 500 runs: a handful of judges ends the training at random (docs/accuracy.md).

    >>> held_out_count(200, 200, None), held_out_count(60, 60, None), held_out_count(60, 600, None)
    (20, 0, 6)
    >>> held_out_count(60, 60, 0.2), held_out_count(20, 900, 0.2)
    (12, 0)
    """
    if inputs < FEWEST:
        return 0
    if fraction is None:
        return round(SHARE * inputs) if inputs >= FEW or runs >= FEW_RUNS else 0
    return round(fraction * inputs)


def negative_log_density(model: TrainableModel, runs: Runs, samples: int = 32, seed: int = 0) -> float:
    """Mean negative log predictive density per run, with draws that are the same in every call."""
    noise = model.shared_noise(samples, runs.x, seed)
    warp = model.likelihood.warp
    step = max(1, ENTRIES // (samples * max(1, max(model.noise_widths[1], default=1))))
    total = 0.0
    with torch.no_grad():
        for part in torch.arange(len(runs.x)).split(step):
            batch = runs.batch(part.to(runs.x.device))
            law = model.components(batch.x, noise).take(batch.group)
            joint = law.log_prob(warp(batch.y)).sum(-1)
            found = torch.logsumexp(joint, dim=0) - math.log(samples) + warp.log_derivative(batch.y).sum(-1)
            total += float(found.double().sum())
    return -total / len(runs.y)


def non_finite_message(model: TrainableModel, loss: Loss, batch: Batch, epoch: int) -> str:
    """Which parameter, layer or quantity is not finite, and what usually causes it."""
    where = _first_bad(model, batch)
    if where is None:
        parts = [part for part in ("data", "kl") if not math.isfinite(float(getattr(loss, part)))]
        where = (
            f"the {parts[0]} term of the loss is not finite"
            if parts
            else "the norm of the gradient overflows"
        )
    if not bool(torch.isfinite(batch.y).all() and torch.isfinite(batch.x).all()):
        cause = "the batch holds values that are not finite"
    elif float(batch.y.abs().max()) > 1e6:
        cause = "outputs that are not scaled to unit size"
    else:
        cause = "a learning rate that is too large, or a scale that has collapsed"
    return f"{where} in epoch {epoch + 1}; likely cause: {cause}; went back to the last good state"


def _first_bad(model: TrainableModel, batch: Batch) -> str | None:
    """A parameter, else the output of a layer, else a gradient: causes before what follows from them."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter.detach()).all()):
            return f"parameter {name} is not finite"
    if isinstance(model, DTMGP):
        found = _first_bad_layer(model, batch)
        if found is not None:
            return found
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return f"the gradient of {name} is not finite"
    return None


@torch.no_grad()
def _first_bad_layer(model: DTMGP, batch: Batch) -> str | None:
    h = model.first_inputs(batch.x, model.shared_noise(1, batch.x).latent)
    if not bool(torch.isfinite(h).all()):
        return None
    for number, layer in enumerate(model.layers):
        try:
            law = layer(h)
        except torch.linalg.LinAlgError:
            return f"a lengthscale of layers.{number}.features is out of range"
        for part, value in zip(("mean", "variance"), law):
            if not bool(torch.isfinite(value).all()):
                return f"the {part} of the output of layers.{number} is not finite"
        h = law.mean
    return None
