"""From grouped runs to a trained deep model: architecture by rule and evidence, start, shape of the noise, training."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.mixture import GaussianMixture

from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.inference import AbstractObjective, Runs
from dtmgp.inference.gauss_newton import Found, GaussNewton, gauss_newton_start
from dtmgp.inference.trainer import Callback, Settings, Training, copy_state, train
from dtmgp.inference.validation import negative_log_density
from dtmgp.kernels import AbstractLineKernel, Additive, Matern32, Tensor
from dtmgp.layers import LinearMean
from dtmgp.likelihoods import (
    AbstractLikelihood,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    MixtureOfNormals,
    StudentT,
)
from dtmgp.model import DTMGP
from dtmgp.model.architecture import deep_model

log = logging.getLogger("dtmgp")
Kernel = AbstractLineKernel | Tensor | Additive
WITH_LOCATION = (GaussianLikelihood, HeteroscedasticGaussian, StudentT, MixtureOfNormals)
MOST_FEATURES = 700  # of the last layer by default: the start costs O(n m^2)
HIDDEN_FEATURES = 60  # of hidden layers, beside their linear mean
EXTRA_WIDTH = 11  # units beyond the inputs, tried if the evidence asks for them
SHAPE_ROWS = 10_000  # residuals from which the shape of the noise is taken


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the estimator's parameters ask for; None where the rules of this file decide."""

    likelihood: AbstractLikelihood
    objective: AbstractObjective
    hidden_widths: tuple[int, ...] | None
    levels: tuple[int | AbstractGrid, ...] | None
    kernel: Kernel | None
    latent_inputs: int
    learn_kernel: bool
    max_epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    dtype: torch.dtype
    device: torch.device
    seed: int


class Stage(NamedTuple):
    """One run of the training loop: steps and largest learning rate."""

    steps: int
    rate: float


# After a start the first stage is gentle. Longer ones follow while the held-out score still rises by much: laws that
# are no shift of one shape, such as two branches.
STAGES = (Stage(300, 0.002), Stage(1600, 0.02), Stage(4800, 0.02))
UNSTARTED = (Stage(1600, 0.02), Stage(4800, 0.02))
WORTH = 0.05  # nats a run that a stage must have gained for another one to follow
MARGIN = 3.0  # log evidence that a dependence of the location on the inputs must gain over none
STOPPED = ("interrupted", "stopped by a callback")
PRUNED = 0.02  # prior scale of a location that does not depend on the inputs


@dataclasses.dataclass
class Fitted:
    """A trained model, how it started, and the record of its training, one stage after the other."""

    model: DTMGP
    stages: list[Training]
    start: Found | None
    widths: tuple[int, ...]
    levels: tuple[int | AbstractGrid, ...]


def largest_level(kernel: Kernel, dim: int, most: int) -> int:
    """The largest level of a sparse grid with at most so many features; at least 2."""
    level = 2
    while level < 14 and sparse_size(kernel, dim, level + 1) <= most:
        level += 1
    return level


