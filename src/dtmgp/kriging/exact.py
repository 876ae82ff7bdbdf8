"""Kriging at the inputs themselves: a product of Matern kernels without a grid, for up to a thousand inputs.

    z_i = b_0 + b^T (x_i - 1/2) + G(x_i) + noise,    G ~ GP(0, v prod_j k(|x_j - x_j'| / l_j)),    b ~ N(0, s I)

A sparse grid carries few of the interactions of many inputs; this process carries all of them, at the cost of dense
algebra, O(n^3) per evaluation. All hyperparameters maximise the exact log evidence of the runs, with ``b`` and
``b_0 ~ N(0, 100)`` integrated out, times log-normal priors. That of the lengthscales has a centre that grows with the
square root of the dimension (Hvarfner, Hellsten and Nardi 2024): a few dozen runs do not tell which inputs matter.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController

from dtmgp.kriging.replicates import Replicates

Array = np.ndarray
BLAS = ThreadpoolController()
PRIOR_CENTRE, PRIOR_SPREAD = math.sqrt(2.0) - 1.0, math.sqrt(3.0)  # of log lengthscales, plus log(d) / 2
CONSTANT = 100.0  # prior variance of b_0
RANGES = {"lengthscale": (0.02, 100.0), "variance": (1e-3, 1e4), "noise": (1e-8, 3.0), "slope": (1e-4, 1e2)}
REST_PRIOR = ((0.0, 3.0), (math.log(0.05), 3.0), (0.0, 3.0))  # variance, noise, slope: of the logarithms
STARTS = ((0.5, 0.1), (2.0, 0.01), (2.0, 0.3))  # lengthscale and noise variance
SLOPE = 1.0  # prior variance of b at the start
UNLIKELY = 10.0  # log evidence
FEW = 300  # inputs up to which all starts are tried


def line_correlation(order: int, t: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Matern-(order + 1/2) at dimensionless distances ``t = sqrt(2 order + 1) |x - y| / l``, and -d log k / d log t."""
    if order == 1:
        return (1.0 + t) * np.exp(-t), t * t / (1.0 + t)
    shape = 1.0 + t + t * t / 3.0
    return shape * np.exp(-t), t * t * (1.0 + t) / (3.0 * shape)


def correlation(
    x: Float[Array, "n d"], y: Float[Array, "m d"], lengthscales: Float[Array, " d"], order: int
) -> Float[Array, "n m"]:
    """The product over the coordinates."""
    found = np.ones((len(x), len(y)))
    rate = math.sqrt(2 * order + 1)
    for a, b, scale in zip(x.T, y.T, lengthscales):
        found *= line_correlation(order, np.abs(a[:, None] - b) * (rate / scale))[0]
    return found


def trend(x: Float[Array, "n d"], slope: float) -> Float[Array, "n k"]:
    """``1, x_1 - 1/2, ..``, each times the prior standard deviation of its coefficient."""
    return np.column_stack([np.full(len(x), math.sqrt(CONSTANT)), math.sqrt(slope) * (x - 0.5)])


