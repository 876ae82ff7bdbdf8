"""Oracle: products and sums written out entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.errors import InputError
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Matern32, Tensor, as_tensor

LINE = [Laplace(0.5), Brownian(2.0), Matern32(0.3)]
X, Y = np.random.default_rng(0).random((2, 8, 3))


def test_tensor_is_the_product():
    kernel = Tensor(LINE, variance=2.5)
    expected = [[2.5 * np.prod([k([a], [b])[0, 0] for k, a, b in zip(LINE, x, y)]) for y in Y] for x in X]
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-14)
    assert kernel.dim == 3
    assert np.array_equal(Tensor(Laplace(), dim=3)(X), Tensor([Laplace()] * 3)(X))


def test_the_papers_laplace_kernel():
    np.testing.assert_allclose(
        Tensor(Laplace(lengthscale=3.0), dim=3)(X, Y),
        np.exp(-np.abs(X[:, None] - Y).sum(axis=2) / 3),
        rtol=1e-14,
    )


def test_the_brownian_sheet():
    expected = np.prod(1 + np.minimum(X[:, None], Y), axis=2)
    np.testing.assert_allclose(Tensor(Brownian(), dim=3)(X, Y), expected, rtol=1e-14)


def test_additive_is_the_sum():
    terms = [
        ((0, 2), Tensor([Laplace(), Matern32()], variance=2.0)),
        ((1,), Brownian()),
        ((2, 1), Tensor(Laplace(), dim=2)),
    ]
    kernel = Additive(terms)
    expected = sum(as_tensor(k, len(u))(X[:, list(u)], Y[:, list(u)]) for u, k in terms)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-14)
    assert kernel.dim == 3
    assert Additive(terms, dim=5).dim == 5


def test_tensor_hyperparameters():
    kernel = Tensor(LINE, variance=2.5).with_hyperparameters(lengthscales=[1.0, 0.25, 2.0], variance=4.0)
    assert kernel.lengthscales.tolist() == [1.0, 0.25, 2.0]
    assert kernel.kernels[1] == Brownian(4.0)
    assert kernel.variance == 4.0
    assert Tensor(LINE).with_hyperparameters(lengthscales=0.7).lengthscales == pytest.approx([0.7] * 3)
    pinned = Tensor([BrownianBridge(), Laplace()])
    assert np.isnan(pinned.lengthscales[0])
    assert pinned.with_hyperparameters(lengthscales=0.7).kernels == (BrownianBridge(), Laplace(0.7))


def test_additive_hyperparameters():
    kernel = Additive([((0, 2), Tensor(Laplace(), dim=2)), ((1,), Brownian())])
    other = kernel.with_hyperparameters(lengthscales=[1.0, 2.0, 3.0], variance=4.0)
    assert other.terms[0][1].lengthscales.tolist() == [1.0, 3.0]
    assert other.terms[1][1].lengthscales.tolist() == [2.0]
    assert [term.variance for _, term in other.terms] == [4.0, 4.0]
    np.testing.assert_allclose(
        other.with_hyperparameters(lengthscales=1.0, variance=1.0)(X), kernel(X), rtol=1e-14
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Tensor([]), "Tensor kernel: got 0 factors"),
        (lambda: Tensor(LINE, dim=2), "3 factors; expected 2 of them"),
        (lambda: Tensor(Laplace(), dim=2, variance=-1.0), "Tensor variance"),
        (lambda: Tensor(LINE)([[0.1, 0.2]]), r"shape \(1, 2\); expected \(n, 3\)"),
        (lambda: Tensor(LINE)([0.1, 0.2, 0.3]), "single point given as a flat array"),
        (lambda: Tensor(LINE)([[0.1, 0.2, np.nan]]), r"Matern32 inputs: got x\[0\] = nan"),
        (lambda: Additive([]), "0 terms"),
        (lambda: Additive([((0, 0), Tensor(Laplace(), dim=2))]), r"term 0: got coordinates \(0, 0\)"),
        (lambda: Additive([((-1,), Laplace())]), "counted from 0"),
        (lambda: Additive([((), Laplace())]), "at least one coordinate"),
        (lambda: Additive([((0, 1), Tensor(LINE))]), "Tensor of 3 coordinates"),
        (lambda: Additive([((3,), Laplace())], dim=3), "coordinates below dim"),
        (lambda: Additive([((1,), Laplace())])([[0.1]]), r"expected \(n, 2\)"),
        (lambda: Additive([((0,), BrownianBridge())])([[1.5]]), r"x\[0\] = 1.5"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InputError, match=words):
        call()
