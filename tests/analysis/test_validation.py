"""Oracles: the closed-form law of a linear-Gaussian model, exact counts, and two halves of equal runs."""

from __future__ import annotations

import numpy as np
import pytest
from linear_gaussian import LinearGaussian
from scipy import stats

from dtmgp.analysis import axis_label, crps_by_bin, ks_by_input, split_unit, validate
from dtmgp.errors import InputError
from dtmgp.metrics import crps_gaussian


@pytest.fixture(scope="module")
def right():
    model = LinearGaussian([1.0, 2.0], [0.5, 0.0])
    X = np.repeat(np.random.default_rng(0).uniform(size=(100, 2)), 10, axis=0)
    y = model.sample_y(X, random_state=1)[:, 0]
    return model, X, y


def test_right_law_has_uniform_pit_and_nominal_coverage(right):
    model, X, y = right
    found = validate(model, X, y, draws=64, random_state=2)
    assert stats.kstest(found.pit, "uniform").pvalue > 1e-3
    levels = np.array([0.2, 0.5, 0.9])
    # 4 binomial standard errors: 1 of 5000 over the three
    assert np.all(np.abs(found.coverage(levels) - levels) < 4 * np.sqrt(levels * (1 - levels) / 1000))
    inside = ((y >= found.low) & (y <= found.high)).mean()
    assert found.coverage([0.9])[0] == pytest.approx(inside, abs=1e-12)
    mean, std = model.predict(X, True)
    assert found.crps.mean() == pytest.approx(crps_gaussian(y, mean, std).mean(), rel=0.03)
    assert found.replicated
    assert len(np.unique(found.group)) == 100


def test_wrong_law_is_seen(right):
    _, X, y = right
    narrow = validate(LinearGaussian([1.0, 2.0], [0.5, 0.0], s=0.3), X, y, draws=32, random_state=2)
    assert narrow.coverage([0.9])[0] < 0.7
    assert stats.kstest(narrow.pit, "uniform").pvalue < 1e-6


def test_ties_make_the_transform_randomised():
    class Counts(LinearGaussian):
        def sample_y(self, X, n_samples=1, random_state=None):
            return np.round(super().sample_y(X, n_samples, random_state))

    X = np.full((800, 1), 0.5)
    model = Counts([0.0])
    y = model.sample_y(X, random_state=3)[:, 0]
    found = validate(model, X, y, draws=400, random_state=4)
    assert len(np.unique(found.pit)) > 790
    assert stats.kstest(found.pit, "uniform").pvalue > 1e-3


def test_slices_count_and_average(right):
    model, X, y = right
    found = validate(model, X, y, draws=16, random_state=2)
    table = crps_by_bin(found, bins=5)
    assert table.count.sum(axis=1).tolist() == [1000, 1000]
    for column in range(2):
        assert np.nansum(table.crps[column] * table.count[column]) == pytest.approx(found.crps.sum())
        first = X[:, column] < table.edges[column, 1]
        assert table.crps[column, 0] == pytest.approx(found.crps[first].mean())
    # noise grows with x0
    assert table.crps[0, -1] > table.crps[0, 0]


def test_distance_of_laws_beside_that_of_halves(right):
    model, X, y = right
    found = ks_by_input(validate(model, X, y, draws=64, random_state=2), random_state=0)
    assert len(found.model) == 100
    assert np.all(found.replicates == 10)
    # equal laws: same mean, standard error of the difference about 0.02
    assert abs(found.model.mean() - found.truth.mean()) < 0.08
    wrong = validate(LinearGaussian([1.0, 2.0], [0.5, 0.0], c=2.0), X, y, draws=64, random_state=2)
    assert ks_by_input(wrong, random_state=0).model.mean() > found.truth.mean() + 0.2


def test_several_outputs_and_refusals(right):
    model, X, y = right

    class Two(LinearGaussian):
        def predict(self, X, return_std=False):
            mean, std = super().predict(X, True)
            pair = np.stack([mean, -mean], axis=1), np.stack([std, std], axis=1)
            return pair if return_std else pair[0]

        def predict_interval(self, X, coverage=0.9):
            low, high = super().predict(X, False), super().predict(X, False)
            return np.stack([low] * 2, 1), np.stack([high] * 2, 1)

        def cdf(self, X, y):
            return stats.norm.cdf(y, *self.predict(X, True))

        def sample_y(self, X, n_samples=1, random_state=None):
            mean, std = self.predict(X, True)
            return mean[..., None] + std[..., None] * np.random.default_rng(random_state).normal(
                size=(*mean.shape, n_samples)
            )

        def predict_interval(self, X, coverage=0.9):  # noqa: F811
            mean, std = self.predict(X, True)
            z = stats.norm.ppf(0.5 + coverage / 2)
            return mean - z * std, mean + z * std

    two = Two([1.0, 2.0], [0.5, 0.0])
    pair = np.stack([y, -y], axis=1)
    first, second = (validate(two, X, pair, output=k, draws=16, random_state=0) for k in (0, 1))
    np.testing.assert_allclose(first.mean, -second.mean)
    np.testing.assert_allclose(first.pit, 1 - second.pit, atol=1e-12)
    with pytest.raises(InputError, match="2 outputs"):
        validate(two, X, pair)
    with pytest.raises(InputError, match="held-out"):
        validate(model, X, y[:5])
    with pytest.raises(InputError, match="held-out"):
        validate(model, X[:2], [0.0, np.nan])


def test_units():
    assert split_unit("service_rate (1/h)") == ("service rate", "1/h")
    assert split_unit("T_min") == ("T min", "")
    assert split_unit("(odd)") == ("(odd)", "")
    assert axis_label("load_pct") == "load [%]"
    assert axis_label(3) == "3"
