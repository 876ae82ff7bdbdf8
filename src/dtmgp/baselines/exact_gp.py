"""The exact Gaussian process: squared exponential kernel, one lengthscale per input, evidence-maximised."""

from __future__ import annotations

import math
import time
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import Bounds, minimize

from dtmgp.baselines.base import check_new_inputs, check_sample_count, check_training_data
from dtmgp.errors import InputError
from dtmgp.kriging.replicates import Replicates, collapse
from dtmgp.random import RandomState, as_generator

MAX_ROWS = 10_000  # distinct inputs: two matrices of 800 MB
FIRST_ROWS = 1000  # of the subset on which the search begins
CHUNK = 1 << 24  # entries of the cross-covariance held at once in predictions


class SquaredExponential(NamedTuple):
    """``k(x, x') = variance exp(-sum_j (x_j - x'_j)^2 / (2 l_j^2))`` and the noise variance of one run.

    >>> SquaredExponential(np.array([1.0]), 2.0, 0.1).pack().round(2)
    array([ 0.  ,  0.69, -2.3 ])
    """

    lengthscales: Float[np.ndarray, " d"]
    variance: float
    noise: float

    def pack(self) -> Float[np.ndarray, " k"]:
        """Logarithms as one vector: lengthscales, variance, noise."""
        return np.log(np.concatenate([self.lengthscales, [self.variance, self.noise]]))

    @classmethod
    def unpack(cls, vector: Float[np.ndarray, " k"]) -> SquaredExponential:
        """The inverse of ``pack``."""
        values = np.exp(vector)
        return cls(values[:-2], float(values[-2]), float(values[-1]))

    def covariance(
        self, first: Float[np.ndarray, "n d"], second: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, "n m"]:
        """Kernel matrix, by one matrix product: entries lose about ``1e-16 |x|^2 / l^2`` for centred inputs."""
        a, b = first / self.lengthscales, second / self.lengthscales
        half_square = a @ b.T
        half_square -= 0.5 * (a**2).sum(axis=1)[:, None]
        half_square -= 0.5 * (b**2).sum(axis=1)
        np.minimum(half_square, 0.0, out=half_square)
        np.exp(half_square, out=half_square)
        half_square *= self.variance
        return half_square


def log_evidence(
    data: Replicates, parameters: SquaredExponential, gradient: bool = True
) -> tuple[float, Float[np.ndarray, " k"]]:
    """Log density of all runs and its gradient in ``parameters.pack()`` (zeros if not asked for).

    With K the kernel matrix of the distinct inputs and ``C = K + diag(noise / r_i)`` the covariance of the means of
    the replicates, ``log p = log N(means; 0, C) + noise terms of the spread`` (`Replicates.noise_terms`): exact, at the
    cost of one run per distinct input. Gradient: ``1/2 tr((a a^T - C^-1) dC)`` with ``a = C^-1 means`` (Rasmussen and
    Williams 2006, eq. 5.9); all lengthscales share one matrix product. O(n^3) time, two n x n matrices.
    """
    centred = data.inputs - data.inputs.mean(axis=0)
    kernel = parameters.covariance(centred, centred)
    total = kernel.copy() if gradient else kernel
    total[np.diag_indices_from(total)] += parameters.noise / data.count
    lower = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve((lower, True), data.mean, check_finite=False)
    log_det = 2.0 * np.log(np.diag(lower)).sum()
    value = -0.5 * (data.rows * math.log(2 * math.pi) + log_det + data.mean @ weights)
    spread, slope = data.noise_terms(parameters.noise)
    if not gradient:
        return float(value + spread), np.zeros(len(parameters.lengthscales) + 2)
    inverse, _ = dpotri(lower, lower=1, overwrite_c=1)  # its lower triangle
    inverse_diagonal = np.diag(inverse).copy()
    by_noise = 0.5 * np.sum((weights**2 - inverse_diagonal) / data.count) + slope
    # product = (a a^T - C^-1) * K on the lower triangle; entries off the diagonal count twice
    product = np.tril(np.multiply(np.outer(weights, weights) - inverse, kernel, out=kernel))
    on_diagonal = np.diag(product).copy()
    product[np.diag_indices_from(product)] = 0.0  # no distance there, only cancellation
    by_variance = 0.5 * on_diagonal.sum() + product.sum()
    # sum_ij product_ij (x_i - x_j)^2 for every coordinate at once
    ends = product.sum(axis=0) + product.sum(axis=1)
    squares = ends @ centred**2 - 2.0 * np.einsum("nd,nd->d", centred, product @ centred)
    by_lengthscale = squares / parameters.lengthscales**2
    return float(value + spread), np.concatenate(
        [by_lengthscale, [by_variance, parameters.noise * float(by_noise)]]
    )


