"""hetGPy: heteroscedastic Gaussian processes with replicates (Binois, Gramacy and Ludkovski 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hetgpy import hetGP, homGP

from peers.base import AbstractPeer, Mixture, distinct


class HetGP(AbstractPeer):
    """Cubic in the distinct inputs: at most ``max_inputs`` of them, chosen at random, with all their replicates."""

    def __init__(
        self,
        *,
        homoscedastic: bool = False,
        covariance: str = "Matern5_2",
        max_inputs: int = 500,
        max_iterations: int = 100,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.homoscedastic = homoscedastic
        self.covariance = covariance
        self.max_inputs = max_inputs
        self.max_iterations = max_iterations

    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        inputs, outputs = self.scale(X, y)
        rows, _, place = distinct(inputs, outputs)
        if len(rows) > self.max_inputs:
            chosen = np.random.default_rng(self.random_state).permutation(len(rows))[: self.max_inputs]
            kept = np.isin(place, chosen)
            inputs, outputs = inputs[kept], outputs[kept]
        # to the unit cube, as its documentation asks
        self.low, self.width = inputs.min(axis=0), np.maximum(np.ptp(inputs, axis=0), 1e-12)
        self.model = homGP() if self.homoscedastic else hetGP()
        fit = self.model.mleHomGP if self.homoscedastic else self.model.mleHetGP
        dim = inputs.shape[1]
        fit(
            (inputs - self.low) / self.width,
            outputs,
            lower=np.full(dim, 0.02),
            upper=np.full(dim, 20.0 * dim),
            covtype=self.covariance,
            maxit=self.max_iterations,
        )
        yield

    def mixture(self, X: np.ndarray) -> Mixture:
        found = self.model.predict((self.scaling.inputs(X) - self.low) / self.width)
        variance = np.asarray(found["sd2"]).ravel() + np.asarray(found["nugs"]).ravel()
        means = np.asarray(found["mean"]).ravel()[:, None]
        return Mixture(np.ones_like(means), means, np.sqrt(np.maximum(variance, 1e-12))[:, None])
