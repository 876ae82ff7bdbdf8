"""From grouped runs to a trained deep model: architecture by rule and evidence, start, shape of the noise, training."""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from sklearn.mixture import GaussianMixture

from dtmgp.estimators.deep_stages import Stage, run_stages, settings_of, stages_of
from dtmgp.estimators.exact_layer import (
    MOST_INPUTS,
    features_at,
    replicates_of,
    write_posterior,
)
from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.inference import AbstractObjective, Runs
from dtmgp.inference.distributed import Processes
from dtmgp.inference.freeze import quiet_location
from dtmgp.inference.gauss_newton import Found, GaussNewton, gauss_newton_start
from dtmgp.inference.trainer import Callback, Training
from dtmgp.kernels import AbstractLineKernel, Additive, Matern32, Tensor
from dtmgp.kriging.exact import best_kriging
from dtmgp.layers import InducedFeatures, LinearMean
from dtmgp.likelihoods import (
    AbstractLikelihood,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    MixtureOfNormals,
    StudentT,
)
from dtmgp.model import DTMGP, ModelNoise
from dtmgp.model.architecture import deep_model

log = logging.getLogger("dtmgp")
Kernel = AbstractLineKernel | Tensor | Additive
Level = int | AbstractGrid | InducedFeatures
WITH_LOCATION = (GaussianLikelihood, HeteroscedasticGaussian, StudentT, MixtureOfNormals)
MOST_FEATURES = 700  # of the last layer by default: the start costs O(n m^2)
HIDDEN_FEATURES = 60  # of hidden layers, beside their linear mean
EXTRA_WIDTH = 11  # units beyond the inputs, tried if
WIDER = 8  # effective parameters per input have been found
SHAPE_ROWS = 10_000  # residuals from which the shape of the noise is taken


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the estimator's parameters ask for; None where the rules of this file decide."""

    likelihood: AbstractLikelihood
    objective: AbstractObjective
    hidden_widths: tuple[int, ...] | None
    levels: tuple[Level, ...] | None
    kernel: Kernel | None
    latent_inputs: int
    learn_kernel: bool
    max_epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    dtype: torch.dtype
    device: torch.device
    seed: int
    processes: Processes = dataclasses.field(default=Processes(), repr=False)  # no part of the result


MARGIN = 3.0  # log evidence at the mode that a dependence of the location on the inputs must gain over none
LEAST_KEPT = 1e-4  # of 1 - h
PRUNED = 0.02  # prior scale of a location that does not depend on the inputs


@dataclasses.dataclass
class Fitted:
    """A trained model, how it started, and the record of its training, one stage after the other."""

    model: DTMGP
    stages: list[Training]
    start: Found | None
    widths: tuple[int, ...]
    levels: tuple[Level, ...]


def largest_level(kernel: Kernel, dim: int, most: int) -> int:
    """The largest level of a sparse grid with at most so many features; at least 2."""
    level = 2
    while level < 14 and sparse_size(kernel, dim, level + 1) <= most:
        level += 1
    return level


