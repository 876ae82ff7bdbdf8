"""The expansion of one tensor kernel on one grid: what `HierarchicalExpansion` stacks for additive kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.expansion import _jit
from dtmgp.expansion.line import LineExpansion
from dtmgp.grids import AbstractGrid, Layout
from dtmgp.kernels import Tensor

Array = np.ndarray
CHUNK_ENTRIES = 1 << 18  # values (and active features) held at once while features are computed
MOST_RAISED = (
    64  # size of the stacks in the compiled loops; a grid with more raised coordinates has > 2^64 points
)


class TensorBlock:
    """Features of ``variance * prod_j k_j`` over the lower set of a grid, in the grid's order.

    Multi-indices count generalised levels: for Markov kernels these are the levels of the grid, for Matern kernels
    every family of functions is a level of its own.
    """

    def __init__(self, kernel: Tensor, grid: AbstractGrid, coordinates: Sequence[int]) -> None:
        if kernel.dim != grid.dim or len(coordinates) != grid.dim:
            raise InputError(
                "expansion",
                got=f"a kernel of {kernel.dim} coordinates and a grid of dimension {grid.dim}",
                expected="equal dimensions",
                do="build the grid for the kernel's coordinates",
            )
        self.kernel = kernel
        self.grid = grid
        self.coordinates = tuple(coordinates)
        tops = [int(top) for top in grid.max_levels]
        distinct: dict[tuple[object, int], int] = {}
        self.line_of = np.empty(kernel.dim, dtype=np.int64)
        for j, (factor, top) in enumerate(zip(kernel.kernels, tops, strict=True)):
            self.line_of[j] = distinct.setdefault((factor, top), len(distinct))
        self.lines = [LineExpansion(factor, grid.sequence, top) for factor, top in distinct]  # type: ignore[arg-type]

    def line(self, coordinate: int) -> LineExpansion:
        """The one-dimensional expansion of a coordinate; equal coordinates share one."""
        return self.lines[int(self.line_of[coordinate])]

    def _total(self, per_level: str) -> int:
        """Sum over the set of products of a per-level number of the lines, by formula."""
        tables = [[int(w) for w in getattr(line, per_level)] for line in self.lines]
        return self.grid.weighted_total([tables[k] for k in self.line_of])

    @cached_property
    def size(self) -> int:
        """Number of features ``m``."""
        tables = [line.counts[1:].tolist() for line in self.lines]
        return self.grid.weighted_total([tables[k] for k in self.line_of])

    @cached_property
    def nonzeros(self) -> int:
        """Non-zeros of ``R^-1``, by formula."""
        return self._total("nonzeros_per_level")

    @cached_property
    def layout(self) -> Layout:
        """Which (multi-index, local index) sits at which feature."""
        counts = np.zeros((self.grid.dim, max(line.top for line in self.lines) + 1), dtype=np.int64)
        for j in range(self.grid.dim):
            line = self.line(j)
            counts[j, : line.top + 1] = line.counts
        layout = Layout(self.grid.indices, counts)
        if layout.most_raised > MOST_RAISED:
            raise InputError(
                "grid", got=f"{layout.most_raised} raised coordinates", expected=f"at most {MOST_RAISED}"
            )
        return layout

    # -- features ---------------------------------------------------------------------------------------------
    @cached_property
    def tree(self) -> tuple[Int[Array, " T"], Int[Array, " T"], Int[Array, " T"]]:
        """Parent of every multi-index and the coordinate and level that it raises over it."""
        indices = self.grid.indices
        last = np.maximum(indices.raised_start[1:] - 1, 0)
        if not len(indices.raised_dim):
            nothing = np.zeros(len(indices), dtype=np.int64)
            return indices.parents, nothing, nothing
        return indices.parents, indices.raised_dim[last], indices.raised_level[last].astype(np.int64)

    def evaluate(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n d L"], Int[Array, "n d L"]]:
        """Value and index of the active function of every generalised level and coordinate; x is checked already."""
        if len(self.lines) == 1:
            found, place = self.lines[0].evaluate(x.ravel())
            return found.reshape(*x.shape, -1), place.reshape(*x.shape, -1)
        width = max(line.top for line in self.lines)
        values = np.zeros((*x.shape, width))
        index = np.zeros((*x.shape, width), dtype=np.int64)
        for k, line in enumerate(self.lines):
            members = np.flatnonzero(self.line_of == k)
            found, place = line.evaluate(x[:, members].ravel())
            values[:, members, : line.top] = found.reshape(len(x), len(members), line.top)
            index[:, members, : line.top] = place.reshape(len(x), len(members), line.top)
        return values, index

    def chunks(self, n: int) -> Iterator[slice]:
        """Slices of rows that keep intermediate arrays small."""
        width = max(line.top for line in self.lines)
        step = max(1, CHUNK_ENTRIES // max(self.grid.active_per_input, self.grid.dim * width))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    def fill(self, x: Float[Array, "n d"], data: Float[Array, "n T"], columns: Int[Array, "n T"]) -> None:
        """Write active values and their columns, row by row, in increasing column order."""
        layout = self.layout
        parents, last_dim, last_level = self.tree
        scale = float(np.sqrt(self.kernel.variance))
        for rows in self.chunks(len(x)):
            values, index = self.evaluate(x[rows])
            if not np.isfinite(values).all():
                bad = np.argwhere(~np.isfinite(values))[0]
                raise InputError(
                    "features",
                    got=f"a value that is not finite at x[{rows.start + int(bad[0])}], coordinate {int(bad[1])}",
                    expected="finite values",
                    cause="the kernel's p and q overflow there",
                    do="scale the inputs to the unit cube",
                )
            _jit.tensor_features(
                values,
                index,
                parents,
                last_dim,
                last_level,
                self.grid.indices.levels,
                layout.counts,
                layout.offset,
                scale,
                data[rows],
                columns[rows],
            )

    def squared_norm(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """``|phi(x)|^2`` in bounded memory."""
        total = np.empty(len(x))
        width = self.grid.active_per_input
        for rows in self.chunks(len(x)):
            count = rows.stop - rows.start
            data, columns = np.empty((count, width)), np.empty((count, width), dtype=np.int64)
            self.fill(x[rows], data, columns)
            total[rows] = np.einsum("nt,nt->n", data, data)
        return total

    # -- factor -----------------------------------------------------------------------------------------------
    def inverse_cholesky_arrays(
        self, dtype: np.dtype
    ) -> tuple[Float[Array, " e"], Int[Array, " e"], Int[Array, " c"]]:
        """Data, sorted row indices, column pointers of ``R^-1``: O(1) work per non-zero (Alg. 2 without its sums)."""
        layout, indices = self.layout, self.grid.indices
        columns = [line.columns for line in self.lines]
        bases = np.cumsum([0] + [len(column.level) for column in columns])
        functions = np.cumsum([0] + [line.size for line in self.lines])
        width = max(line.top for line in self.lines) + 1
        line_start = np.zeros((len(self.lines), width), dtype=np.int64)
        for k, line in enumerate(self.lines):
            # one slot per function plus one closing entry per line
            line_start[k, : line.top + 1] = line.start + functions[k] + k
        entry_start = np.concatenate([column.start + bases[k] for k, column in enumerate(columns)])
        ratio = np.concatenate([column.coefficient / column.coefficient[0] for column in columns])
        root = np.prod([self.line(j).columns.coefficient[0] for j in range(self.grid.dim)])
        nonzeros = np.empty(self.size, dtype=np.int64)
        raised = (indices.raised_start, indices.raised_dim, indices.raised_level)
        _jit.column_counts(*raised, layout.counts, line_start, entry_start, self.line_of, nonzeros)
        data = np.empty(self.nonzeros)
        rows = np.empty(self.nonzeros, dtype=dtype)
        _jit.kronecker_columns(
            *raised,
            layout.counts,
            layout.offset,
            *indices.hash_tables,
            line_start,
            entry_start,
            np.concatenate([column.level for column in columns]),
            np.concatenate([column.local for column in columns]),
            ratio,
            self.line_of,
            float(root) / float(np.sqrt(self.kernel.variance)),
            int(nonzeros.max()),
            data,
            rows,
        )
        pointers = np.zeros(self.size + 1, dtype=dtype)
        np.cumsum(nonzeros, out=pointers[1:])
        return data, rows, pointers

    def log_det(self) -> float:
        """``log det K = -2 sum log diag(R^-1)``, from the one-dimensional diagonals: O(T d)."""
        layout, indices = self.layout, self.grid.indices
        diagonal = np.zeros((self.grid.dim, layout.counts.shape[1]))
        for j in range(self.grid.dim):
            line = self.line(j)
            diagonal[j, 1 : line.top + 1] = line.log_diagonal_per_level / line.counts[1:]
        mean = np.full(len(indices), diagonal[:, 1].sum())
        rise = diagonal[indices.raised_dim, indices.raised_level] - diagonal[indices.raised_dim, 1]
        np.add.at(mean, np.repeat(np.arange(len(indices)), np.diff(indices.raised_start)), rise)
        return float(-2.0 * mean @ layout.block_size + self.size * np.log(self.kernel.variance))

    # -- what a feature is ------------------------------------------------------------------------------------
    def states(self, positions: Int[Array, " q"]) -> tuple[Float[Array, "q d"], Int[Array, "q d"]]:
        """Centre and derivative order, per coordinate, of the state that belongs to a feature."""
        block, local = self.layout.addresses(positions)
        levels = self.grid.indices.levels[block]
        points, orders = np.empty(local.shape), np.empty(local.shape, dtype=np.int64)
        for j in range(self.grid.dim):
            line = self.line(j)
            points[:, j] = line.points[line.start[levels[:, j] - 1] + local[:, j]]
            orders[:, j] = line.family[levels[:, j]]
        return points, orders

    def support(self, positions: Int[Array, " q"]) -> Float[Array, "q d 2"]:
        """Ends of the support per coordinate, infinite where the feature reaches to the edge of the domain."""
        block, local = self.layout.addresses(positions)
        levels = self.grid.indices.levels[block]
        ends = np.empty((*local.shape, 2))
        for j in range(self.grid.dim):
            line = self.line(j)
            ends[:, j] = line.supports[line.start[levels[:, j] - 1] + local[:, j]]
        return ends

    def state_covariance(self, left: Int[Array, " q"], right: Int[Array, " r"]) -> Float[Array, "q r"]:
        """``K`` between the states of features: dense, for oracles and small problems."""
        points_left, orders_left = self.states(left)
        points_right, orders_right = self.states(right)
        matrix = np.full((len(left), len(right)), self.kernel.variance)
        for j, factor in enumerate(self.kernel.kernels):
            full = factor.state_covariance(points_left[:, None, j], points_right[None, :, j])
            picked = np.take_along_axis(full, orders_left[:, None, None, None, j], axis=2)
            matrix *= np.take_along_axis(picked, orders_right[None, :, None, None, j], axis=3)[:, :, 0, 0]
        return matrix
