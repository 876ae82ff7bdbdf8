"""Rows ``psi(x) = [b, b (2 x - 1), phi(x)]`` of the regression: a linear mean with prior std b, then the features.

All weights have a standard normal prior, so that the mean function is integrated out exactly like the features.
Rows come in chunks as active entries (n, q + T) with their columns: nothing of size n times m is ever held.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.expansion.line import LineExpansion
from dtmgp.grids import AbstractGrid
from dtmgp.kernels import Additive, Tensor
from dtmgp.kriging._jit import tensor_features_backward

Array = np.ndarray
STEP = 3e-5  # of the log lengthscale in the central difference: truncation and rounding both about 1e-10
CHUNK_ENTRIES = 1 << 18  # measured: half the time of 2^20, whose arrays are mapped anew for every chunk


@dataclasses.dataclass(frozen=True)
class Design:
    """The regression's columns at one setting of the kernel.

    ``mean_std`` is the prior standard deviation of the intercept and of the slope per half cube; 0 means no mean
    function (and no columns for it).
    """

    kernel: Tensor | Additive
    grid: AbstractGrid | tuple[AbstractGrid, ...]
    mean_std: float

    @cached_property
    def expansion(self) -> HierarchicalExpansion:
        """The features."""
        return HierarchicalExpansion(self.kernel, self.grid)

    @property
    def mean_columns(self) -> int:
        """Number of columns of the mean function."""
        return self.kernel.dim + 1 if self.mean_std > 0 else 0

    @cached_property
    def size(self) -> int:
        """Number of weights."""
        return self.mean_columns + self.expansion.size

    @cached_property
    def active(self) -> int:
        """Active entries per row."""
        return self.mean_columns + self.expansion.active_per_input

    def chunks(self, n: int) -> Iterator[slice]:
        """Slices of rows that bound the memory of one pass."""
        step = max(1, CHUNK_ENTRIES // self.active)
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    def rows(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n a"], Int[Array, "n a"]]:
        """Active entries and their columns, columns increasing."""
        q = self.mean_columns
        data = np.empty((len(x), self.active))
        columns = np.empty((len(x), self.active), dtype=np.int64)
        if q:
            data[:, 0] = self.mean_std
            data[:, 1:q] = self.mean_std * (2.0 * x - 1.0)
            columns[:, :q] = np.arange(q)
        place, first = q, q
        for block in self.expansion.blocks:
            width = block.grid.active_per_input
            part, where = np.empty((len(x), width)), np.empty((len(x), width), dtype=np.int64)
            block.fill(np.ascontiguousarray(x[:, block.coordinates]), part, where)
            data[:, place : place + width] = part
            np.add(where, first, out=columns[:, place : place + width])
            place, first = place + width, first + block.size
        return data, columns

    def sum_by_term(self, entries: Float[Array, "n a"]) -> Float[Array, " s"]:
        """Sum of active entries that belong to each term of the kernel; those of the mean function are left out."""
        widths = [block.grid.active_per_input for block in self.expansion.blocks]
        starts = np.cumsum([self.mean_columns, *widths[:-1]])
        return np.add.reduceat(entries.sum(axis=0), starts)

    def log_lengthscale_gradient(
        self, x: Float[Array, "n d"], data: Float[Array, "n a"], gradient: Float[Array, "n a"]
    ) -> Float[Array, " d"]:
        """``sum_n dL/dpsi . dpsi/dlog l_j`` per input coordinate.

        Exact reverse mode down to the one-dimensional values; those are differentiated in their one remaining
        scalar by a central difference of relative error 1e-10.
        """
        total = np.zeros(self.kernel.dim)
        place = self.mean_columns
        for block in self.expansion.blocks:
            width = block.grid.active_per_input
            points = np.ascontiguousarray(x[:, block.coordinates])
            values, _ = block.evaluate(points)
            slope = np.empty_like(values)
            tensor_features_backward(
                values,
                *block.tree,
                data[:, place : place + width],
                np.ascontiguousarray(gradient[:, place : place + width]),
                slope,
            )
            for j, coordinate in enumerate(block.coordinates):
                if not block.kernel.kernels[j].has_lengthscale:
                    continue
                derivative = self._line_derivative(block.line(j), points[:, j])
                total[coordinate] += np.einsum("nk,nk->", slope[:, j, : derivative.shape[1]], derivative)
            place += width
        return total

    @staticmethod
    def _line_derivative(line: LineExpansion, x: Float[Array, " n"]) -> Float[Array, "n L"]:
        """``d values / d log lengthscale`` of one coordinate."""
        lengthscale, ends = line.kernel.lengthscale, []
        for sign in (1.0, -1.0):
            moved = line.kernel.with_hyperparameters(lengthscale=lengthscale * np.exp(sign * STEP))
            ends.append(LineExpansion(moved, line.sequence, line.top).evaluate(x)[0])
        return (ends[0] - ends[1]) / (2.0 * STEP)
