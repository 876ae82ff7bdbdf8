"""Factors of a covariance over the training points, dense or Vecchia's, behind one interface.

A ``ConditioningSets`` object knows *who conditions on whom*; given the points' coordinates it makes a ``Factor``.
The coordinates of hidden layers move during the sampling, the sets stay.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from dtmgp.baselines.vecchia import _jit
from dtmgp.baselines.vecchia.kernels import Covariance, correlation
from dtmgp.baselines.vecchia.ordering import (
    in_threads,
    nearest_neighbours,
    ordered_neighbours,
    random_order,
)

Vector = Float[np.ndarray, " n"]


@runtime_checkable
class Factor(Protocol):
    """A root of the precision: ``white = U' values`` has unit covariance. log det U = -inf stands for failure."""

    @property
    def log_det(self) -> float:
        """log det U, which is -1/2 log det of the covariance."""
        ...

    def whiten(self, values: Vector) -> Vector:
        """``U' values``, whose squared length is the quadratic form of the precision."""
        ...

    def colour(self, white: Vector) -> Vector:
        """The inverse of ``whiten``: a draw, if ``white`` is standard normal."""
        ...


@runtime_checkable
class ConditioningSets(Protocol):
    """Who conditions on whom, for training and for prediction."""

    def factor(
        self, points: Float[np.ndarray, "n D"], covariance: Covariance, theta: float, noise: Vector
    ) -> Factor:
        """Factor of the covariance correlation(points) + diag(noise)."""
        ...

    def neighbours_of(
        self, points: Float[np.ndarray, "n D"], queries: Float[np.ndarray, "q D"]
    ) -> Int[np.ndarray, "q m"] | None:
        """The points that each query conditions on; None means all of them."""
        ...

    def predict(
        self,
        points: Float[np.ndarray, "n D"],
        outputs: Vector,
        noise: Vector,
        queries: Float[np.ndarray, "q D"],
        neighbours: Int[np.ndarray, "q m"] | None,
        covariance: Covariance,
        theta: float,
    ) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """Mean and variance, without noise, at each query by itself."""
        ...


@dataclasses.dataclass(frozen=True)
class DenseFactor:
    """The lower Cholesky factor; ``whiten`` solves with it, ``colour`` multiplies."""

    lower: Float[np.ndarray, "n n"]
    log_det: float

    def whiten(self, values: Vector) -> Vector:
        """O(n^2)."""
        return np.asarray(solve_triangular(self.lower, values, lower=True, check_finite=False))

    def colour(self, white: Vector) -> Vector:
        """O(n^2)."""
        return np.asarray(self.lower @ white)


class DenseSets:
    """Everybody conditions on everybody: O(n^3) a factor, for a few hundred points.

    >>> points, noise = np.array([[0.0], [1.0]]), np.full(2, 0.1)
    >>> factor = DenseSets().factor(points, Covariance.EXP2, 1.0, noise)
    >>> bool(np.isclose(factor.log_det, -0.5 * np.log(1.1**2 - np.exp(-2.0))))
    True
    """

    def factor(
        self, points: Float[np.ndarray, "n D"], covariance: Covariance, theta: float, noise: Vector
    ) -> DenseFactor:
        """Cholesky factor of correlation + diag(noise)."""
        matrix = correlation(points, points, covariance, theta)
        matrix[np.diag_indices_from(matrix)] += noise
        try:
            lower = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return DenseFactor(np.eye(len(points)), -np.inf)
        return DenseFactor(lower, -float(np.log(np.diag(lower)).sum()))

    def neighbours_of(self, points: Float[np.ndarray, "n D"], queries: Float[np.ndarray, "q D"]) -> None:
        """All points."""
        return

    def predict(
        self,
        points: Float[np.ndarray, "n D"],
        outputs: Vector,
        noise: Vector,
        queries: Float[np.ndarray, "q D"],
        neighbours: Int[np.ndarray, "q m"] | None,
        covariance: Covariance,
        theta: float,
    ) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """The textbook equations on all points, O(n^3 + n^2 q)."""
        factor = self.factor(points, covariance, theta, noise)
        if factor.log_det == -np.inf:
            nothing = np.full(len(queries), np.nan)
            return nothing, nothing
        # One query at a time would give other rounding errors than many at once, within 1e-12.
        cross = solve_triangular(
            factor.lower, correlation(points, queries, covariance, theta), lower=True, check_finite=False
        )
        variance = np.maximum(1.0 - (cross**2).sum(axis=0), 0.0)
        return np.asarray(cross.T @ factor.whiten(outputs)), variance


