"""Oracle: the dense posterior of the same model."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.grids import SparseGrid
from dtmgp.kernels import Additive, Laplace, Matern32, Tensor
from dtmgp.kriging import Effort, Evidence, Hyperparameters, collapse, iterative_posterior
from dtmgp.kriging.bordered import Bordered
from dtmgp.kriging.iterative import NormalOperator
from dtmgp.kriging.preconditioner import CoarseBlock

CASES = {
    "orthogonal": (Tensor(Laplace(), dim=3), SparseGrid(3, 5), Bordered),
    "coarse": (Tensor(Matern32(), dim=3), SparseGrid(3, 6), CoarseBlock),
    "additive": (
        Additive([((0, 1), Tensor(Laplace(), dim=2)), ((2,), Laplace())]),
        SparseGrid(3, 4),
        Bordered,
    ),
}


def problem(name):
    rng = np.random.default_rng(1)
    x = rng.random((400, 3))[rng.integers(0, 400, 900)]
    y = np.sin(5 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=900)
    kernel, grid, preconditioner = CASES[name]
    evidence = Evidence(collapse(x, y), kernel, grid, 10.0)
    values = Hyperparameters(np.array([0.6, 0.9, 1.4]), np.full(len(kernel.variances), 1.7), 0.03)
    return evidence, values, preconditioner


@pytest.mark.parametrize("name", CASES)
def test_iterative_posterior_is_the_dense_one(name):
    evidence, values, _ = problem(name)
    effort = Effort(
        draws=300, probes=32, coarse=40, tolerance=1e-11, draw_tolerance=1e-5, max_iterations=2000
    )
    value, dense = evidence.posterior(values)
    estimate, error, found = iterative_posterior(
        evidence.design(values), evidence.data, values.noise, effort, 0
    )
    assert np.abs(found.mean - dense.mean).max() < 1e-6 * np.abs(dense.mean).max()
    assert abs(estimate - value) < 4 * error  # false alarm 6e-5
    new = np.random.default_rng(2).random((40, 3))
    ratio = found.predict(new, with_variance=True)[1] / dense.predict(new, with_variance=True)[1]
    # relative standard error sqrt(2/300) = 0.08; 40 dependent ratios beyond 4.5 of them: below 3e-4
    assert np.abs(ratio - 1).max() < 4.5 * 0.0817
    assert np.allclose(
        np.diag(found.predict_covariance(new)), found.predict(new, with_variance=True)[1], rtol=1e-12
    )


@pytest.mark.parametrize("name", CASES)
def test_preconditioner_solve_colour_and_determinant_are_of_one_matrix(name):
    evidence, values, kind = problem(name)
    design, data = evidence.design(values), evidence.data
    operator = NormalOperator(design, data, values.noise / data.count, Effort(coarse=40))
    preconditioner = operator.preconditioner
    assert isinstance(preconditioner, kind)
    identity = np.eye(design.size)
    root = preconditioner.colour(identity)
    matrix = root @ root.T
    assert np.abs(preconditioner.solve(matrix) - identity).max() < 1e-6
    assert preconditioner.log_det() == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-6)
    applied = operator.apply(identity)
    dense = evidence.posterior(values)[1].lower
    assert np.abs(applied - dense @ dense.T).max() < 1e-9 * np.abs(applied).max()
    # and it helps: the condition number falls
    half = np.linalg.inv(root)
    spectrum = np.linalg.eigvalsh(half @ applied @ half.T)
    assert spectrum[-1] / spectrum[0] < np.linalg.cond(applied) / 5
    if name == "orthogonal":  # no eigenvalue of the mean's columns is left behind
        assert spectrum[-1] / spectrum[0] < 200  # measured: 65


def test_threads_do_not_change_a_bit():
    evidence, values, _ = problem("orthogonal")
    data = evidence.data
    operator = NormalOperator(evidence.design(values), data, values.noise / data.count, Effort())
    vectors = np.random.default_rng(0).normal(size=(operator.design.size, 3))
    assert np.array_equal(operator.apply(vectors), operator.apply(vectors))