@dataclasses.dataclass(frozen=True)
class ExactEvidence:
    """Log evidence of runs at the logarithms of lengthscales, variance, noise variance and variance of slopes."""

    data: Replicates
    order: int = 2

    def factor(self, vector: Float[Array, " p"]) -> Float[Array, "n n"]:
        """Lower Cholesky factor of the covariance of the replicate means."""
        dim, inputs = self.data.inputs.shape[1], self.data.inputs
        variance, noise, slope = np.exp(vector[dim:])
        covariance = variance * correlation(inputs, inputs, np.exp(vector[:dim]), self.order)
        return self._cholesky(covariance, noise, slope)

    def _cholesky(self, covariance: Float[Array, "n n"], noise: float, slope: float) -> Float[Array, "n n"]:
        linear = trend(self.data.inputs, slope)
        matrix = covariance + linear @ linear.T
        matrix.flat[:: len(matrix) + 1] += noise / self.data.count
        return np.asarray(cholesky(matrix, lower=True, overwrite_a=True, check_finite=False))

    def value_and_gradient(self, vector: Float[Array, " p"]) -> tuple[float, Float[Array, " p"]]:
        """Minus infinity where rounding leaves no factor."""
        data, dim = self.data, self.data.inputs.shape[1]
        scales, (variance, noise, slope) = np.exp(vector[:dim]), np.exp(vector[dim:])
        rate = math.sqrt(2 * self.order + 1)
        covariance, slopes = np.full((data.rows, data.rows), variance), []
        for column, scale in zip(data.inputs.T, scales):
            own, change = line_correlation(self.order, np.abs(column[:, None] - column) * (rate / scale))
            covariance *= own
            slopes.append(change)
        try:
            factor = self._cholesky(covariance, noise, slope)
        except LinAlgError:
            return -math.inf, np.zeros_like(vector)
        weights = cho_solve((factor, True), data.mean, check_finite=False)
        inverse = cho_solve((factor, True), np.eye(data.rows), check_finite=False)
        within, within_slope = data.noise_terms(noise)
        normal = -0.5 * (data.mean @ weights + data.rows * math.log(2 * math.pi))
        value = float(normal - np.log(factor.diagonal()).sum() + within)
        pull = 0.5 * (np.outer(weights, weights) - inverse)
        noise_slope = float((pull.diagonal() * noise / data.count).sum()) + noise * within_slope
        linear = trend(data.inputs, slope)[:, 1:]
        trend_slope = float(np.vdot(linear, pull @ linear))
        pull *= covariance
        gradient = [*(float(np.vdot(pull, change)) for change in slopes), float(pull.sum())]
        gradient += [noise_slope, trend_slope]
        return value, np.array(gradient)


def prior_of(dim: int) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Centres and spreads of the normal priors of all log hyperparameters."""
    centre, spread = zip(*[(PRIOR_CENTRE + 0.5 * math.log(dim), PRIOR_SPREAD)] * dim, *REST_PRIOR)
    return np.array(centre), np.array(spread)


def integrated_evidence(evidence: ExactEvidence, vector: Float[Array, " p"]) -> float:
    """Log evidence with the hyperparameters integrated out by Laplace's approximation around ``vector``.

    In units of the prior the curvature is that of the prior, 1, plus what the data add; where rounding or a bound
    make that negative it counts as 0.
    """
    centre, spread = prior_of(evidence.data.inputs.shape[1])
    value, gradient = evidence.value_and_gradient(vector)
    columns = []
    for k, width in enumerate(spread):
        moved = vector.copy()
        moved[k] += 1e-3
        columns.append((gradient - evidence.value_and_gradient(moved)[1]) / 1e-3 * width * spread)
    curvature = np.array(columns)
    added = np.linalg.eigvalsh(0.5 * (curvature + curvature.T)).clip(min=0.0)
    distance = (vector - centre) / spread
    return value - 0.5 * float(distance @ distance) - 0.5 * float(np.log1p(added).sum())


@dataclasses.dataclass(frozen=True)
class ExactKriging:
    """Hyperparameters at their best, and what follows from them."""

    data: Replicates
    order: int
    lengthscales: Float[Array, " d"]
    variance: float
    noise: float
    slope: float
    log_evidence: float  # hyperparameters integrated out
    evaluations: int

    @cached_property
    def _factor(self) -> Float[Array, "n n"]:
        found = np.log([*self.lengthscales, self.variance, self.noise, self.slope])
        return ExactEvidence(self.data, self.order).factor(found)

    @cached_property
    def _weights(self) -> Float[Array, " n"]:
        return np.asarray(cho_solve((self._factor, True), self.data.mean))

    @property
    def trend(self) -> Float[Array, " k"]:
        """Posterior mean of constant and slopes."""
        slopes = self.slope * ((self.data.inputs - 0.5).T @ self._weights)
        return np.array([CONSTANT * self._weights.sum(), *slopes])

    def predict(self, x: Float[Array, "n d"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Mean and variance of ``b_0 + b^T (x - 1/2) + G(x)``."""
        linear = trend(x, self.slope)
        cross = self.variance * correlation(x, self.data.inputs, self.lengthscales, self.order)
        cross += linear @ trend(self.data.inputs, self.slope).T
        explained = solve_triangular(self._factor, cross.T, lower=True)
        variance = self.variance + np.square(linear).sum(axis=1) - np.square(explained).sum(axis=0)
        return cross @ self._weights, np.maximum(variance, 0.0)

    @cached_property
    def _left_out_precision(self) -> Float[Array, " n"]:
        root = solve_triangular(self._factor, np.eye(self.data.rows), lower=True)
        return np.asarray(np.square(root).sum(axis=0))

    def left_out_errors(self) -> Float[Array, " n"]:
        """Errors of the replicate means under the model without them, in its standard deviations."""
        return np.asarray(self._weights / np.sqrt(self._left_out_precision))

    def left_out_score(self) -> float:
        """Log density of every replicate mean given the others, summed."""
        normal = np.log(self._left_out_precision / (2 * math.pi)) - np.square(self.left_out_errors())
        return 0.5 * float(normal.sum())

    def calibrated(self) -> ExactKriging:
        """Variance and noise multiplied by the mean square of the left-out errors, if that is more than 1.

        Predictions stay the same. A process that does not fit, such as a smooth one through a jump, has too narrow
        intervals where evidence alone sets its variance (Bachoc 2013). Replicates tell the noise without it.
        """
        square = float(np.square(self.left_out_errors()).mean())
        if square <= 1.0 or self.data.runs > self.data.rows:
            return self
        return dataclasses.replace(
            self, variance=square * self.variance, noise=square * self.noise, slope=square * self.slope
        )

    def left_out_share(self) -> Float[Array, " n"]:
        """``1 - h`` of the replicate means: the variance of their noise over that of their prediction without them."""
        return np.asarray(self.noise / self.data.count * self._left_out_precision)