def sparse_size(kernel: Kernel, dim: int, level: int) -> int:
    """Features of an isotropic sparse grid in generalised levels, without building it."""
    factors = kernel.kernels if isinstance(kernel, Tensor) else [kernel] * dim
    states = [getattr(factor, "state_size", 1) for factor in factors]
    counts = [[1 << ((g - 1) // state) for g in range(1, level + 1)] for state in states]
    return SparseGrid(dim, level).weighted_total(counts)


def default_levels(plan: Plan, dim: int, widths: Sequence[int], inputs: int) -> tuple[Level, ...]:
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


def build(plan: Plan, dim: int, widths: tuple[int, ...], inputs: int) -> tuple[DTMGP, tuple[Level, ...]]:
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


@dataclasses.dataclass
class Started:
    """A model at its start, and the evidence for it."""

    model: DTMGP
    found: Found | None
    widths: tuple[int, ...]
    levels: tuple[Level, ...]

    @property
    def evidence(self) -> float:
        """Log evidence; minus infinity if there is no start."""
        return -math.inf if self.found is None else self.found.log_evidence


def start_model(plan: Plan, runs: Runs) -> Started:
    """Build and start; without given widths the evidence chooses among shapes of the model.

    These are one hidden layer as wide as the inputs; a wider one, if the first found much; and for small data one
    layer at the inputs themselves, exact kriging.
    """
    dim, inputs = runs.x.shape[1], len(runs.x)
    own = dim + plan.latent_inputs
    if plan.hidden_widths is not None:
        return _start(plan, runs, plan.hidden_widths)
    best = _start(plan, runs, (own,))
    if best.found is None or best.found.interrupted or plan.levels is not None:
        return best
    if best.found.effective >= WIDER * own:
        best = max(best, _start(plan, runs, (own + EXTRA_WIDTH,)), key=lambda start: start.evidence)
    single = runs.y.shape[1] == 1 and not plan.latent_inputs and plan.kernel is None and plan.learn_kernel
    if single and inputs <= MOST_INPUTS:
        best = max(best, _exact_layer(plan, runs), key=lambda start: start.evidence)
    log.info("widths %s: log evidence %.1f", best.widths, best.evidence)
    return best


def _start(plan: Plan, runs: Runs, widths: tuple[int, ...]) -> Started:
    model, levels = build(plan, runs.x.shape[1], widths, len(runs.x))
    found = None
    if isinstance(plan.likelihood, WITH_LOCATION):
        found = gauss_newton_start(model, runs, GaussNewton())
    return Started(model, found, widths, levels)


def _exact_layer(plan: Plan, runs: Runs) -> Started:
    """One layer at the inputs, exact kriging with its hyperparameters integrated out of the evidence."""
    with torch.no_grad():
        z = plan.likelihood.warp(runs.y)
    kriging = best_kriging(replicates_of(runs, z))
    plan = dataclasses.replace(plan, levels=(features_at(kriging, 0),), dtype=torch.float64)
    model, levels = build(plan, runs.x.shape[1], (), len(runs.x))
    return Started(model, write_posterior(model, kriging), (), levels)


def mean_path(model: DTMGP, x: torch.Tensor) -> torch.Tensor:
    """Locations (n, W) without noise in the hidden layers."""
    latent, hidden, output = model.noise_widths
    quiet = ModelNoise(
        x.new_zeros(1, 1, latent), tuple(x.new_zeros(1, 1, w) for w in hidden), x.new_zeros(1, 1, output)
    )
    with torch.no_grad():
        parts = [model(part, noise=quiet).mean[0, :, : model.likelihood.outputs] for part in x.split(4096)]
    return torch.cat(parts)


def left_out(model: DTMGP, runs: Runs, found: Found) -> Runs:
    """Runs whose distance to the location is that of a fit without them: ``r / (1 - h)``, on the warped scale.

    Residuals of a fit are smaller than errors of predictions. The shape of the law is learned from these runs, so that
    it is the law of new ones. Where the location has its exact posterior, the model itself says how uncertain the
    location of a new run is, and what is left for the noise is ``r / sqrt(1 - h)``.
    """
    if found.leverage is None:
        return runs
    group = torch.repeat_interleave(torch.arange(len(runs.x)), runs.counts)
    warp = model.likelihood.warp
    with torch.no_grad():
        f = mean_path(model, runs.x)[group]
        kept = (1.0 - found.leverage).clamp(min=LEAST_KEPT)[group].to(f)
        y = warp.inverse(f + (warp(runs.y) - f) / (kept.sqrt() if found.exact else kept))
    return Runs(runs.x, y, runs.start)


def set_noise(model: DTMGP, runs: Runs) -> None:
    """The level and the shape of the noise from residuals."""
    likelihood = model.likelihood
    group = torch.repeat_interleave(torch.arange(len(runs.x)), runs.counts)
    with torch.no_grad():
        residual = likelihood.warp(runs.y) - mean_path(model, runs.x)[group]
        noise = residual.square().mean(0).sqrt().clamp(min=1e-3)
        likelihood.log_noise.copy_(noise.log())  # type: ignore[union-attr, operator]
    if not isinstance(likelihood, MixtureOfNormals):
        return
    rows = np.sort(np.random.default_rng(0).permutation(len(residual))[:SHAPE_ROWS])
    for output, column in enumerate((residual / noise)[rows].double().numpy().T):
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


def prune_location(model: DTMGP, runs: Runs) -> None:
    """Make the location one number, as the evidence asks; what shapes the law may still follow the inputs."""
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


def start_fit(plan: Plan, runs: Runs) -> tuple[Fitted, Runs]:
    """A started model whose noise has its shape, and the runs that shape the law: see `left_out`."""
    start = start_model(plan, runs)
    model, found = start.model, start.found
    precision = model.stack[-1].bias.dtype  # exact kriging needs float64
    runs = Runs(runs.x.to(precision), runs.y.to(precision), runs.start)
    shaped = runs
    if found is not None:
        if found.log_evidence < found.null_evidence + (0.0 if found.exact else MARGIN):
            prune_location(model, runs)
            found.leverage = None
            log.info("the evidence is for a location that does not depend on the inputs")
        shaped = left_out(model, runs, found)
        set_noise(model, shaped)
    return Fitted(model.to(plan.device), [], found, start.widths, start.levels), shaped


def fit_deep(
    plan: Plan,
    runs: Runs,
    held_out: Sequence[int] | torch.Tensor,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | Path | None = None,
    fingerprint: str = "",
) -> Fitted:
    """Start from all runs, shape the noise, train in stages with the inputs numbered ``held_out`` as judges."""
    fitted, shaped = plan.processes.once(lambda: start_fit(plan, runs))
    fitted.model.to(plan.device)
    judges = torch.as_tensor(held_out, dtype=torch.long)
    others = torch.ones(len(runs.x), dtype=torch.bool)
    others[judges] = False

    def data(stage: Stage) -> tuple[Runs, Runs | None]:
        used = shaped if stage.fixed else runs
        learn = _to(used.take(torch.nonzero(others)[:, 0]), plan.device)
        return learn, _to(used.take(judges), plan.device) if len(judges) else None

    if fitted.start is None or not fitted.start.interrupted:
        stages = stages_of(plan, len(runs.x), fitted.start)
        course = [(stage, settings_of(plan, stage, len(runs.x) - len(judges))) for stage in stages]
        quiet = fitted.start is not None and fitted.start.exact
        with quiet_location(fitted.model) if quiet else nullcontext():
            run_stages(
                plan,
                fitted,
                course,
                data,
                callbacks=callbacks,
                checkpoint=checkpoint,
                fingerprint=fingerprint,
            )
    return fitted


def _to(runs: Runs, device: torch.device) -> Runs:
    return Runs(*(part.to(device) for part in runs))
