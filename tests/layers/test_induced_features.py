"""Oracles: `dtmgp.expansion.InducedExpansion`, dense algebra, autograd against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtmgp.expansion import InducedExpansion
from dtmgp.kernels import Matern32, Matern52, Tensor
from dtmgp.layers import ExpansionLayer, InducedFeatures, LinearMean

SCALES = np.array([0.4, 1.5])


def some(n, seed=0):
    return np.random.default_rng(seed).random((n, 2))


@pytest.mark.parametrize(("order", "kind"), [(1, Matern32), (2, Matern52)])
def test_the_process_is_that_of_the_induced_expansion(order, kind):
    points, x = some(20), some(9, 1)
    features = InducedFeatures(points, SCALES, order)
    kernel = Tensor([kind(lengthscale=scale) for scale in SCALES])
    phi = features.dense(torch.from_numpy(x)).numpy()
    other = InducedExpansion(kernel, points).features(x)
    np.testing.assert_allclose(phi @ phi.T, other @ other.T, atol=1e-8)
    left = np.diag(kernel(x, x)) - np.square(other).sum(axis=1)
    np.testing.assert_allclose(features.residual(torch.from_numpy(x)).numpy(), left, atol=1e-8)
    at_points = features.dense(torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(at_points @ at_points.T, kernel(points, points), atol=1e-8)


def test_repeated_points_lose_directions_not_digits():
    points = np.concatenate([some(10), some(10), some(10) + 1e-9])
    features = InducedFeatures(points, SCALES)
    assert features.size < 25
    phi = features.dense(torch.from_numpy(points[:10])).numpy()
    kernel = Tensor([Matern52(lengthscale=scale) for scale in SCALES])
    np.testing.assert_allclose(phi @ phi.T, kernel(points[:10], points[:10]), atol=1e-7)


def test_rotation_changes_no_law():
    features = InducedFeatures(some(12), SCALES)
    x = torch.from_numpy(some(5, 1))
    phi = features.dense(x)
    axes = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64)).Q
    features.rotate(axes)
    turned = features.dense(x)
    torch.testing.assert_close(turned @ turned.T, phi @ phi.T, atol=1e-9, rtol=0)


def test_a_layer_adds_what_the_points_leave_out_in_units_of_each_prior():
    features = InducedFeatures(some(8), SCALES)
    layer = ExpansionLayer(
        features, 2, mean=LinearMean(2, 2), prior=(0.0, torch.tensor([[2.0, 0.5]]))
    ).double()
    with torch.no_grad():
        layer.weights.log_std.fill_(-60.0)
    x = torch.from_numpy(some(5, 1))
    law = layer(x)
    left = features.residual(x)
    torch.testing.assert_close(law.variance, left[:, None] * torch.tensor([4.0, 0.25], dtype=torch.float64))


def test_slopes_in_the_inputs():
    features = InducedFeatures(some(8), SCALES)
    layer = ExpansionLayer(features, 1).double()
    x = torch.from_numpy(some(3, 1)).requires_grad_()

    def both(x):
        law = layer(x)
        return law.mean, law.variance

    assert torch.autograd.gradcheck(both, (x,), atol=1e-6)


def test_three_axes_and_float32_inputs():
    features = InducedFeatures(some(8), SCALES)
    x = torch.rand(4, 5, 2)
    assert features.dense(x).shape == (4, 5, 8)
    assert features.dense(x).dtype == torch.float64
    torch.testing.assert_close(features.dense(x)[2], features.dense(x[2]))