@dataclasses.dataclass(frozen=True)
class VecchiaFactor:
    """Sparse rows of U' in the order of the conditioning; values come and go in the order of the data."""

    order: Int[np.ndarray, " n"]
    neighbours: Int[np.ndarray, "n m"]
    entries: Float[np.ndarray, "n m+1"]
    log_det: float

    def whiten(self, values: Vector) -> Vector:
        """O(n m); in the order of the conditioning."""
        return _jit.whiten_rows(self.entries, self.neighbours, values[self.order])

    def colour(self, white: Vector) -> Vector:
        """O(n m); in the order of the data."""
        values = np.empty_like(white)
        values[self.order] = _jit.colour_rows(self.entries, self.neighbours, white)
        return values


class VecchiaSets:
    """A random order and the nearest ``count`` points before each one, found once, in the coordinates given here.

    With ``count >= n - 1`` every set is complete and the factor exact.

    >>> generator = np.random.default_rng(0)
    >>> VecchiaSets(generator.random((50, 2)), 10, generator)
    VecchiaSets(n=50, neighbours=10)
    """

    def __init__(
        self,
        points: Float[np.ndarray, "n D"],
        count: int,
        generator: np.random.Generator,
        threads: int = 1,
    ) -> None:
        self.order = random_order(len(points), generator)
        self.neighbours = ordered_neighbours(points[self.order], count)
        self.threads = threads
        # A query can have one neighbour more than the last training point has.
        self._query_count = len(points) if count >= len(points) - 1 else count

    def __repr__(self) -> str:
        return f"VecchiaSets(n={len(self.order)}, neighbours={self.neighbours.shape[1]})"

    def factor(
        self, points: Float[np.ndarray, "n D"], covariance: Covariance, theta: float, noise: Vector
    ) -> VecchiaFactor:
        """Rows of the sparse root: O(n m^3)."""
        n, m = self.neighbours.shape
        entries, log_diagonal = np.zeros((n, m + 1)), np.empty(n)
        ordered, ordered_noise = np.ascontiguousarray(points[self.order]), noise[self.order]
        in_threads(
            n,
            self.threads,
            lambda first, last: _jit.condition_rows(
                ordered,
                self.neighbours,
                int(covariance),
                theta,
                ordered_noise,
                first,
                last,
                entries,
                log_diagonal,
            ),
        )
        return VecchiaFactor(self.order, self.neighbours, entries, float(log_diagonal.sum()))

    def neighbours_of(
        self, points: Float[np.ndarray, "n D"], queries: Float[np.ndarray, "q D"]
    ) -> Int[np.ndarray, "q m"]:
        """The nearest training points of each query."""
        return nearest_neighbours(points, queries, self._query_count, self.threads)

    def predict(
        self,
        points: Float[np.ndarray, "n D"],
        outputs: Vector,
        noise: Vector,
        queries: Float[np.ndarray, "q D"],
        neighbours: Int[np.ndarray, "q m"] | None,
        covariance: Covariance,
        theta: float,
    ) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
        """Each query given its neighbours alone: O(q m^3)."""
        if neighbours is None:
            neighbours = self.neighbours_of(points, queries)
        mean, variance = np.empty(len(queries)), np.empty(len(queries))
        points, queries = np.ascontiguousarray(points), np.ascontiguousarray(queries)
        in_threads(
            len(queries),
            self.threads,
            lambda first, last: _jit.predict_rows(
                points,
                outputs,
                noise,
                queries,
                neighbours,
                int(covariance),
                theta,
                first,
                last,
                mean,
                variance,
            ),
        )
        return mean, variance