def sparse_size(kernel: Kernel, dim: int, level: int) -> int:
    """Features of an isotropic sparse grid in generalised levels, without building it."""
    factor = kernel.kernels[0] if isinstance(kernel, Tensor) else kernel
    state = getattr(factor, "state_size", 1)
    counts = [[1 << ((g - 1) // state) for g in range(1, level + 1)]] * dim
    return SparseGrid(dim, level).weighted_total(counts)


def default_levels(
    plan: Plan, dim: int, widths: Sequence[int], inputs: int
) -> tuple[int | AbstractGrid, ...]:
    """Last layer: as many features as inputs, at most 700; hidden layers: few, their linear mean does the most."""
    if plan.levels is not None:
        return plan.levels
    kernel = Matern32() if plan.kernel is None else plan.kernel
    sizes = [dim + plan.latent_inputs, *widths]
    most = [HIDDEN_FEATURES] * len(widths) + [max(12, min(MOST_FEATURES, inputs))]
    return tuple(
        min(largest_level(kernel, size, limit), 3 if number < len(widths) else 14)
        for number, (size, limit) in enumerate(zip(sizes, most))
    )


def build(
    plan: Plan, dim: int, widths: tuple[int, ...], inputs: int
) -> tuple[DTMGP, tuple[int | AbstractGrid, ...]]:
    """A fresh model of the given hidden widths."""
    levels = default_levels(plan, dim, widths, inputs)
    likelihood = copy.deepcopy(plan.likelihood)
    model = deep_model(
        dim,
        likelihood,
        hidden_widths=widths,
        levels=levels,
        kernels=plan.kernel,
        latent_inputs=plan.latent_inputs,
        learn_kernel=plan.learn_kernel,
        generator=torch.Generator().manual_seed(plan.seed),
    )
    last = model.stack[-1].weights
    if isinstance(likelihood, MixtureOfNormals):
        scales = likelihood.prior_scales()
        with torch.no_grad():
            last.prior_std.copy_(scales.unsqueeze(0))
            last.log_std.copy_((0.3 * scales).log().expand_as(last.log_std))
    return model.to(dtype=plan.dtype), levels


def start_model(
    plan: Plan, runs: Runs
) -> tuple[DTMGP, Found | None, tuple[int, ...], tuple[int | AbstractGrid, ...]]:
    """Build and start; without given widths, a wider model is tried and taken if its evidence is higher."""
    dim, inputs = runs.x.shape[1], len(runs.x)
    own = dim + plan.latent_inputs
    if plan.hidden_widths is not None:
        options = [plan.hidden_widths]
    else:
        options = [(own,), (own + EXTRA_WIDTH,)]
    best = None
    for widths in options:
        model, levels = build(plan, dim, widths, inputs)
        found = None
        if isinstance(plan.likelihood, WITH_LOCATION):
            found = gauss_newton_start(model, runs, GaussNewton())
        log.info(
            "widths %s: %s", widths, "no start" if found is None else f"log evidence {found.log_evidence:.1f}"
        )
        if best is not None and (
            found is None or best[1] is None or found.log_evidence <= best[1].log_evidence
        ):
            break
        best = model, found, widths, levels
        if found is None or found.effective < 8 * own:  # little to be found: no wider model
            break
    assert best is not None
    return best


def set_noise(model: DTMGP, runs: Runs, found: Found) -> None:
    """The level and the shape of the noise from the residuals of the start."""
    likelihood = model.likelihood
    noise = found.noise.clamp(min=1e-3).to(likelihood.log_noise)  # type: ignore[arg-type]
    with torch.no_grad():
        likelihood.log_noise.copy_(noise.log())  # type: ignore[union-attr, operator]
    if not isinstance(likelihood, MixtureOfNormals):
        return
    group = torch.repeat_interleave(torch.arange(len(runs.x)), runs.counts)
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(np.sort(rng.permutation(len(group))[:SHAPE_ROWS]))
    used, place = group[rows].unique(return_inverse=True)
    with torch.no_grad():
        f = model(runs.x[used], noise=model.shared_noise(1, runs.x)).mean[0, :, : likelihood.outputs]
        residual = ((likelihood.warp(runs.y[rows]) - f[place]) / noise).double().numpy()
    for output, column in enumerate(residual.T):
        likelihood.set_shape(output, *shape_of(column, likelihood.components))


def shape_of(residual: np.ndarray, components: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights, centres and widths of a mixture of normals, of as many as the Bayesian criterion asks for."""
    column = np.clip(residual, -8.0, 8.0)[:, None]
    best, score = None, np.inf
    for count in range(1, min(components, max(1, len(column) // 10)) + 1):
        shape = GaussianMixture(
            count, random_state=0, reg_covar=1e-3, tol=1e-4, max_iter=300, init_params="k-means++"
        )
        found = shape.fit(column).bic(column)
        if found < score:
            best, score = shape, found
    assert best is not None
    extra = components - len(best.weights_)
    weights = np.concatenate([best.weights_, np.full(extra, 1e-3)])
    centres = np.concatenate([best.means_[:, 0], np.zeros(extra)])
    widths = np.sqrt(np.concatenate([best.covariances_[:, 0, 0], np.ones(extra)]))
    return tuple(torch.as_tensor(part) for part in (weights, centres, widths))  # type: ignore[return-value]


def prune_location(model: DTMGP, runs: Runs) -> torch.Tensor:
    """Make the location one number, as the evidence asks; what shapes the law may still follow the inputs.

    Returns the standard deviation of the warped outputs.
    """
    outputs = model.likelihood.outputs
    last = model.stack[-1]
    with torch.no_grad():
        z = model.likelihood.warp(runs.y)
        last.weights.mean[:, :outputs] = 0.0
        last.weights.prior_std[..., :outputs] = PRUNED
        last.weights.log_std[:, :outputs] = math.log(PRUNED)
        last.bias[:outputs] = z.mean(0)
        for layer in model.stack[:-1]:
            layer.weights.prior_std.fill_(PRUNED)
            layer.weights.log_std.fill_(math.log(PRUNED))
        for layer in model.stack:
            if isinstance(layer.mean, LinearMean):
                layer.mean.prior_std.fill_(PRUNED)
                layer.mean.matrix.copy_(layer.mean.start)
        return z.std(0)


def stages_of(plan: Plan, inputs: int, started: bool) -> list[Settings]:
    """The stages in epochs; one stage of the user's own if he gave epochs or a rate."""
    batch = plan.batch_size or int(min(max(inputs / 16, 64), 1000))
    steps = max(1, -(-inputs // batch))
    chosen = STAGES if started else UNSTARTED
    if plan.max_epochs is not None or plan.learning_rate is not None:
        first = chosen[0]
        epochs = plan.max_epochs or _epochs(first, steps)
        return [Settings(epochs=epochs, batch_size=batch, learning_rate=plan.learning_rate or first.rate)]
    return [Settings(_epochs(stage, steps), batch, stage.rate) for stage in chosen]


def _epochs(stage: Stage, steps: int) -> int:
    return max(8, min(stage.steps // steps, 300))


def fit_deep(
    plan: Plan,
    runs: Runs,
    validation: Runs | None,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | Path | None = None,
    fingerprint: str = "",
) -> Fitted:
    """Start, shape the noise, train in stages."""
    model, found, widths, levels = start_model(plan, runs)
    if found is not None:
        if found.log_evidence < found.null_evidence + MARGIN:
            found.noise = prune_location(model, runs).double()
            log.info("the evidence is for a location that does not depend on the inputs")
        set_noise(model, runs, found)
    model = model.to(plan.device)
    runs = Runs(*(part.to(plan.device) for part in runs))
    generator = torch.Generator().manual_seed(plan.seed)
    done: list[Training] = []
    if found is not None and found.interrupted:
        return Fitted(model, done, found, widths, levels)
    score = math.inf
    if validation is not None:
        validation = Runs(*(part.to(plan.device) for part in validation))
        score = negative_log_density(model, validation)
    for number, settings in enumerate(stages_of(plan, len(runs.x), found is not None)):
        path = None if checkpoint is None else f"{checkpoint}.{number + 1}" if number else checkpoint
        before, kept = score, copy_state(model)
        training = train(
            model,
            runs,
            plan.objective,
            settings,
            generator=generator,
            validation=validation,
            score=negative_log_density,
            callbacks=callbacks,
            checkpoint=path,
            fingerprint=fingerprint,
        )
        done.append(training)
        if validation is None or not training.best_state:
            break
        score = training.best_score
        log.info("stage %d: held-out score %.4f after %.4f", number + 1, score, before)
        if not score < before:
            model.load_state_dict(kept)
        if training.reason in STOPPED or not before - score > WORTH:
            break
    return Fitted(model, done, found, widths, levels)