def fit_exact(
    data: Replicates,
    order: int = 2,
    start: Float[Array, " p"] | None = None,
    max_evaluations: int = 60,
) -> list[ExactKriging]:
    """Local maxima of evidence times prior, by L-BFGS from a few starts (one, beyond 300 inputs) or the given."""
    evidence, dim = ExactEvidence(data, order), data.inputs.shape[1]
    centre, spread = prior_of(dim)
    count = 0

    def objective(vector: Float[Array, " p"]) -> tuple[float, Float[Array, " p"]]:
        nonlocal count
        count += 1
        value, gradient = evidence.value_and_gradient(vector)
        if not math.isfinite(value):
            return 1e10, gradient
        distance = (vector - centre) / spread
        return 0.5 * float(distance @ distance) - value, distance / spread - gradient

    limits = [RANGES["lengthscale"]] * dim + [RANGES["variance"], RANGES["noise"], RANGES["slope"]]
    found = []
    with BLAS.limit(limits=1 if data.rows <= FEW else None, user_api="blas"):
        starts = [np.log([scale] * dim + [1.0, noise, SLOPE]) for scale, noise in STARTS]
        for first in [start] if start is not None else starts if data.rows <= FEW else starts[:1]:
            count = 0
            best = minimize(  # type: ignore[call-overload]
                objective,
                first,
                jac=True,
                method="L-BFGS-B",
                bounds=[(math.log(low), math.log(high)) for low, high in limits],
                options={"maxiter": max_evaluations, "maxfun": max_evaluations, "ftol": 1e-7},
            ).x
            value = integrated_evidence(evidence, best)
            variance, noise, slope = np.exp(best[dim:]).tolist()
            scales = np.exp(best[:dim])
            found.append(ExactKriging(data, order, scales, variance, noise, slope, value, count))
    return found


def best_kriging(data: Replicates) -> ExactKriging:
    """Of Matern-5/2 and -3/2, from all starts, the one that predicts left-out inputs best, calibrated.

    The second kernel starts where the first ended. What has much less evidence than the best does not compete.
    """
    smooth = fit_exact(data, 2)
    best = max(smooth, key=lambda kriging: kriging.log_evidence)
    start = np.log([*best.lengthscales, best.variance, best.noise, best.slope])
    found = [*smooth, *fit_exact(data, 1, start if data.rows > FEW else None)]
    most = max(kriging.log_evidence for kriging in found)
    likely = [kriging.calibrated() for kriging in found if kriging.log_evidence > most - UNLIKELY]
    return max(likely, key=lambda kriging: kriging.left_out_score())
