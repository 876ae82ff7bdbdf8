"""An emulator whose law is known: ``Y(x) ~ N(c + a.x, (s + b.x)^2)`` on the unit cube, or any box."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.stats import norm


class LinearGaussian:
    """Mean and standard deviation linear in x; all the methods of an emulator, by formula."""

    def __init__(self, a, b=None, c=0.0, s=1.0, low=0.0, high=1.0, strict=True):
        self.a = np.atleast_1d(np.asarray(a, dtype=float))
        d = len(self.a)
        self.b = np.zeros(d) if b is None else np.asarray(b, dtype=float)
        self.c, self.s, self.strict = c, s, strict
        names = tuple(f"x{j}" for j in range(d))
        self.cube_ = SimpleNamespace(low=np.full(d, float(low)), high=np.full(d, float(high)), names=names)

    def predict(self, X, return_std=False):
        X = np.asarray(X, dtype=float)
        if self.strict:
            assert not (self.cube_.low > X).any()
            assert not (self.cube_.high < X).any()
        mean = self.c + X @ self.a
        return (mean, self.s + X @ self.b) if return_std else mean

    def predict_quantiles(self, X, q):
        mean, std = self.predict(X, True)
        return mean + std * norm.ppf(q) if np.ndim(q) == 0 else mean[:, None] + std[:, None] * norm.ppf(q)

    def predict_interval(self, X, coverage=0.9):
        ends = self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2])
        return ends[:, 0], ends[:, 1]

    def sample_y(self, X, n_samples=1, random_state=None):
        mean, std = self.predict(X, True)
        return mean[:, None] + std[:, None] * np.random.default_rng(random_state).normal(
            size=(len(mean), n_samples)
        )

    def cdf(self, X, y):
        return norm.cdf(y, *self.predict(X, True))

    def log_prob(self, X, y):
        return norm.logpdf(y, *self.predict(X, True))
