"""dgpsi: deep Gaussian processes by stochastic imputation (Ming, Williamson and Guillas 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from dgpsi import Hetero, combine, dgp, emulator
from dgpsi import kernel as gp_node

from peers.base import AbstractPeer, Mixture, distinct

VECCHIA_FROM = 300  # distinct inputs


class StochasticImputationDGP(AbstractPeer):
    """Two layers; ``hetero`` adds its heteroscedastic likelihood, ``noise=False`` fixes a tiny nugget.

    Vecchia from 300 distinct inputs on. At most ``max_inputs`` distinct inputs, chosen at random, with all their
    replicates. ``iterations`` of stochastic EM, ``chunk`` at a time.
    """

    def __init__(
        self,
        *,
        hetero: bool = True,
        noise: bool = True,
        iterations: int = 300,
        chunk: int = 10,
        imputations: int = 10,
        max_inputs: int = 2000,
        kernel_name: str = "matern2.5",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.hetero = hetero
        self.noise = noise
        self.iterations = iterations
        self.chunk = chunk
        self.imputations = imputations
        self.max_inputs = max_inputs
        self.kernel_name = kernel_name

    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        np.random.seed(self.random_state)  # noqa: NPY002 - dgpsi draws from the global stream
        inputs, outputs = self.scale(X, y)
        rows, _, place = distinct(inputs, outputs)
        if len(rows) > self.max_inputs:
            chosen = np.random.default_rng(self.random_state).permutation(len(rows))[: self.max_inputs]
            kept = np.isin(place, chosen)
            inputs, outputs = inputs[kept], outputs[kept]
        self.low, self.width = inputs.min(axis=0), np.maximum(np.ptp(inputs, axis=0), 1e-12)
        unit = (inputs - self.low) / self.width
        dim = unit.shape[1]
        nugget = {"nugget": 1e-6} if self.hetero or not self.noise else {"nugget": 0.1, "nugget_est": True}
        first = [gp_node(length=np.array([1.0]), name=self.kernel_name) for _ in range(min(dim, 10))]
        heads = [
            gp_node(
                length=np.array([1.0]),
                scale_est=True,
                connect=np.arange(dim),
                name=self.kernel_name,
                **nugget,
            )
            for _ in range(2 if self.hetero else 1)
        ]
        layers = combine(first, heads, [Hetero()]) if self.hetero else combine(first, heads)
        self.model = dgp(
            unit, [outputs[:, None]], layers, vecchia=len(np.unique(unit, axis=0)) > VECCHIA_FROM
        )
        self.emulator = None
        for _ in range(0, self.iterations, self.chunk):
            self.model.train(N=self.chunk, disable=True)
            self.emulator = None
            yield

    def mixture(self, X: np.ndarray) -> Mixture:
        if self.emulator is None:
            self.emulator = emulator(self.model.estimate(), N=self.imputations)
        unit = (self.scaling.inputs(X) - self.low) / self.width
        means, variances = (np.hstack(part) for part in self.emulator.predict(unit, aggregation=False))
        # Both the likelihood's variance and the nugget are in the predicted variance.
        return Mixture(
            np.full_like(means, 1.0 / means.shape[1]), means, np.sqrt(np.maximum(variances, 1e-12))
        )
