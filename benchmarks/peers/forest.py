"""Quantile regression forest (Meinshausen 2006) of the package quantile-forest."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from quantile_forest import RandomForestQuantileRegressor

LEVELS = (np.arange(1000) + 0.5) / 1000


class QuantileForest:
    """Draws by inversion of 1000 quantiles, linear between them. No density, no training over time."""

    def __init__(
        self,
        *,
        trees: int = 200,
        min_leaf: int = 20,
        seconds: float | None = None,  # there is nothing to cut: the forest is grown at once
        random_state: int = 0,
        **options: Any,
    ) -> None:
        self.forest = RandomForestQuantileRegressor(
            n_estimators=trees, min_samples_leaf=min_leaf, random_state=random_state, **options
        )

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Grow the trees."""
        self.forest.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Mean of Y(x)."""
        return np.asarray(self.forest.predict(X, quantiles="mean"))

    def sample_y(self, X: np.ndarray, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws (n, S) of Y(x)."""
        quantiles = np.asarray(self.forest.predict(X, quantiles=list(LEVELS)))
        uniform = np.random.default_rng(random_state).random((len(quantiles), n_samples))
        return np.stack([np.interp(u, LEVELS, q) for u, q in zip(uniform, quantiles)])
