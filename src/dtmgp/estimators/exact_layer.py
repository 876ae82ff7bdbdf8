"""Small data: one layer at the inputs themselves whose location is exact kriging, as a start for training.

The posterior of the weights of an induced layer is Gaussian with precision ``I + v Phi^T D Phi``. On the axes of its
eigenvectors it is independent, so that a table of means and standard deviations holds all of it, correlations
included. Trend and hyperparameters are plugged in. Points beside the inputs let function draws differ between them.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.stats import qmc

from dtmgp.inference import Runs
from dtmgp.inference.gauss_newton import Found
from dtmgp.inference.mean_path import BIAS_PRECISION
from dtmgp.kriging.exact import ExactKriging
from dtmgp.kriging.replicates import Replicates
from dtmgp.layers import InducedFeatures, LinearMean
from dtmgp.model import DTMGP

MOST_INPUTS = 1000
EXTRA_POINTS = 200


def replicates_of(runs: Runs, z: torch.Tensor) -> Replicates:
    """Sufficient statistics of warped runs (N, 1)."""
    count = runs.counts.double()
    group = torch.repeat_interleave(torch.arange(len(runs.x)), runs.counts)
    column = z[:, 0].double()
    mean = torch.zeros(len(runs.x), dtype=torch.float64).index_add(0, group, column) / count
    spread = torch.zeros_like(mean).index_add(0, group, (column - mean[group]).square())
    known = torch.zeros_like(mean)
    x = runs.x.double().clamp(0.0, 1.0)
    return Replicates(*(part.numpy() for part in (x, mean, count, spread, known)))


def features_at(kriging: ExactKriging, seed: int) -> InducedFeatures:
    """At the inputs and at points that fill the cube."""
    inputs = kriging.data.inputs
    sequence = qmc.Sobol(inputs.shape[1], seed=seed)
    filling = sequence.random(1 << (EXTRA_POINTS - 1).bit_length())[:EXTRA_POINTS]
    return InducedFeatures(np.concatenate([inputs, filling]), kriging.lengthscales, kriging.order)


def write_posterior(model: DTMGP, kriging: ExactKriging) -> Found:
    """Location, its uncertainty and its prior into a one-layer model on `features_at`; the evidence as of a start."""
    data, layer = kriging.data, model.stack[0]
    features, weights, mean = layer.features, layer.weights, layer.mean
    assert isinstance(features, InducedFeatures)
    assert isinstance(mean, LinearMean)
    std = math.sqrt(kriging.variance)
    x, count = torch.from_numpy(data.inputs), torch.from_numpy(data.count)
    slopes = torch.from_numpy(kriging.trend)
    centred = x - 0.5
    with torch.no_grad():
        phi = std * features.dense(x)
        weighted = phi * (count / kriging.noise).unsqueeze(1)
        values, axes = torch.linalg.eigh(phi.T @ weighted)
        precision = 1.0 + values.clamp(min=0.0)
        right = axes.T @ (weighted.T @ (torch.from_numpy(data.mean) - slopes[0] - centred @ slopes[1:]))
        features.rotate(axes)
        weights.prior_std[..., 0] = std
        weights.mean[:, 0] = std * right / precision
        weights.log_std[:, 0] = (std * precision.rsqrt()).log()
        mean.matrix[:, 0] = slopes[1:]
        layer.bias[0] = slopes[0] - 0.5 * slopes[1:].sum()
    noise = torch.tensor([kriging.noise], dtype=torch.float64)
    left = torch.from_numpy(kriging.left_out_share())
    return Found(
        noise.sqrt(),
        float((1.0 - left).sum()),
        kriging.evaluations,
        kriging.log_evidence,
        null_evidence(data),
        leverage=((1.0 - left) / count).unsqueeze(1),
        exact=True,
    )


def null_evidence(data: Replicates) -> float:
    """Of one number for all inputs, with the bias's prior: what `gauss_newton` compares with."""
    centre = float((data.mean * data.count).sum() / data.runs)
    total = float(data.spread.sum() + (data.count * (data.mean - centre) ** 2).sum())
    square = max(total / data.runs, 1e-300)
    normal = -0.5 * data.runs * (math.log(2 * math.pi * square) + 1.0)
    return normal + 0.5 * math.log(BIAS_PRECISION / (data.runs / square + BIAS_PRECISION))
