"""What a one-dimensional kernel must offer: its values, its state, and its *local form*.

A kernel is Markov in its state ``s = (G, G', .., G^(p))``: given the states at two points, what lies between
them is independent of what lies outside. ``p = 0`` are the Markov kernels of the paper (Lemma 1). A point ``b``
inserted between its neighbours ``a < b < c`` (``-inf`` and ``+inf`` where there is none) then brings

    ``features(x)   = L^T beta(x)^T``     supported on ``[a, c]``; ``V = L L^T`` is ``Var(s(b) | s(a), s(c))``
    ``own, left, right``                  the columns of the inverse Cholesky factor that belong to ``b``

where ``beta(x)`` are the weights of ``s(b)`` in the prediction of ``G(x)`` from its two nearest states. Only
differences inside ``[a, c]`` enter, so nothing cancels as the grid is refined.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from dtmgp.errors import InputError

Array = np.ndarray


class Local(NamedTuple):
    """Insertion of points ``b`` between ``a`` and ``c``: what is constant in ``x``; N points, s states a point.

    Tabulated per point of a one-dimensional sequence; rows are picked by the position that is active at ``x``.
    What the two tables hold is the kernel's own affair.
    """

    left: Float[Array, " N"]
    centre: Float[Array, " N"]
    right: Float[Array, " N"]
    rising: Float[Array, "N s s"]  # from weights on [a, b] to feature values
    falling: Float[Array, "N s s"]  # the same on [b, c]


class Columns(NamedTuple):
    """Columns of ``R^-1`` for inserted points: coefficients on the states of ``b``, ``a`` and ``c``.

    ``own[n, i, f]`` multiplies the i-th derivative at ``b`` in the f-th function; rows of a missing neighbour are 0.
    """

    own: Float[Array, "N s s"]
    left: Float[Array, "N s s"]
    right: Float[Array, "N s s"]


@dataclasses.dataclass(frozen=True)
class AbstractLineKernel(abc.ABC):
    """A kernel of one coordinate. Subclasses are final and frozen; hyperparameters are replaced, not set."""

    has_lengthscale = True

    # -- what it is -------------------------------------------------------------------------------------------
    @property
    @abc.abstractmethod
    def state_size(self) -> int:
        """Number of functions that one point brings: 1 for Markov kernels, p+1 for Matern-(p+1/2)."""

    @property
    @abc.abstractmethod
    def lengthscale(self) -> float:
        """Unit of length; NaN for kernels that have none (``has_lengthscale`` is False)."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """Factor in front of the kernel."""

    @property
    @abc.abstractmethod
    def domain(self) -> tuple[float, float]:
        """Closed interval of finite inputs on which the kernel may be evaluated."""

    @abc.abstractmethod
    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``k(x, y)`` elementwise, with broadcasting."""

    @abc.abstractmethod
    def state_covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n s s"]:
        """``Cov(G^(i)(x), G^(j)(y))`` elementwise, with broadcasting."""

    @abc.abstractmethod
    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """The same kernel with another lengthscale or variance."""

    # -- its local form ---------------------------------------------------------------------------------------
    @abc.abstractmethod
    def local(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Local:
        """Tabulate the insertion of ``b`` between ``a`` and ``c`` (infinite where a neighbour is missing)."""

    @abc.abstractmethod
    def features(
        self, x: Float[Array, " n"], local: Local, position: Int[Array, " n"]
    ) -> Float[Array, "n s"]:
        """Values at ``x[n]`` of the functions of insertion ``position[n]``; 0 outside its ``[a, c]``."""

    @abc.abstractmethod
    def columns(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Columns:
        """Columns of the inverse Cholesky factor for the same insertions. Paper: eq. (14) of Algorithm 1, solved."""

    # -- shared -----------------------------------------------------------------------------------------------
    def diagonal(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """``k(x, x)``."""
        points = self.check_inputs(x)
        return self.covariance(points, points)

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Float[Array, "n m"]:
        """Covariance matrix of two 1-D arrays of inputs (of one with itself if ``y`` is left out)."""
        rows = self.check_inputs(x)
        columns = rows if y is None else self.check_inputs(y)
        return self.covariance(rows[:, None], columns[None, :])

    def check_inputs(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """Finite one-dimensional inputs inside the domain, or an error that names the first bad one."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim == 2 and points.shape[1] == 1:
            points = points[:, 0]
        if points.ndim != 1:
            raise InputError(
                f"{type(self).__name__} inputs",
                got=f"an array of shape {points.shape}",
                expected="a one-dimensional array",
                do="use Tensor or Additive for inputs with several coordinates",
            )
        low, high = self.domain
        bad = ~((points >= low) & (points <= high) & np.isfinite(points))
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                f"{type(self).__name__} inputs",
                got=f"x[{first}] = {points[first]}",
                expected=f"finite values in [{low:g}, {high:g}]",
                cause="missing values, or inputs that were not scaled to the kernel's domain",
                do="scale the inputs to (0, 1), or choose a kernel that is defined there",
            )
        return points


def positive(name: str, value: Any) -> float:
    """A finite positive number, or an error that says which hyperparameter is not."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not (np.isfinite(number) and number > 0):
        raise InputError(
            name,
            got=repr(value),
            expected="a finite positive number",
            do="use one kernel per coordinate in Tensor([...]) for per-coordinate values",
        )
    return number
