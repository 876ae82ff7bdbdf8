"""NGBoost: boosted trees for mean and log scale by natural gradients (Duan et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from ngboost import NGBRegressor
from ngboost.distns import Normal

from peers.base import AbstractPeer, Mixture
from peers.mixture_network import split


class NaturalGradientBoosting(AbstractPeer):
    """A normal law; with ``log_outputs`` a lognormal one. A tenth of the inputs chooses the number of trees."""

    def __init__(
        self,
        *,
        learning_rate: float = 0.01,
        chunk: int = 25,
        max_trees: int = 3000,
        patience: int = 3,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.learning_rate = learning_rate
        self.chunk = chunk
        self.max_trees = max_trees
        self.patience = patience

    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        inputs, outputs = self.scale(X, y)
        train, held = split(inputs, np.random.default_rng(self.random_state))
        self.model = NGBRegressor(
            Dist=Normal,
            n_estimators=self.chunk,
            learning_rate=self.learning_rate,
            verbose=False,
            random_state=self.random_state,
        )
        best, since = np.inf, 0
        for trees in range(self.chunk, self.max_trees + 1, self.chunk):
            # Each call goes on from the trees that there are.
            self.model.partial_fit(inputs[train], outputs[train])
            score = -float(self.model.pred_dist(inputs[held]).logpdf(outputs[held]).mean())
            if score < best:
                best, since, self.trees = score, 0, trees
            else:
                since += 1
            yield
            if since >= self.patience:
                return

    def mixture(self, X: np.ndarray) -> Mixture:
        law = self.model.pred_dist(self.scaling.inputs(X), max_iter=self.trees)
        means, stds = (np.asarray(law.params[name])[:, None] for name in ("loc", "scale"))
        return Mixture(np.ones_like(means), means, stds)