class SearchStep(NamedTuple):
    """One accepted step of the search: its number, seconds since the start, negative log evidence per run."""

    number: int
    seconds: float
    loss: float


class ExactGP:
    """``Y(x) = f(x) + noise``, f a Gaussian process, the noise normal with one variance for all x.

    Kernel: squared exponential with one lengthscale per input. Lengthscales, variance and noise maximise the exact log
    evidence by L-BFGS with its analytic gradient, from ``n_starts`` starts; with more than 1,000 distinct inputs the
    starts are searched on 1,000 of them and the best one is finished on all. Outputs are standardised, inputs to
    intervals of length 1; lengthscales are limited to [0.005, 100] in that scale. Runs that share an input cost as much
    as one run.

    ``time_limit`` (seconds) stops the search after the step that passes it. After ``fit``: ``parameters_`` in units of
    X and y, ``log_evidence_`` in units of y, ``trace_``, the list of `SearchStep`.

    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = ExactGP().fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.33]])[0] - np.sin(6 * 0.33)) < 1e-3)
    True
    """

    def __init__(
        self,
        n_starts: int = 2,
        max_steps: int = 200,
        time_limit: float | None = None,
        random_state: RandomState = 0,
    ) -> None:
        if n_starts < 1 or max_steps < 1:
            raise InputError(
                "ExactGP", got=f"n_starts={n_starts}, max_steps={max_steps}", expected="at least 1"
            )
        if time_limit is not None and not time_limit > 0:
            raise InputError("time_limit", got=repr(time_limit), expected="seconds, or None for no limit")
        self.n_starts, self.max_steps = n_starts, max_steps
        self.time_limit, self.random_state = time_limit, random_state
        self._dim: int | None = None

    def __repr__(self) -> str:
        if self._dim is None:
            return "ExactGP(not fitted)"
        return f"ExactGP(inputs={self._dim}, rows={len(self._inputs):,}, noise={self.parameters_.noise**0.5:.3g})"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Maximise the evidence; y (n,) or replicates (n, r). Repeated rows of X are replicates too."""
        inputs, outputs = check_training_data(X, y)
        begun = time.perf_counter()
        dim, repeats = inputs.shape[1], outputs.shape[1]
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        self._shift, self._width = 0.5 * (low + high), np.where(high > low, high - low, 1.0)
        self._centre = float(outputs.mean())
        self._scale = float(outputs.std()) or 1.0
        data = collapse(
            np.repeat(self._to_unit(inputs), repeats, axis=0),
            ((outputs - self._centre) / self._scale).ravel(),
        )
        if data.rows > MAX_ROWS:
            raise InputError(
                "training inputs X",
                got=f"{data.rows:,} distinct rows",
                expected=f"at most {MAX_ROWS:,}, since the model is exact",
                do="use TMGPRegressor or VecchiaDGP",
            )
        self.trace_: list[SearchStep] = []
        best = self._search(data, begun)
        self._standard = best
        self._inputs = data.inputs
        total = best.covariance(data.inputs, data.inputs)
        total[np.diag_indices_from(total)] += best.noise / data.count
        self._lower = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
        self._weights = cho_solve((self._lower, True), data.mean)
        value, _ = log_evidence(data, best, gradient=False)
        self.log_evidence_ = value - data.runs * math.log(self._scale)
        square = self._scale**2
        self.parameters_ = SquaredExponential(
            best.lengthscales * self._width, best.variance * square, best.noise * square
        )
        self._dim = dim
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of Y(x) at the rows of X (n, d), shape (n,), and its standard deviation, noise included, if asked."""
        new = self._to_unit(check_new_inputs(X, self._dim))
        mean, std = np.empty(len(new)), np.empty(len(new))
        rows = max(1, CHUNK // len(self._inputs))
        for begin in range(0, len(new), rows):
            part = slice(begin, begin + rows)
            cross = self._standard.covariance(self._inputs, new[part])
            mean[part] = self._weights @ cross
            if return_std:
                half = solve_triangular(self._lower, cross, lower=True, overwrite_b=True, check_finite=False)
                variance = np.maximum(self._standard.variance - (half**2).sum(axis=0), 0.0)
                std[part] = np.sqrt(variance + self._standard.noise)
        mean = self._centre + self._scale * mean
        return (mean, self._scale * std) if return_std else mean

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw ``n_samples`` outputs at each row of X (n, d), independent over rows; returns (n, n_samples)."""
        mean, std = self.predict(X, return_std=True)
        shape = (len(mean), check_sample_count(n_samples))
        return mean[:, None] + std[:, None] * as_generator(random_state).standard_normal(shape)

    def _to_unit(self, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return (inputs - self._shift) / self._width

    def _search(self, data: Replicates, begun: float) -> SquaredExponential:
        generator = as_generator(self.random_state)
        dim = data.inputs.shape[1]
        subset = data
        if data.rows > FIRST_ROWS:
            subset = data.take(np.sort(generator.choice(data.rows, FIRST_ROWS, replace=False)))
        # the most replicated input has the smallest variance in the matrix: it decides the rounding
        least = 1e-8 * float(data.count.max())
        bounds = np.log([*[(0.005, 100.0)] * dim, (1e-2, 1e3), (least, max(10.0, 10 * least))])
        within = np.sum(data.spread) / max(1.0, data.runs - data.rows)
        noise = float(np.clip(within if data.runs > data.rows else 0.05, 1e-4, 1.0))
        found = []
        for number in range(self.n_starts):
            lengths = np.full(dim, 0.5 * math.sqrt(dim))
            if number:  # others are random, around shorter scales
                lengths = math.sqrt(dim) * np.exp(generator.uniform(math.log(0.05), math.log(1.0), dim))
            start = SquaredExponential(lengths, 1.0, noise).pack()
            found.append(self._climb(subset, start, bounds, begun))
            if self._late(begun):
                break
        best = min(found, key=lambda pair: pair[0])[1]
        if subset is not data:
            best = self._climb(data, best, bounds, begun)[1]
        return SquaredExponential.unpack(best)

    def _late(self, begun: float) -> bool:
        return self.time_limit is not None and time.perf_counter() - begun > self.time_limit

    def _climb(
        self,
        data: Replicates,
        start: Float[np.ndarray, " k"],
        bounds: Float[np.ndarray, "k 2"],
        begun: float,
    ) -> tuple[float, Float[np.ndarray, " k"]]:
        """Smallest negative log evidence per run from one start, and where."""

        def negative(vector: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
            value, slope = log_evidence(data, SquaredExponential.unpack(vector))
            return -value / data.runs, -slope / data.runs

        def note(intermediate_result: object) -> None:
            step = len(self.trace_) + 1
            loss = float(intermediate_result.fun)  # type: ignore[attr-defined]
            self.trace_.append(SearchStep(step, time.perf_counter() - begun, loss))
            if self._late(begun):
                raise StopIteration

        start = np.clip(start, bounds[:, 0], bounds[:, 1])
        result = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(bounds[:, 0], bounds[:, 1]),
            callback=note,
            options={"maxiter": self.max_steps, "ftol": 1e-9, "gtol": 1e-5},
        )
        return float(result.fun), np.asarray(result.x)
