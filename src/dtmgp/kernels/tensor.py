"""Products of one-dimensional kernels over coordinates: tensor Markov kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.errors import InputError
from dtmgp.kernels.base import AbstractLineKernel, Array, positive


def check_matrix(name: str, x: npt.ArrayLike, dim: int) -> Float[Array, "n d"]:
    """Inputs as an (n, dim) array of floats; a one-dimensional array is one coordinate."""
    points = np.asarray(x, dtype=np.float64)
    if points.ndim == 1 and dim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dim:
        raise InputError(
            f"{name} inputs",
            got=f"an array of shape {points.shape}",
            expected=f"(n, {dim})",
            cause="another number of coordinates, or a single point given as a flat array",
            do="pass one row per input",
        )
    return points


@dataclasses.dataclass(frozen=True, init=False)
class Tensor:
    """``variance * prod_j k_j(x_j, y_j)``: one kernel for every coordinate, or one per coordinate.

    >>> from dtmgp.kernels import Laplace, Matern32
    >>> Tensor([Laplace(1.0), Matern32(2.0)]).dim
    2
    >>> Tensor(Laplace(), dim=2)([[0.0, 0.0]], [[0.5, 0.5]]).round(4)
    array([[0.3679]])
    """

    kernels: tuple[AbstractLineKernel, ...]
    variance: float = 1.0

    def __init__(
        self,
        kernels: AbstractLineKernel | Sequence[AbstractLineKernel],
        dim: int | None = None,
        variance: float = 1.0,
    ) -> None:
        if isinstance(kernels, AbstractLineKernel):
            factors = (kernels,) * (1 if dim is None else int(dim))
        else:
            factors = tuple(kernels)
        wrong = [type(k).__name__ for k in factors if not isinstance(k, AbstractLineKernel)]
        if wrong or not factors or (dim is not None and len(factors) != dim):
            raise InputError(
                "Tensor kernel",
                got=f"{len(factors)} factors" + (f", among them {wrong[0]}" if wrong else ""),
                expected="one-dimensional kernels, one per coordinate" if dim is None else f"{dim} of them",
                do="pass a list with one line kernel per coordinate, or one kernel and dim=",
            )
        object.__setattr__(self, "kernels", factors)
        object.__setattr__(self, "variance", positive("Tensor variance", variance))

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.kernels)

    @property
    def lengthscales(self) -> Float[Array, " d"]:
        """Lengthscale per coordinate; NaN where the kernel has none."""
        return np.array([getattr(k, "lengthscale", np.nan) for k in self.kernels])

    def check_inputs(self, x: npt.ArrayLike) -> Float[Array, "n d"]:
        """An (n, d) array inside every factor's domain."""
        points = check_matrix("Tensor", x, self.dim)
        for kernel, column in zip(self.kernels, points.T, strict=True):
            kernel.check_inputs(column)
        return points

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Float[Array, "n m"]:
        """Covariance matrix of the rows of two arrays (of one with itself if ``y`` is left out)."""
        rows = self.check_inputs(x)
        columns = rows if y is None else self.check_inputs(y)
        matrix = np.full((len(rows), len(columns)), self.variance)
        for j, kernel in enumerate(self.kernels):
            matrix *= kernel.covariance(rows[:, None, j], columns[None, :, j])
        return matrix

    def diagonal(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """``k(x, x)`` per row."""
        points = self.check_inputs(x)
        factors = [k.covariance(points[:, j], points[:, j]) for j, k in enumerate(self.kernels)]
        return self.variance * np.prod(factors, axis=0)

    def with_hyperparameters(
        self, *, lengthscales: npt.ArrayLike | None = None, variance: npt.ArrayLike | None = None
    ) -> Self:
        """The same factors with other lengthscales (scalar or one per coordinate) or another variance."""
        factors = list(self.kernels)
        if lengthscales is not None:
            for j, scale in enumerate(np.broadcast_to(np.asarray(lengthscales, dtype=float), (self.dim,))):
                if factors[j].has_lengthscale:
                    factors[j] = factors[j].with_hyperparameters(lengthscale=float(scale))
        return type(self)(
            factors, variance=self.variance if variance is None else np.asarray(variance).item()
        )

    @property
    def variances(self) -> Float[Array, " s"]:
        """The variance as an array of one term, as an additive kernel has several."""
        return np.array([self.variance])


def as_tensor(kernel: AbstractLineKernel | Tensor, dim: int) -> Tensor:
    """A line kernel stands for its product over all coordinates; a tensor must have ``dim`` of them."""
    if isinstance(kernel, AbstractLineKernel):
        return Tensor(kernel, dim=dim)
    if not isinstance(kernel, Tensor) or kernel.dim != dim:
        got = f"a Tensor of {kernel.dim} coordinates" if isinstance(kernel, Tensor) else type(kernel).__name__
        raise InputError(
            "kernel",
            got=got,
            expected=f"a line kernel or a Tensor of {dim} coordinates",
            do="match kernel and grid",
        )
    return kernel
