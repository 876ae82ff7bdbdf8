"""Small models and data that the tests of training share."""

from __future__ import annotations

import numpy as np
import torch

from dtmgp.inference import Runs
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import deep_model


def small_model(depth=2, likelihood=None, seed=0, dtype=torch.float32, dim=2, **options):
    """A model of a few dozen weights."""
    likelihood = GaussianLikelihood() if likelihood is None else likelihood
    return deep_model(
        dim,
        likelihood,
        hidden_widths=(3,) * (depth - 1),
        levels=(2,) * depth,
        generator=torch.Generator().manual_seed(seed),
        **options,
    ).to(dtype)


def small_runs(inputs=40, replicates=3, outputs=1, dim=2, seed=0, dtype=torch.float32):
    """A smooth function with noise, replicated."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(inputs, dim))
    mean = np.stack([np.sin(4 * x[:, 0] + k) + x[:, -1] for k in range(outputs)], axis=1)
    y = mean[:, None] + 0.2 * rng.normal(size=(inputs, replicates, outputs))
    return Runs.group(x.repeat(replicates, axis=0), y.reshape(-1, outputs), dtype=dtype)
