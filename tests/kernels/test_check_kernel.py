"""Oracles: kernels broken on purpose in one way each, which the check must name; sound ones must pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor
from dtmgp.testing import check_kernel

USER = Markov(p=lambda x: (1 + x) * np.exp(x), q=lambda x: np.exp(-x))


@pytest.mark.parametrize(
    "kernel",
    [
        Laplace(0.3),
        Laplace(3.0, 2.0),
        Brownian(),
        Brownian(0.2, 3.0),
        BrownianBridge(2.0),
        USER,
        Markov(p=lambda x: x, q=lambda x: 3 - x, domain=(0.2, 2.0)),
        Matern32(0.3),
        Matern32(1.5, 2.0),
        Matern52(0.3),
        Matern52(1.5, 0.1),
        Tensor([Laplace(), Matern32(), BrownianBridge()], variance=2.0),
        Additive(
            [
                ((0, 1), Tensor(Laplace(), dim=2)),
                ((2,), Matern52()),
                ((1, 2), Tensor(BrownianBridge(), dim=2)),
            ]
        ),
    ],
    ids=lambda k: type(k).__name__,
)
def test_kernels(kernel):
    check_kernel(kernel)


@dataclasses.dataclass(frozen=True)
class SignedDifference(Laplace):
    def covariance(self, x, y):
        return self.variance * np.exp((x - y) / self.lengthscale)


@dataclasses.dataclass(frozen=True)
class NotPositive(Laplace):
    def covariance(self, x, y):
        return super().covariance(x, y) - 0.9 * (np.asarray(x) != np.asarray(y))


@dataclasses.dataclass(frozen=True)
class WrongDiagonal(Laplace):
    def diagonal(self, x):
        return 2.0 * super().diagonal(x)


@dataclasses.dataclass(frozen=True)
class NotMarkov(Laplace):
    def covariance(self, x, y):
        return np.exp(-np.square((np.asarray(x) - y) / self.lengthscale))


@dataclasses.dataclass(frozen=True)
class WrongDerivatives(Matern32):
    def state_covariance(self, x, y):
        return super().state_covariance(x, y) * np.array([[1.0, -1.0], [-1.0, 1.0]])


@dataclasses.dataclass(frozen=True)
class WrongPeak(Laplace):
    def peak(self, a, b, c):
        return super().peak(a, b, c) * (1 + 1e-6)


@dataclasses.dataclass(frozen=True)
class WrongFall(Laplace):
    def fall(self, b, x, c):
        return super().fall(b, x, c) * (1 + 1e-6)


@dataclasses.dataclass(frozen=True)
class LeaksOutside(Laplace):
    def features(self, x, local, position):
        return super().features(x, local, position) + 1e-12


@dataclasses.dataclass(frozen=True)
class ForgetsVariance(Laplace):
    def with_hyperparameters(self, *, lengthscale=None, variance=None):
        return super().with_hyperparameters(lengthscale=lengthscale)


@dataclasses.dataclass(frozen=True)
class ForgetsLengthscale(Laplace):
    def with_hyperparameters(self, *, lengthscale=None, variance=None):
        return super().with_hyperparameters(variance=variance)


@dataclasses.dataclass(frozen=True)
class TakesNaN(Laplace):
    def check_inputs(self, x):
        return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (SignedDifference, "symmetry"),
        (NotPositive, "positive semi-definite"),
        (WrongDiagonal, "diagonal"),
        (NotMarkov, "Markov property"),
        (WrongDerivatives, "against differences"),
        (WrongPeak, "columns.left|columns.own"),
        (WrongFall, "columns.left"),
        (LeaksOutside, "exactly 0 outside"),
        (ForgetsVariance, "variance"),
        (ForgetsLengthscale, "lengthscale"),
        (TakesNaN, "NaN"),
    ],
)
def test_a_broken_kernel_is_named(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_kernel(broken(0.5))


def test_factors_are_checked_too():
    with pytest.raises(AssertionError, match="symmetry"):
        check_kernel(Tensor([Laplace(), SignedDifference()]))
    with pytest.raises(AssertionError, match="symmetry"):
        check_kernel(Additive([((0,), Laplace()), ((1,), SignedDifference())]))
    with pytest.raises(AssertionError, match="should be a line kernel"):
        check_kernel("laplace")
