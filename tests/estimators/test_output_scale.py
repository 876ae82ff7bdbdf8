"""Oracle: laws whose normalising scale is known, and counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtmgp.estimators.lattice import Lattice
from dtmgp.estimators.output_scale import (
    candidates,
    choose_scale,
    output_warp,
    profile_score,
    quadratic_design,
    residuals_of,
)


def design(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rows, 2))
    return x, 1.5 * x[:, 0] - x[:, 1] ** 2 + 0.3 * rng.normal(size=rows)


CASES = {
    "normal": (lambda z: z, "identity"),
    "large normal": (lambda z: 1000.0 + z, "identity"),
    "lognormal": (np.exp, "log"),
    "square": (lambda z: (z + 6.0) ** 2, "Box-Cox 0.5"),
    "logit-normal": (lambda z: 1.0 / (1.0 + np.exp(-z)), "logit"),
    "negative": (lambda z: -np.exp(z), "identity"),
}


@pytest.mark.parametrize("name", CASES)
def test_known_scales_are_found(name):
    x, z = design()
    transform, expected = CASES[name]
    assert choose_scale(x, transform(z)).name == expected


@pytest.mark.parametrize("seed", range(5))
def test_normal_outputs_stay_as_they_are(seed):
    """Positive outputs far from 0, where a power says little: a margin keeps the identity."""
    x, z = design(100, seed)
    assert choose_scale(x, z + 50.0).name == "identity"


def test_every_candidate_is_a_warp_with_its_derivative():
    y = np.random.default_rng(0).uniform(0.1, 0.9, size=(50, 1))
    for counts in (False, True):
        for scale in candidates(y[:, 0], counts):
            warp, values = scale.module().double(), torch.from_numpy(y)
            np.testing.assert_allclose(warp(values)[:, 0], scale.forward(y[:, 0]), rtol=1e-6, atol=1e-6)
            found = warp.log_derivative(values)[:, 0]
            np.testing.assert_allclose(found, scale.log_derivative(y[:, 0]), rtol=1e-6, atol=1e-6)
    assert {"log", "logit"} < {scale.name for scale in candidates(y[:, 0])}


def test_score_is_the_profile_likelihood_of_a_regression():
    """For normal residuals: the log likelihood at the maximum, up to the constant of the normal law."""
    x, z = design(60)
    columns = quadratic_design(x)
    scale = candidates(np.exp(z))[1]
    residual = z - columns @ np.linalg.lstsq(columns, z, rcond=None)[0]
    expected = -30 * np.log(residual @ residual / 60) - z.sum()
    found = residuals_of(scale, columns, np.exp(z))
    np.testing.assert_allclose(found, residual, atol=1e-10)
    assert profile_score(scale, found, np.exp(z)) == pytest.approx(expected)


def test_several_outputs_share_a_scale_or_have_none():
    x, z = design()
    both, name = output_warp(x, np.exp(np.column_stack([z, z + 1.0])))
    assert name == "log"
    warped = both(torch.from_numpy(np.exp(np.column_stack([z, z + 1.0]))))
    assert torch.allclose(warped.mean(0), torch.zeros(2).double(), atol=1e-5)
    assert torch.allclose(warped.std(0, correction=0), torch.ones(2).double(), atol=1e-5)
    assert output_warp(x, np.column_stack([np.exp(z), z]))[1] == "identity"


def test_few_or_constant_outputs_get_no_warp():
    x, z = design(10)
    assert choose_scale(x, np.exp(z)).name == "identity"
    x, z = design(50)
    assert choose_scale(x, np.full(50, 3.0)).name == "identity"


class TestLattice:
    def test_is_found_in_counts_only(self):
        rng = np.random.default_rng(0)
        counts = rng.poisson(3.0, size=(100, 1)).astype(float)
        assert Lattice.of(counts) == Lattice(0.0)
        assert Lattice.of(counts - 2.0) == Lattice(-np.inf)
        assert Lattice.of(counts + 0.5) is None
        assert Lattice.of(np.arange(100.0)[:, None]) is None  # whole, but without repetitions
        assert Lattice.of(counts[:20]) is None
        assert Lattice.of(np.column_stack([counts, rng.normal(size=100)])) is None

    def test_spread_values_round_back(self):
        y = np.random.default_rng(0).poisson(2.0, size=(500, 2)).astype(float)
        lattice = Lattice(0.0)
        spread = lattice.spread(y, seed=3)
        assert np.array_equal(lattice.round(spread), y)
        assert np.array_equal(spread, lattice.spread(y, seed=3))
        assert np.abs(spread - y).max() <= 0.5
        assert abs((spread - y).mean()) < 5 * np.sqrt(1 / 12 / y.size)

    def test_cdf_at_a_whole_number_ends_between_it_and_the_next(self):
        lattice = Lattice(0.0)
        assert lattice.upper(np.array([-1.0, 0.0, 0.9, 3.0])).tolist() == [-np.inf, 0.5, 0.5, 3.5]
        assert Lattice(-np.inf).upper(np.array([-4.0])).tolist() == [-3.5]

    def test_scale_of_counts(self):
        x, z = design()
        y = np.random.default_rng(1).poisson(np.exp(1.0 + z)).astype(float)
        name = choose_scale(x, Lattice(0.0).spread(y[:, None], 0)[:, 0], counts=True).name
        assert name.endswith("of y + 1")
