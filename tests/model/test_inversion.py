"""Oracle: SciPy's normal quantiles, and the equation itself for mixtures with far components."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dtmgp.model.inversion import invert_cdf


def mixture(seed: int, decades: float):
    """A cdf of 300 mixtures of 6 normals, whose places and widths go over some decades."""
    rng = np.random.default_rng(seed)
    loc = torch.from_numpy(rng.normal(size=(300, 1, 6)) * 10.0 ** rng.uniform(-decades, 0, size=(300, 1, 1)))
    scale = torch.from_numpy(10.0 ** rng.uniform(-decades, 0, size=(300, 1, 6)))
    weights = torch.from_numpy(rng.dirichlet(np.ones(6), size=(300, 1)))
    calls = []

    def cdf(z):
        calls.append(1)
        return (weights * torch.special.ndtr((z.unsqueeze(-1) - loc) / scale)).sum(-1)

    ends = (loc - 9 * scale).amin(-1), (loc + 9 * scale).amax(-1)
    return cdf, calls, ends


def test_normal_quantiles():
    levels = torch.tensor([1e-9, 1e-3, 0.3, 0.5, 0.9, 0.999999], dtype=torch.float64)
    low = torch.full((6,), -40.0, dtype=torch.float64)
    found = invert_cdf(torch.special.ndtr, levels, low, -low)
    np.testing.assert_allclose(found, norm.ppf(levels.numpy()), rtol=1e-9, atol=1e-12)  # measured: 5e-11


@pytest.mark.parametrize(("decades", "most"), [(0.7, 30), (3.0, 63)])  # measured: 24 and 62
def test_mixtures_and_the_number_of_evaluations(decades, most):
    levels = torch.tensor([[1e-4, 0.05, 0.5, 0.75, 0.99, 0.9999]], dtype=torch.float64)
    for seed in range(5):
        cdf, calls, (low, high) = mixture(seed, decades)
        shape = (300, 6)
        wanted = levels.expand(shape)
        found = invert_cdf(cdf, wanted, low.expand(shape), high.expand(shape))
        assert ((cdf(found) - wanted).abs() / wanted).max() < 1e-11  # measured: 1.2e-12, rounding of z
        assert len(calls) <= most  # bisection takes 62


def test_a_bracket_that_is_a_point():
    one = torch.ones(3, dtype=torch.float64)
    assert torch.equal(invert_cdf(torch.special.ndtr, 0.5 * one, one, one), one)
