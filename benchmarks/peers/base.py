"""What every peer shares: scaling, training that can be cut by time, draws and densities of Gaussian mixtures."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from dtmgp.errors import InputError


class Mixture(NamedTuple):
    """Gaussian mixture for every row: weights, means and standard deviations, each (n, K)."""

    weights: np.ndarray
    means: np.ndarray
    stds: np.ndarray


class Scaling(NamedTuple):
    """Inputs to mean 0 and variance 1; outputs the same, after a logarithm if ``log``."""

    input_mean: np.ndarray
    input_std: np.ndarray
    mean: float
    std: float
    log: bool

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, log: bool) -> Scaling:
        """The scaling that the training rows ask for."""
        if log and not (y > 0).all():
            raise InputError(
                "log_outputs=True", got=f"an output of {y.min():.3g}", expected="positive outputs"
            )
        values = np.log(y) if log else y
        spread = X.std(axis=0)
        return cls(
            X.mean(axis=0),
            np.where(spread > 0, spread, 1.0),
            float(values.mean()),
            float(values.std()) or 1.0,
            log,
        )

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Scaled inputs."""
        return (X - self.input_mean) / self.input_std

    def outputs(self, y: np.ndarray) -> np.ndarray:
        """Scaled outputs."""
        return ((np.log(y) if self.log else y) - self.mean) / self.std

    def back(self, values: np.ndarray) -> np.ndarray:
        """Outputs in their own units."""
        values = self.mean + self.std * values
        return np.exp(values) if self.log else values


class AbstractPeer(ABC):
    """A model of another library with ``fit``, ``predict``, ``sample_y`` and ``log_prob``.

    ``train(X, y)`` is a generator: after every item that it yields the model can predict, and it ends when the training
    of its authors ends. ``fit`` follows it to its end, or for ``seconds`` of processor time. ``mixture(X)``
    is the prediction, in the scaled units of ``self.scaling``; the last one is kept, for it can be slow.
    """

    _kept: tuple[bytes, Mixture] | None = None

    def __init__(
        self, *, log_outputs: bool = False, seconds: float | None = None, random_state: int = 0
    ) -> None:
        self.log_outputs = log_outputs
        self.seconds = seconds
        self.random_state = random_state

    @abstractmethod
    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        """Train on X (N, d), y (N,), replicates as repeated rows, yielding now and then."""

    @abstractmethod
    def mixture(self, X: np.ndarray) -> Mixture:
        """The predicted law at the rows of X, scaled."""

    def scale(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keep the scaling of the training rows; return them scaled."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.scaling = Scaling.of(X, y, self.log_outputs)
        return self.scaling.inputs(X), self.scaling.outputs(y)

    def steps(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        """Train as ``train`` does; predictions between the steps are new ones."""
        for _ in self.train(X, y):
            self._kept = None
            yield

    def law(self, X: np.ndarray) -> Mixture:
        """``mixture``, from the last call if that had the same rows."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        if self._kept is None or self._kept[0] != X.tobytes():
            self._kept = X.tobytes(), self.mixture(X)
        return self._kept[1]

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Train to the end, or for ``seconds``."""
        begun = time.process_time()
        for _ in self.steps(X, y):
            if self.seconds is not None and time.process_time() - begun > self.seconds:
                break
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Mean of Y(x); of the lognormals if outputs were logged."""
        weights, means, stds = self.law(X)
        if not self.scaling.log:
            return self.scaling.back((weights * means).sum(axis=1))
        logs = self.scaling.mean + self.scaling.std * means + 0.5 * (self.scaling.std * stds) ** 2
        return (weights * np.exp(np.minimum(logs, 700.0))).sum(axis=1)

    def sample_y(self, X: np.ndarray, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws (n, S) of Y(x), noise included."""
        weights, means, stds = self.law(X)
        generator = np.random.default_rng(random_state)
        uniform = generator.random((len(weights), n_samples))
        chosen = np.stack([np.searchsorted(w, u) for w, u in zip(np.cumsum(weights, axis=1), uniform)])
        chosen = np.minimum(chosen, weights.shape[1] - 1)
        normal = generator.standard_normal(chosen.shape)
        means, stds = (np.take_along_axis(part, chosen, axis=1) for part in (means, stds))
        return self.scaling.back(means + stds * normal)

    def log_prob(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log density at y (n, r), r outputs of each row of X (n, d), in the units of y."""
        weights, means, stds = (part[:, None, :] for part in self.law(X))
        y = np.asarray(y, dtype=np.float64)
        inside = (y > 0) | (not self.scaling.log)
        safe = np.where(inside, y, 1.0)
        jacobian = -np.log(safe) if self.scaling.log else 0.0
        z = (self.scaling.outputs(safe)[..., None] - means) / stds
        logs = -0.5 * z**2 - np.log(stds) - 0.5 * np.log(2.0 * np.pi)
        density = logsumexp(logs, axis=2, b=np.broadcast_to(weights, logs.shape))
        return np.where(inside, density - np.log(self.scaling.std) + jacobian, -np.inf)


def batches(rows: int, size: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Row numbers in random order, ``size`` at a time, one pass."""
    order = generator.permutation(rows)
    for start in range(0, rows, size):
        yield order[start : start + size]


def distinct(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct inputs (k, d), their mean outputs (k,), and the place (N,) of every row among them."""
    inputs, place = np.unique(X, axis=0, return_inverse=True)
    place = place.reshape(-1)
    return inputs, np.bincount(place, weights=y) / np.bincount(place), place
