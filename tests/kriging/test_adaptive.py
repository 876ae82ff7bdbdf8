"""Oracle: dense algebra. Gains are differences of dense evidences; the grown model's evidence is a normal density."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dtmgp import TMGPRegressor
from dtmgp.errors import InputError
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.kernels import Additive, Laplace, Matern32, Tensor
from dtmgp.kriging import Adaptive, Evidence, Hyperparameters, collapse, evidence_gains
from dtmgp.kriging.adaptive import candidates, choose

GRID = LowerSet([(1, 1), (2, 1), (1, 2), (3, 1)])


def response(x):
    return np.sin(14 * x[:, 0]) + 0.4 * x[:, 1] + x[:, 0] * x[:, 1]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    x = np.repeat(rng.random((40, 2)), rng.integers(1, 4, 40), axis=0)
    return collapse(x, response(x) + 0.1 * rng.normal(size=len(x)))


def dense_evidence(data, kernel, grid, values, mean_std):
    """The log density of the replicate means, by an n x n covariance, and the terms of their spread."""
    design = Evidence(data, kernel, grid, mean_std).design(values)
    phi = design.expansion.features(data.inputs).toarray()
    if mean_std:
        phi = np.column_stack([mean_std * np.ones(data.rows), mean_std * (2 * data.inputs - 1), phi])
    noise = np.diag((values.noise + data.known) / data.count)
    value = multivariate_normal(np.zeros(data.rows), phi @ phi.T + noise).logpdf(data.mean)
    return value + data.noise_terms(values.noise)[0]


@pytest.mark.parametrize("kernel", [Laplace(0.7), Matern32(0.5)], ids=["laplace", "matern"])
@pytest.mark.parametrize("mean_std", [0.0, 3.0])
def test_a_gain_is_the_difference_of_dense_evidences(data, kernel, mean_std):
    kernel = Tensor(kernel, dim=2)
    values = Hyperparameters(np.array([0.6, 1.3]), np.array([1.7]), 0.02)
    posterior = Evidence(data, kernel, GRID, mean_std).posterior(values)[1]
    groups = candidates(GRID, look_ahead=3, max_level=9)
    gains, sizes = evidence_gains(posterior, data, values.noise, GRID, groups)
    before = dense_evidence(data, kernel, GRID, values, mean_std)
    for group, gain, size in zip(groups, gains, sizes, strict=True):
        larger = GRID.add(group)
        assert gain == pytest.approx(
            dense_evidence(data, kernel, larger, values, mean_std) - before, abs=2e-9
        )
        added = Evidence(data, kernel, larger, mean_std).design(values).size - posterior.design.size
        assert size == added
    assert gains.max() > 1.0  # else the test sees little


def test_many_groups_are_worked_off_in_parts(data, monkeypatch):
    kernel, values = Tensor(Laplace(), dim=2), Hyperparameters(np.ones(2), np.ones(1), 0.1)
    posterior = Evidence(data, kernel, GRID, 1.0).posterior(values)[1]
    groups = candidates(GRID, look_ahead=2, max_level=9)
    whole = evidence_gains(posterior, data, values.noise, GRID, groups)
    monkeypatch.setattr("dtmgp.kriging.gains.CHUNK_COLUMNS", 1)
    monkeypatch.setattr("dtmgp.kriging.design.CHUNK_ENTRIES", 64)
    parts = evidence_gains(posterior, data, values.noise, GRID, groups)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-10)
    np.testing.assert_array_equal(parts[1], whole[1])
    assert [len(part) for part in evidence_gains(posterior, data, values.noise, GRID, [])] == [0, 0]


def test_candidates_keep_the_set_lower_and_chains_follow_the_axes():
    for group in candidates(GRID, look_ahead=3, max_level=4):
        LowerSet(np.concatenate([GRID.multi_indices, group]))  # refuses what is not lower
        assert group.max() <= 4
    chains = [group.tolist() for group in candidates(GRID, 3, 4) if len(group) > 1 or group.max() == 4]
    assert chains == [[[4, 1]], [[1, 3], [1, 4]], [[4, 1]]]


def test_the_choice_takes_the_highest_gain_per_feature_within_the_room():
    groups = [np.array([row]) for row in ((1, 3), (2, 2), (4, 1))] + [np.array([(1, 3), (1, 4)])]
    gains, sizes = np.array([6.0, 5.0, 0.5, 40.0]), np.array([4, 2, 8, 12])
    policy = Adaptive(share=1.0)
    assert choose(groups, gains, sizes, policy, room=100) == ([1, 0], 11.0)  # (1, 3) pays: no chain
    assert choose(groups, gains, sizes, policy, room=5) == ([1], 5.0)
    assert choose(groups, gains, sizes, dataclasses.replace(policy, share=0.4), room=100)[0] == [1]
    gains[0] = 0.0
    assert choose(groups, gains, sizes, policy, room=100)[0] == [3, 1]


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(2)
    x = rng.random((150, 3))
    return x, response(x) + 0.05 * rng.normal(size=150)


@pytest.fixture(scope="module")
def grown(runs):
    return TMGPRegressor(level=Adaptive(), bounds=[(0, 1)] * 3).fit(*runs)


def test_the_evidence_of_a_grown_model_is_that_of_dense_algebra(grown, runs):
    x, y = runs
    model = grown.models_[0]
    data = collapse(x, (y - grown.offset_[0]) / grown.scale_[0])
    design = model.posterior.design
    expected = dense_evidence(data, design.kernel, design.grid, model.hyperparameters, design.mean_std)
    assert model.log_evidence == pytest.approx(expected, abs=1e-6)
    new = np.random.default_rng(9).random((7, 3))
    rows = [_rows(design, points) for points in (x[np.lexsort(x.T[::-1])], new)]
    ordered = data.mean
    gram = rows[0] @ rows[0].T + model.hyperparameters.noise * np.eye(len(x))
    mean, std = grown.predict(new, return_std=True, include_noise=False)
    cross = rows[1] @ rows[0].T
    np.testing.assert_allclose(
        (mean - grown.offset_) / grown.scale_, cross @ np.linalg.solve(gram, ordered), atol=1e-6
    )
    variance = (rows[1] ** 2).sum(1) - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose((std / grown.scale_) ** 2, variance, atol=1e-6)


def _rows(design, x):
    phi = design.expansion.features(x).toarray()
    return np.column_stack([design.mean_std * np.ones(len(x)), design.mean_std * (2 * x - 1), phi])


def test_growth_goes_where_the_function_is_rough(grown, runs):
    assert isinstance(grown.level_, LowerSet)
    assert grown.level_.max_levels[0] > 5 > grown.level_.max_levels[1]
    assert grown.level_.max_levels[2] <= 3  # the third input does nothing
    isotropic = TMGPRegressor(level=6, bounds=[(0, 1)] * 3).fit(*runs)
    assert 2 * grown.expansion_.size < isotropic.expansion_.size
    assert grown.log_evidence_ > isotropic.log_evidence_ - 5.0  # measured: 1.7 below


def test_pure_noise_grows_nothing():
    rng = np.random.default_rng(3)
    model = TMGPRegressor(level=Adaptive()).fit(rng.random((100, 3)), rng.normal(size=100))
    assert model.level_.active_per_input == SparseGrid(3, 2).active_per_input


def test_a_frequency_that_the_next_level_does_not_see_is_looked_ahead_for():
    """sin(16 pi x) vanishes at all points of levels 1 to 4."""
    x = np.linspace(0, 1, 150)[:, None]
    y = np.sin(16 * np.pi * x[:, 0]) + 0.05 * np.random.default_rng(0).normal(size=150)
    near = TMGPRegressor(Laplace(), Adaptive(look_ahead=0), max_evaluations=5).fit(x, y)
    far = TMGPRegressor(Laplace(), Adaptive(look_ahead=4, max_features=70), max_evaluations=5).fit(x, y)
    assert near.expansion_.size < 16 < far.expansion_.size
    assert far.log_evidence_ > near.log_evidence_ + 50


def test_the_limit_of_features_is_kept(runs):
    model = TMGPRegressor(level=Adaptive(max_features=20, evaluations=3), max_evaluations=3).fit(*runs)
    assert model.expansion_.size <= 20


def test_a_grown_model_is_saved_and_loaded(grown, runs, tmp_path):
    grown.save(tmp_path / "grown.dtmgp")
    back = TMGPRegressor.load(tmp_path / "grown.dtmgp")
    assert back.level == Adaptive()
    np.testing.assert_array_equal(back.level_.multi_indices, grown.level_.multi_indices)
    np.testing.assert_array_equal(back.predict(runs[0]), grown.predict(runs[0]))


def test_what_cannot_grow_is_refused(runs):
    additive = TMGPRegressor(Additive([((0,), Matern32()), ((1, 2), Tensor(Matern32(), dim=2))]), Adaptive())
    with pytest.raises(InputError, match="additive kernel"):
        additive.fit(*runs)
    for wrong in ({"share": 0.0}, {"start": 0}, {"least_gain": 0.0}, {"max_features": 6000}):
        with pytest.raises(InputError, match="Adaptive"):
            Adaptive(**wrong)
