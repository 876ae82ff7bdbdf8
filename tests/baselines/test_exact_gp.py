"""Oracles: scikit-learn's regressor, the stacked covariance of all runs, finite differences, draws of a known law."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from dtmgp.baselines import ExactGP
from dtmgp.baselines.exact_gp import FIRST_ROWS, SquaredExponential, log_evidence
from dtmgp.errors import InputError
from dtmgp.kriging.replicates import collapse
from dtmgp.testing import check_baseline


def smooth(x):
    return np.sin(5 * x[:, 0]) + x[:, -1] ** 2


def as_sklearn(parameters):
    return ConstantKernel(parameters.variance) * RBF(parameters.lengthscales) + WhiteKernel(parameters.noise)


@pytest.fixture(scope="module")
def runs():
    generator = np.random.default_rng(0)
    X = generator.random((60, 3))
    return X, smooth(X) + 0.1 * generator.standard_normal(60), generator.random((9, 3))


@pytest.mark.parametrize("dim", [1, 4])
def test_interface(dim):
    check_baseline(ExactGP(), dim=dim)


@pytest.mark.parametrize(
    "parameters",
    [
        SquaredExponential(np.array([0.3, 1.0, 4.0]), 1.5, 0.02),
        SquaredExponential(np.array([0.02, 0.05, 0.1]), 0.3, 1.0),
    ],
    ids=["smooth", "rough"],
)
def test_evidence_and_gradient_equal_sklearn(runs, parameters):
    X, y, _ = runs
    other = GaussianProcessRegressor(as_sklearn(parameters), alpha=0.0, optimizer=None).fit(X, y)
    expected, slope = other.log_marginal_likelihood(other.kernel_.theta, eval_gradient=True)
    value, gradient = log_evidence(collapse(X, y), parameters)
    assert value == pytest.approx(expected, rel=1e-11)
    # order there: variance, lengthscales, noise
    np.testing.assert_allclose(gradient, slope[[1, 2, 3, 0, 4]], rtol=1e-7, atol=1e-8)


def test_predictions_equal_sklearn_at_the_same_parameters(runs):
    X, y, new = runs
    model = ExactGP().fit(X, y)
    other = GaussianProcessRegressor(as_sklearn(model.parameters_), alpha=0.0, optimizer=None)
    other.fit(X, y - y.mean())
    mean, std = model.predict(new, return_std=True)
    expected, spread = other.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected + y.mean(), atol=1e-9)
    np.testing.assert_allclose(std, spread, rtol=1e-8)  # both with the noise
    assert model.log_evidence_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # theirs, of a useless input
def test_search_is_as_good_as_sklearns(runs):
    X, y, _ = runs
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.ones(3), (5e-3, 1e2)) + WhiteKernel(0.1, (1e-8, 10))
    other = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0).fit(X, y - y.mean())
    # 0.002 below: the lengthscale of the useless input ends at its bound, in units of that input's range here
    assert ExactGP().fit(X, y).log_evidence_ > other.log_marginal_likelihood_value_ - 0.01


def replicated(generator):
    X = generator.random((25, 2))
    rows = np.repeat(X, generator.integers(1, 6, 25), axis=0)
    return rows, smooth(rows) + 0.3 * generator.standard_normal(len(rows))


def test_replicates_equal_the_stacked_computation():
    X, y = replicated(np.random.default_rng(1))
    parameters = SquaredExponential(np.array([0.4, 0.9]), 1.2, 0.09)
    covariance = parameters.covariance(X, X) + 0.09 * np.eye(len(X))
    expected = stats.multivariate_normal(np.zeros(len(X)), covariance).logpdf(y)
    data = collapse(X, y)
    assert data.rows == 25 < len(y)
    assert log_evidence(data, parameters)[0] == pytest.approx(expected, rel=1e-10)


def test_gradient_of_replicated_data_equals_finite_differences():
    data = collapse(*replicated(np.random.default_rng(2)))
    vector = SquaredExponential(np.array([0.4, 0.9]), 1.2, 0.09).pack()
    _, gradient = log_evidence(data, SquaredExponential.unpack(vector))
    for size, tolerance in ((1e-2, 2e-3), (1e-3, 2e-5)):  # central: error falls with the square
        steps = size * np.eye(4)
        sides = [
            [log_evidence(data, SquaredExponential.unpack(vector + sign * step))[0] for step in steps]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose((np.array(sides[0]) - sides[1]) / (2 * size), gradient, rtol=tolerance)


def test_value_without_gradient_is_the_same():
    data = collapse(*replicated(np.random.default_rng(3)))
    parameters = SquaredExponential(np.array([0.4, 0.9]), 1.2, 0.09)
    assert log_evidence(data, parameters, gradient=False)[0] == log_evidence(data, parameters)[0]


def test_replicate_columns_equal_repeated_rows():
    generator = np.random.default_rng(4)
    X, new = generator.random((30, 2)), generator.random((5, 2))
    y = smooth(X)[:, None] + 0.2 * generator.standard_normal((30, 4))
    columns = ExactGP().fit(X, y)
    rows = ExactGP().fit(np.vstack([X] * 4), y.T.ravel())
    np.testing.assert_allclose(columns.predict(new), rows.predict(new), atol=1e-6)
    assert columns.log_evidence_ == pytest.approx(rows.log_evidence_, rel=1e-9)


def test_noise_and_useless_inputs_are_recognised():
    generator = np.random.default_rng(5)
    X = generator.random((150, 3))
    model = ExactGP().fit(X, 1000 + 50 * (smooth(X[:, :2])[:, None] + 0.2 * generator.normal(size=(150, 4))))
    # 450 degrees of freedom inside the replicates alone: the noise is known to 3.4 %, three times that
    assert model.parameters_.noise**0.5 == pytest.approx(10.0, rel=0.1)
    assert model.parameters_.lengthscales[2] > 5 * model.parameters_.lengthscales[0]


def test_units_do_not_matter():
    generator = np.random.default_rng(6)
    X, new = generator.random((40, 2)), generator.random((6, 2))
    y = smooth(X) + 0.1 * generator.standard_normal(40)
    mean, std = ExactGP().fit(X, y).predict(new, return_std=True)
    factor, shift = np.array([100.0, 1e-3]), np.array([7.0, -3.0])
    other = ExactGP().fit(factor * X + shift, 1e4 * y - 5e4).predict(factor * new + shift, return_std=True)
    np.testing.assert_allclose((other[0] + 5e4) / 1e4, mean, atol=1e-5)
    np.testing.assert_allclose(other[1] / 1e4, std, rtol=1e-4)


def test_more_rows_than_the_first_search(monkeypatch):
    generator = np.random.default_rng(7)
    X = generator.random((300, 2))
    y = smooth(X) + 0.1 * generator.standard_normal(300)
    whole = ExactGP().fit(X, y)
    assert FIRST_ROWS > 300
    monkeypatch.setattr("dtmgp.baselines.exact_gp.FIRST_ROWS", 100)
    monkeypatch.setattr("dtmgp.baselines.exact_gp.CHUNK", 2000)  # predictions in pieces of six rows
    staged = ExactGP().fit(X, y)
    assert staged.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-3)
    np.testing.assert_allclose(staged.predict(X[:20]), whole.predict(X[:20]), atol=1e-3)


def test_time_limit_stops_the_search_and_keeps_its_best():
    generator = np.random.default_rng(8)
    X = generator.random((50, 2))
    model = ExactGP(time_limit=1e-9, n_starts=5).fit(X, smooth(X))
    assert len(model.trace_) == 1
    assert model.trace_[0].seconds > 0
    whole = ExactGP().fit(X, smooth(X))
    losses = [step.loss for step in whole.trace_]
    assert min(losses) < model.trace_[0].loss
    assert len(losses) > 5


@pytest.mark.parametrize("y", [np.zeros(20), np.full(20, 7.0)])
def test_constant_outputs_and_constant_columns_do_no_harm(y):
    X = np.random.default_rng(9).random((20, 3))
    X[:, 1] = 5.0
    model = ExactGP().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    assert np.isfinite(model.sample_y(X, 4, 0)).all()


def test_refusals(monkeypatch):
    with pytest.raises(InputError, match="at least 1"):
        ExactGP(n_starts=0)
    with pytest.raises(InputError, match="time_limit"):
        ExactGP(time_limit=0.0)
    monkeypatch.setattr("dtmgp.baselines.exact_gp.MAX_ROWS", 10)
    with pytest.raises(InputError, match="11 distinct rows"):
        ExactGP().fit(np.arange(11.0)[:, None], np.zeros(11))


def test_the_trivial_baselines_load_neither_torch_nor_numba():
    code = (
        "import sys, dtmgp.baselines as b; b.QuadraticBootstrap().fit([[0.], [1.], [2.]], [0., 1., 3.]);"
        "assert 'torch' not in sys.modules and 'numba' not in sys.modules;"
        "assert 'ExactGP' in dir(b); b.ExactGP; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_unknown_names_are_refused():
    import dtmgp.baselines

    with pytest.raises(AttributeError, match="it has Baseline"):
        _ = dtmgp.baselines.ExactGPs
