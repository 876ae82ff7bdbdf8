"""Oracles: the formula of each kernel, scikit-learn's Matern kernels, mpmath's derivatives, finite differences."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

from dtmgp.errors import InputError
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52

USER = Markov(p=lambda x: (1 + x) * np.exp(x), q=lambda x: np.exp(-x))
KERNELS = [
    Laplace(0.3, 2.0),
    Brownian(2.0, 0.5),
    BrownianBridge(3.0),
    USER,
    Matern32(0.4, 1.5),
    Matern52(0.7, 2.0),
]
X, Y = np.random.default_rng(0).random((2, 30))


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (KERNELS[0], lambda x, y: 2.0 * math.exp(-abs(x - y) / 0.3)),
        (KERNELS[1], lambda x, y: 0.5 * (1 + 2.0 * min(x, y))),
        (KERNELS[2], lambda x, y: 3.0 * min(x, y) * (1 - max(x, y))),
        (USER, lambda x, y: (1 + min(x, y)) * math.exp(min(x, y) - max(x, y))),
        (
            KERNELS[4],
            lambda x, y: (
                1.5 * (1 + math.sqrt(3) * abs(x - y) / 0.4) * math.exp(-math.sqrt(3) * abs(x - y) / 0.4)
            ),
        ),
    ],
)
def test_formulas(kernel, formula):
    expected = [[formula(x, y) for y in Y] for x in X]
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), [formula(x, x) for x in X], rtol=1e-14)
    assert np.array_equal(kernel(X), kernel(X, X))
    assert np.array_equal(kernel(X[:, None], Y), kernel(X, Y))


@pytest.mark.parametrize(("nu", "kind"), [(0.5, Laplace), (1.5, Matern32), (2.5, Matern52)])
@pytest.mark.parametrize("lengthscale", [0.05, 1.0, 30.0])
def test_matern_kernels_of_scikit_learn(nu, kind, lengthscale):
    np.testing.assert_allclose(
        kind(lengthscale, 2.0)(X, Y), 2.0 * Matern(lengthscale, nu=nu)(X[:, None], Y[:, None]), rtol=1e-12
    )


@pytest.mark.parametrize("kernel", [Matern32(0.4, 1.5), Matern52(0.7, 2.0)])
def test_state_covariance_against_mpmath(kernel):
    order = kernel.state_size - 1
    rate = mp.sqrt(2 * order + 1) / mp.mpf(kernel.lengthscale)

    def value(u):
        t = rate * abs(u)
        return kernel.variance * (1 + t + (t * t / 3 if order == 2 else 0)) * mp.exp(-t)

    for x, y in zip(X[:6], Y[:6]):
        got = kernel.state_covariance(np.array([x]), np.array([y]))[0]
        for i in range(order + 1):
            for j in range(order + 1):
                with mp.workdps(60):
                    expected = (-1) ** j * mp.diff(value, mp.mpf(float(x)) - mp.mpf(float(y)), i + j)
                assert float(expected) == pytest.approx(got[i, j], rel=1e-12, abs=1e-13 * np.abs(got).max())


@pytest.mark.parametrize("kernel", [Matern32(0.4), Matern52(0.7)])
def test_finite_differences_of_the_state_have_second_order(kernel):
    x, y = np.array([0.3]), np.array([0.55])
    exact = kernel.state_covariance(x, y)[0, 1, 0]
    errors = [
        abs((kernel.covariance(x + h, y) - kernel.covariance(x - h, y)) / (2 * h) - exact).item()
        for h in (0.02, 0.01, 0.005)
    ]
    observed = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert np.abs(observed - 2).max() < 0.1


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_hyperparameters_are_replaced_not_set(kernel):
    other = kernel.with_hyperparameters(variance=7.0)
    assert other.variance == 7.0
    assert kernel.variance != 7.0
    assert type(other) is type(kernel)
    assert hash(kernel) == hash(kernel.with_hyperparameters())
    assert kernel == kernel.with_hyperparameters()


@given(st.floats(1e-3, 1e3), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_lengthscale_is_a_unit_of_length(lengthscale, x, y):
    for kind in (Laplace, Matern32, Matern52):
        scaled = kind(lengthscale)([lengthscale * x], [lengthscale * y])
        np.testing.assert_allclose(scaled, kind(1.0)([x], [y]), rtol=1e-12)


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "words"),
    [
        (lambda x: np.exp(-x), lambda x: np.exp(x), ["p/q", "x = 0.000244", "strictly increasing", "swap"]),
        (lambda x: np.minimum(x, 0.5), np.ones_like, ["0.5 at x = 0.5 and 0.5 at x = 0.500244"]),
        (lambda x: 1 + (x - 0.25) ** 2, np.ones_like, ["strictly increasing"]),
        (np.ones_like, np.ones_like, ["strictly increasing"]),
        (lambda x: x - 0.5, np.ones_like, ["p(0.000244141)", "positive"]),
        (lambda x: 1 + x, lambda x: 0.75 - x, ["q(0.75) = 0"]),
        (lambda x: np.where(x > 0.3, np.nan, 1 + x), np.ones_like, ["= nan", "positive finite"]),
    ],
)
def test_markov_names_the_point_where_it_fails(p, q, words):
    with pytest.raises(InputError) as error:
        Markov(p=p, q=q)
    for word in words:
        assert word in str(error.value)


def test_markov_is_checked_on_its_domain_only():
    kernel = Markov(p=lambda x: np.minimum(x, 0.5), q=lambda x: 1 - x, domain=(0.1, 0.4))
    assert kernel([0.2], [0.3])[0, 0] == pytest.approx(0.2 * 0.7)
    with pytest.raises(InputError, match=r"x\[0\] = 0.5; expected finite values in \[0.1, 0.4\]"):
        kernel([0.5])


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", [Laplace, Brownian, Matern32, Matern52])
def test_hyperparameters_are_positive(kind, value):
    for call in (kind, kind().with_hyperparameters):
        name = "lengthscale" if call is not kind else None
        with pytest.raises(InputError, match="finite positive number"):
            call(value) if name is None else call(lengthscale=value)
        with pytest.raises(InputError, match="variance"):
            call(variance=value)


def test_the_bridge_has_no_lengthscale():
    with pytest.raises(
        InputError, match=r"BrownianBridge lengthscale: got 2.0; expected none.*Brownian or Laplace"
    ):
        BrownianBridge().with_hyperparameters(lengthscale=2.0)


@pytest.mark.parametrize(
    ("kernel", "x", "words"),
    [
        (Laplace(), [0.1, math.nan], r"Laplace inputs: got x\[1\] = nan"),
        (Laplace(), [math.inf], r"x\[0\] = inf; expected finite values in \[-inf, inf\]"),
        (Brownian(2.0), [0.0, -0.6], r"x\[1\] = -0.6; expected finite values in \[-0.5, inf\]"),
        (BrownianBridge(), [1.0 + 1e-12], r"expected finite values in \[0, 1\]"),
        (Matern32(), [[0.1, 0.2]], r"shape \(1, 2\).*Tensor or Additive"),
        (Matern52(), 0.3, r"shape \(\)"),
        (USER, [-0.1], r"\[0, 1\]"),
    ],
)
def test_inputs_are_checked(kernel, x, words):
    for call in (kernel, kernel.diagonal, lambda bad: kernel([0.5], bad)):
        with pytest.raises(InputError, match=words):
            call(x)


def test_ends_of_the_domain_belong_to_it():
    assert BrownianBridge()([0.0, 1.0]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert Brownian(2.0)([-0.5])[0, 0] == 0.0


def test_degenerate_points_are_named():
    with pytest.raises(InputError, match=r"BrownianBridge at the grid point 0: got conditional variance 0"):
        BrownianBridge().local(np.array([-np.inf]), np.array([0.0]), np.array([0.5]))
