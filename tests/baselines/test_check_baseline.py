"""Oracles: baselines broken on purpose in one way each, which the check must name."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.baselines import Baseline, InputIgnoringKDE
from dtmgp.testing import check_baseline


class ReturnsNothing(InputIgnoringKDE):
    def fit(self, X, y):
        super().fit(X, y)


class CentresInPlace(InputIgnoringKDE):
    def fit(self, X, y):
        super().fit(X, y)
        y -= y.mean()
        return self


class IgnoresSeed(InputIgnoringKDE):
    def sample_y(self, X, n_samples=1, random_state=None):
        return super().sample_y(X, n_samples, None)


class ScalesByTheBatch(InputIgnoringKDE):
    def predict(self, X, return_std=False):
        mean, std = super().predict(X, return_std=True)
        mean = mean + (np.asarray(X) - np.mean(X, axis=0))[:, 0]
        return (mean, std) if return_std else mean


class LeavesNoiseOut(InputIgnoringKDE):
    def sample_y(self, X, n_samples=1, random_state=None):
        draws = super().sample_y(X, n_samples, random_state)
        return self.predict(X)[:, None] + 0.1 * (draws - self.predict(X)[:, None])


class AcceptsAnyColumns(InputIgnoringKDE):
    def predict(self, X, return_std=False):
        return super().predict(np.resize(X, (len(X), 2)), return_std)


def test_the_protocol_is_recognised():
    assert isinstance(InputIgnoringKDE(), Baseline)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ReturnsNothing, "return the model itself"),
        (CentresInPlace, "not change its data"),
        (IgnoresSeed, "same seed"),
        (ScalesByTheBatch, "not depend on the batch"),
        (LeavesNoiseOut, "standard deviation"),
        (AcceptsAnyColumns, "fewer columns"),
    ],
)
def test_a_broken_baseline_is_named(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_baseline(broken())
