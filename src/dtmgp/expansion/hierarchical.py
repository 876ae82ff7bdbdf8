"""The hierarchical expansion ``G(x) ~ phi(x)^T Z`` of a tensor Markov Gaussian process (paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.expansion.block import TensorBlock
from dtmgp.grids import AbstractGrid
from dtmgp.kernels import AbstractLineKernel, Additive, Tensor, as_tensor
from dtmgp.random import RandomState, as_generator

Array = np.ndarray


class HierarchicalExpansion:
    """Orthonormal features of a kernel on a grid, of which exactly ``T`` are active at any input.

    ``phi(x) = k(x, X) R^-1`` with ``R^T R = K = k(X, X)``, that is ``R^-T K R^-1 = I``. For Markov kernels ``X`` are
    the grid's points. For Matern-(p+1/2) kernels a point carries its value and p derivatives, and the levels of the
    grid count *generalised levels* (see `dtmgp.expansion.line`); ``states`` tells which state a feature belongs to.

    An additive kernel (Definition 1) is expanded term by term, features side by side, ``R^-1`` block diagonal: each
    term on its own grid of a list, or on the projection of one common grid.

    Parameters: ``kernel`` a Tensor, an Additive, or a line kernel (taken for every coordinate); ``grid`` a grid, or
    for an Additive a list of grids, one per term.

    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> e = HierarchicalExpansion(Laplace(), SparseGrid(2, 2))
    >>> e.features([[0.8147237, 0.9057919]]).toarray().round(4)
    array([[0.4865, 0.    , 0.3918, 0.    , 0.3918]])
    """

    def __init__(
        self, kernel: AbstractLineKernel | Tensor | Additive, grid: AbstractGrid | Sequence[AbstractGrid]
    ) -> None:
        self.blocks = _blocks(kernel, grid)
        self.kernel: Tensor | Additive = kernel if isinstance(kernel, Additive) else self.blocks[0].kernel
        self.grid = grid
        self.dim = self.kernel.dim

    def __repr__(self) -> str:
        terms = f", {len(self.blocks)} terms" if len(self.blocks) > 1 else ""
        names = sorted({type(k).__name__ for block in self.blocks for k in block.kernel.kernels})
        return (
            f"HierarchicalExpansion({'/'.join(names)}, dim={self.dim}{terms}): m={self.size:,}, "
            f"T={self.active_per_input:,} active per input, {self.nonzeros:,} non-zeros in R^-1"
        )

    # -- claims, by formula -----------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """Number of features ``m``."""
        return sum(block.size for block in self.blocks)

    @property
    def active_per_input(self) -> int:
        """Number of active features ``T`` at every input (Theorem 2, exact)."""
        return sum(block.grid.active_per_input for block in self.blocks)

    @property
    def nonzeros(self) -> int:
        """Number of non-zeros of ``R^-1`` (Theorem 1, exact)."""
        return sum(block.nonzeros for block in self.blocks)

    @cached_property
    def max_nonzeros_per_column(self) -> int:
        """Largest number of non-zeros in a column of ``R^-1``; at most ``3^d`` for Markov kernels."""
        largest = 1
        for block in self.blocks:
            most = [np.maximum.reduceat(np.diff(line.columns.start), line.start[:-1]) for line in block.lines]
            indices = block.grid.indices
            factors = np.array(
                [
                    most[block.line_of[j]][level - 1]
                    for j, level in zip(indices.raised_dim, indices.raised_level, strict=True)
                ]
            )
            for start, stop in pairwise(indices.raised_start):
                largest = max(largest, int(np.prod(factors[start:stop])))
        return largest

    def states(
        self, positions: npt.ArrayLike | None = None
    ) -> list[tuple[Float[Array, "q d"], Int[Array, "q d"]]]:
        """Per term: centre and derivative order of the states ``X`` (all, or those at the given positions)."""
        return [block.states(self._local(block, start, positions)) for block, start in self._placed()]

    def support(self, position: int) -> Float[Array, "d 2"]:
        """Box outside which a feature is 0; infinite ends where it reaches to the edge of the domain."""
        box = np.tile([-np.inf, np.inf], (self.dim, 1))
        for block, start in self._placed():
            if start <= position < start + block.size:
                box[list(block.coordinates)] = block.support(np.array([position - start]))[0]
                return box
        raise InputError("position", got=str(position), expected=f"0 to {self.size - 1}")

    # -- factor -----------------------------------------------------------------------------------------------
    def inverse_cholesky(self) -> sp.csc_array:
        """``R^-1`` as CSC, upper triangular, ``R^-T K R^-1 = I``; O(m) time and memory.

        Paper: Algorithms 1 and 2. Deviation: every column is written directly as the Kronecker product of
        one-dimensional columns, which is what the signed sum of Algorithm 2 telescopes to (checked against it).
        """
        dtype = np.dtype(np.int32 if max(self.nonzeros, self.size) < 2**31 else np.int64)
        parts = []
        for block in self.blocks:
            data, rows, pointers = block.inverse_cholesky_arrays(dtype)
            part = sp.csc_array((data, rows, pointers), shape=(block.size, block.size))
            part.has_canonical_format = True  # rows are written in increasing order, each once
            parts.append(part)
        return parts[0] if len(parts) == 1 else sp.block_diag(parts, format="csc")

    def solve(self, a: npt.ArrayLike) -> Float[Array, "*r m"]:
        """``A K^-1`` for A (r, m), without forming K: ``(A R^-1) R^-T`` (supplement, section 2)."""
        matrix = np.asarray(a, dtype=np.float64)
        rows = np.atleast_2d(matrix)
        if rows.ndim != 2 or rows.shape[1] != self.size:
            raise InputError("solve", got=f"shape {matrix.shape}", expected=f"(r, {self.size})")
        factor = self._factor
        result = ((rows @ factor) @ factor.T).reshape(matrix.shape)
        return np.asarray(result)

    @cached_property
    def _factor(self) -> sp.csc_array:
        return self.inverse_cholesky()

    def log_det(self) -> float:
        """``log det K``, without forming K or R."""
        return sum(block.log_det() for block in self.blocks)

    # -- features ---------------------------------------------------------------------------------------------
    def features(self, x: npt.ArrayLike) -> sp.csr_array:
        """``phi(x)`` as CSR (n, m) with exactly the T active entries a row, in increasing column order.

        Inside and outside the cube, wherever the kernel is defined; an active entry may be 0 on a grid point.
        O(n (T + d levels)) time. Supplement, Algorithms s.1 and s.2, evaluated only where they are non-zero.
        """
        points = self.kernel.check_inputs(x)
        width = self.active_per_input
        dtype = np.dtype(np.int32 if max(len(points) * width, self.size) < 2**31 else np.int64)
        if len(self.blocks) == 1:
            data, columns = np.empty((len(points), width)), np.empty((len(points), width), dtype=dtype)
            self.blocks[0].fill(points, data, columns)
        else:
            parts = []
            for block, start in self._placed():
                part = np.empty((len(points), block.grid.active_per_input))
                place = np.empty(part.shape, dtype=dtype)
                block.fill(np.ascontiguousarray(points[:, block.coordinates]), part, place)
                parts.append((part, place + dtype.type(start)))
            data, columns = (np.concatenate(pieces, axis=1) for pieces in zip(*parts, strict=True))
        pointers = np.arange(0, data.size + 1, width, dtype=dtype)
        matrix = sp.csr_array(
            (data.ravel(), columns.ravel(), pointers), shape=(len(points), self.size), copy=False
        )
        matrix.has_sorted_indices = True
        return matrix

    def residual_variance(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """``k(x, x) - |phi(x)|^2``, the variance that the expansion leaves out; rounding below 0 is clipped."""
        points = self.kernel.check_inputs(x)
        explained = sum(
            block.squared_norm(np.ascontiguousarray(points[:, block.coordinates])) for block in self.blocks
        )
        return np.maximum(self.kernel.diagonal(points) - explained, 0.0)

    def sample_prior(
        self, x: npt.ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[Array, "n S"]:
        """Draws of ``phi(x)^T Z`` with one weight draw per sample: each column is one function."""
        weights = as_generator(random_state).standard_normal((self.size, n_samples))
        return np.asarray(self.features(x) @ weights)

    def covariance(self) -> Float[Array, "m m"]:
        """``K``, the dense covariance of the states: for oracles and small problems (O(m^2) memory)."""
        matrix = np.zeros((self.size, self.size))
        for block, start in self._placed():
            every = np.arange(block.size)
            matrix[start : start + block.size, start : start + block.size] = block.state_covariance(
                every, every
            )
        return matrix

    # -- helpers ----------------------------------------------------------------------------------------------
    def _placed(self) -> Iterable[tuple[TensorBlock, int]]:
        start = 0
        for block in self.blocks:
            yield block, start
            start += block.size

    @staticmethod
    def _local(block: TensorBlock, start: int, positions: npt.ArrayLike | None) -> Int[Array, " q"]:
        if positions is None:
            return np.arange(block.size)
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        return wanted[(wanted >= start) & (wanted < start + block.size)] - start


def _blocks(
    kernel: AbstractLineKernel | Tensor | Additive, grid: AbstractGrid | Sequence[AbstractGrid]
) -> tuple[TensorBlock, ...]:
    if isinstance(kernel, Additive):
        if isinstance(grid, AbstractGrid):
            if grid.dim != kernel.dim:
                raise InputError(
                    "additive expansion",
                    got=f"a grid of dimension {grid.dim}",
                    expected=f"dimension {kernel.dim}",
                )
            grids = [grid.project(subset) for subset, _ in kernel.terms]
        else:
            grids = list(grid)
        if len(grids) != len(kernel.terms):
            raise InputError(
                "additive expansion", got=f"{len(grids)} grids", expected=f"{len(kernel.terms)}, one per term"
            )
        return tuple(
            TensorBlock(term, own, subset) for (subset, term), own in zip(kernel.terms, grids, strict=True)
        )
    if not isinstance(grid, AbstractGrid):
        raise InputError(
            "expansion",
            got=f"grid of type {type(grid).__name__}",
            expected="SparseGrid, FullGrid or LowerSet",
        )
    return (TensorBlock(as_tensor(kernel, grid.dim), grid, range(grid.dim)),)
