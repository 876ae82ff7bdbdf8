"""Sums of tensor kernels over subsets of coordinates (Definition 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.errors import InputError
from dtmgp.kernels.base import AbstractLineKernel, Array
from dtmgp.kernels.tensor import Tensor, as_tensor, check_matrix

Term = tuple[tuple[int, ...], Tensor]


@dataclasses.dataclass(frozen=True, init=False)
class Additive:
    """``sum_l prod_{j in U_l} k_{l,j}(x_j, y_j)``: terms ``(U_l, kernel)``, coordinates counted from 0.

    >>> from dtmgp.kernels import Laplace
    >>> k = Additive([((0, 1), Tensor(Laplace(), dim=2)), ((2,), Laplace())])
    >>> k.dim, float(k([[0.0, 0.0, 0.0]])[0, 0])
    (3, 2.0)
    """

    terms: tuple[Term, ...]
    dim: int

    def __init__(
        self, terms: Iterable[tuple[Sequence[int], AbstractLineKernel | Tensor]], dim: int | None = None
    ) -> None:
        checked: list[Term] = []
        for number, (coordinates, kernel) in enumerate(terms):
            subset = tuple(int(j) for j in coordinates)
            if not subset or min(subset) < 0 or len(set(subset)) != len(subset):
                raise InputError(
                    f"Additive term {number}",
                    got=f"coordinates {subset}",
                    expected="at least one coordinate, each once, counted from 0",
                )
            checked.append((subset, as_tensor(kernel, len(subset))))
        largest = max((max(subset) for subset, _ in checked), default=-1)
        width = largest + 1 if dim is None else int(dim)
        if not checked or width <= largest:
            raise InputError(
                "Additive kernel",
                got=f"{len(checked)} terms up to coordinate {largest}, dim={dim}",
                expected="at least one term, coordinates below dim",
            )
        object.__setattr__(self, "terms", tuple(checked))
        object.__setattr__(self, "dim", width)

    def check_inputs(self, x: npt.ArrayLike) -> Float[Array, "n d"]:
        """An (n, d) array inside the domain of every factor."""
        points = check_matrix("Additive", x, self.dim)
        for subset, kernel in self.terms:
            kernel.check_inputs(points[:, subset])
        return points

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Float[Array, "n m"]:
        """Covariance matrix of the rows of two arrays (of one with itself if ``y`` is left out)."""
        rows = self.check_inputs(x)
        columns = rows if y is None else self.check_inputs(y)
        return sum((k(rows[:, u], columns[:, u]) for u, k in self.terms), np.zeros((len(rows), len(columns))))

    def diagonal(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """``k(x, x)`` per row."""
        points = self.check_inputs(x)
        return np.sum([k.diagonal(points[:, u]) for u, k in self.terms], axis=0)

    def with_hyperparameters(
        self, *, lengthscales: npt.ArrayLike | None = None, variance: npt.ArrayLike | None = None
    ) -> Self:
        """Other lengthscales (per input coordinate, shared by the terms) or variances (one, or one per term)."""
        scales = (
            None if lengthscales is None else np.broadcast_to(np.asarray(lengthscales, float), (self.dim,))
        )
        each = None if variance is None else np.broadcast_to(np.asarray(variance, float), (len(self.terms),))
        terms = [
            (
                subset,
                kernel.with_hyperparameters(
                    lengthscales=None if scales is None else scales[list(subset)],
                    variance=None if each is None else float(each[number]),
                ),
            )
            for number, (subset, kernel) in enumerate(self.terms)
        ]
        return type(self)(terms, dim=self.dim)

    @property
    def variances(self) -> Float[Array, " s"]:
        """Variance of each term."""
        return np.array([kernel.variance for _, kernel in self.terms])

    @property
    def lengthscales(self) -> Float[Array, " d"]:
        """Lengthscale per input coordinate, from the first term that has the coordinate; NaN where none has."""
        scales = np.full(self.dim, np.nan)
        for subset, kernel in reversed(self.terms):
            scales[list(subset)] = kernel.lengthscales
        return scales
