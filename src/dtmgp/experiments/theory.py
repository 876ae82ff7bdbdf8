"""Theorem 3: the largest residual variance of a sparse-grid expansion against its level.

Everything comes from one-dimensional tables. With ``e_g(x_j)`` the square of the one active function of level ``g``
and ``r_i(x_j) = k_j(x_j, x_j) - sum_{g <= i} e_g(x_j)`` the residual variance of one coordinate at level ``i``,

    ``C_d(s) = sum over |l - 1|_1 = s of prod_j e_{l_j}(x_j)``                     (a truncated convolution)
    ``E_d(l) = k_d E_{d-1}(l) + sum_{s < l} C_{d-1}(s) r_{l-s}(x_d)``              (eq. s.4 of the supplement)

so the residual variance of every level is O(d level^2) per input, without a grid. All terms are positive; only
``r_i`` is a difference, of absolute error about 1e-15. Given the other coordinates ``E_d`` is linear in the
table row of ``x_d``: one product with the table evaluates every candidate of a coordinate at once.

Where the maximum is sought: all points ``i 2^-D`` of the closed unit interval with ``D`` two levels below the grid's
finest (ends of the interval, grid points, midpoints and quarters of all finest cells). In one dimension every one of
them is tried. In more, each coordinate in turn is moved to its best candidate until nothing improves, from the
corners, the centre and random starts. The tests compare this with trying all combinations.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.expansion.line import LineExpansion
from dtmgp.experiments.results import Table, Value
from dtmgp.grids import Dyadic, SparseGrid
from dtmgp.kernels import AbstractLineKernel, Brownian, BrownianBridge, Laplace, Matern32, Matern52, Tensor
from dtmgp.random import RandomState, as_generator

Array = np.ndarray
FLOOR = 1e-11  # residual variances below are dominated by rounding and not reported
DEPTH = 2  # candidates reach this many levels below the finest grid points
STARTS = 12  # random starts, beside corners and centre

KERNELS: dict[str, AbstractLineKernel] = {
    "Laplace 0.2": Laplace(0.2),
    "Laplace 1": Laplace(1.0),
    "Laplace 5": Laplace(5.0),
    "Brownian sheet": Brownian(1.0),
    "Brownian bridge": BrownianBridge(),
    "Matern-3/2": Matern32(1.0),
    "Matern-5/2": Matern52(1.0),
}
DIMENSIONS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Extent:
    """Highest levels of a run: of Markov kernels, and per state of the others (increments of the sequence)."""

    markov: int
    increments: int

    def levels(self, kernel: AbstractLineKernel) -> int:
        """Highest (generalised) level for a kernel."""
        return self.markov if kernel.state_size == 1 else self.increments * kernel.state_size


QUICK = Extent(markov=11, increments=6)
FULL = Extent(markov=18, increments=8)


class LineTable:
    """``k(x, x)``, ``e_g(x)`` and ``r_i(x)`` of one kernel at many inputs, up to a (generalised) level."""

    def __init__(self, kernel: AbstractLineKernel, level: int, x: Float[Array, " n"]) -> None:
        self.x = x
        self.prior = kernel.diagonal(x)
        self.energy = np.square(LineExpansion(kernel, Dyadic(), level).evaluate(x)[0])
        left = self.prior[:, None] - np.cumsum(self.energy, axis=1)
        self.residual = np.maximum(np.column_stack([self.prior, left]), 0.0)

    def rows(self, chosen: Int[Array, " n"] | slice) -> LineTable:
        """The same table at some of the inputs."""
        part = object.__new__(LineTable)
        part.x, part.prior, part.energy = self.x[chosen], self.prior[chosen], self.energy[chosen]
        part.residual = self.residual[chosen]
        return part


def shares(tables: Sequence[LineTable], level: int) -> tuple[Float[Array, "n l"], Float[Array, " n"]]:
    """``C(s)`` for s < level, and ``E(level)``, of the product of some coordinates; (1, 0, ..) and 0 of none."""
    count = len(tables[0].x) if tables else 1
    terms = np.zeros((count, level))
    terms[:, 0] = 1.0
    left = np.zeros(count)
    for table in tables:
        left = table.prior * left + np.einsum("ns,ns->n", terms, table.residual[:, level:0:-1])
        terms = np.stack(
            [np.einsum("ni,ni->n", terms[:, : s + 1], table.energy[:, s::-1]) for s in range(level)], axis=1
        )
    return terms, left


def residual_variance(kernel: Tensor, level: int, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """``k(x, x) - |phi(x)|^2`` on ``SparseGrid(d, level)`` by convolution of one-dimensional energies.

    The same number as ``HierarchicalExpansion(kernel, SparseGrid(d, level)).residual_variance(x)``, without its
    sum over all ``C(level+d-1, d)`` active features.
    """
    tables = [LineTable(factor, level, x[:, j]) for j, factor in enumerate(kernel.kernels)]
    return kernel.variance * shares(tables, level)[1]


def largest_residual(
    table: LineTable, dim: int, level: int, random_state: RandomState = None
) -> tuple[float, Float[Array, " d"]]:
    """Largest residual variance over ``{table.x}^dim``, and where it was found; all coordinates share the table."""
    count = len(table.x)
    if dim == 1:
        best = int(np.argmax(table.residual[:, level]))
        return float(table.residual[best, level]), table.x[[best]]
    corners = itertools.combinations_with_replacement((0, count - 1), dim)
    third = np.searchsorted(table.x, [1 / 3, 2 / 3])  # furthest from the grid points of all levels
    fixed = [*corners, (count // 2,) * dim, *itertools.combinations_with_replacement(third.tolist(), dim)]
    random = as_generator(random_state).integers(0, count, size=(STARTS, dim))
    place = np.concatenate([np.array(fixed, dtype=np.int64), random])
    backwards = table.residual[:, level:0:-1]
    value = np.zeros(len(place))
    while True:
        before = value
        for j in range(dim):
            others = [table.rows(place[:, i]) for i in range(dim) if i != j]
            terms, left = shares(others, level)
            for start in range(len(place)):
                score = backwards @ terms[start] + table.prior * left[start]
                place[start, j] = np.argmax(score)
                value = value.copy()
                value[start] = score[place[start, j]]
        keep = np.unique(np.sort(place, axis=1), axis=0, return_index=True)[1]  # coordinates are exchangeable
        done = (value <= before * (1 + 1e-12)).all()
        place, value = place[keep], value[keep]
        if done:
            best = int(np.argmax(value))
            return float(value[best]), table.x[place[best]]


def candidates(level: int, states: int) -> Float[Array, " n"]:
    """All ``i 2^-D`` in [0, 1], ``D`` two levels below the finest points of the (generalised) level."""
    depth = -(-level // states) + DEPTH
    return np.arange((1 << depth) + 1) / (1 << depth)


def study(
    extent: Extent = QUICK,
    kernels: Mapping[str, AbstractLineKernel] = KERNELS,
    dimensions: Sequence[int] = DIMENSIONS,
    random_state: RandomState = 0,
) -> Iterator[dict[str, Value]]:
    """One row per kernel, dimension and level. Each maximum is evaluated again by the expansion itself."""
    generator = as_generator(random_state)
    for name, kernel in kernels.items():
        top = extent.levels(kernel)
        whole = LineTable(kernel, top, candidates(top, kernel.state_size))
        for dim in dimensions:
            for level in range(1, top + 1):
                x = candidates(level, kernel.state_size)
                table = whole.rows(slice(None, None, (len(whole.x) - 1) // (len(x) - 1)))
                value, where = largest_residual(table, dim, level, generator)
                if value < FLOOR:
                    break
                expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
                again = float(expansion.residual_variance(where[None, :])[0])
                if not abs(again - value) <= 1e-12 + 1e-9 * value:
                    raise RuntimeError(
                        f"{name}, dim {dim}, level {level}: convolution {value}, features {again}"
                    )
                yield {
                    "kernel": name,
                    "dim": dim,
                    "level": level,
                    "features": expansion.size,
                    "residual": value,
                    "at": " ".join(f"{u:.6g}" for u in where),
                    **ratios(kernel, dim, level, expansion.size, value),
                }


def ratios(kernel: AbstractLineKernel, dim: int, level: int, features: int, value: float) -> dict[str, Value]:
    """The residual over the two expressions of Theorem 3, and over ``l^(d-1) / 2^l``; Markov kernels only.

    The two expressions differ: with ``m ~ 2^l l^(d-1)``, the second is ``l^(d-1) / 2^l``. It is the sharp one: the sum
    in eq. (s.5) is ``C(l+d-2, d-1)``, of order ``l^(d-1)``, where the proof bounds it by ``l^(2d-2)``.
    """
    if kernel.state_size > 1:
        return {"over_level_rate": None, "over_feature_rate": None, "over_sharp_rate": None}
    scaled = value * 2.0**level
    log = np.log2(features) if features > 1 else np.nan
    return {
        "over_level_rate": scaled / level ** (2 * dim - 2),
        "over_feature_rate": float(value * features / log ** (2 * dim - 2)),
        "over_sharp_rate": scaled / level ** (dim - 1),
    }


def slopes(table: Table) -> list[dict[str, Value]]:
    """Least-squares slopes over the upper half of the levels of each kernel and dimension.

    ``level_exponent``: of ``residual 2^l`` in ``l`` (Theorem 3: at most 2d-2; sharp: d-1 in the limit).
    ``feature_slope``: of ``residual`` in ``m``, both in logarithms.
    """
    groups: dict[tuple[Value, Value], list[dict[str, Value]]] = {}
    for row in table.rows:
        groups.setdefault((row["kernel"], row["dim"]), []).append(row)
    found = []
    for (name, dim), rows in groups.items():
        upper = Table({}, rows[len(rows) // 2 :])
        if len(upper.rows) < 2:
            raise InputError("slopes", got=f"{len(rows)} levels of {name}", expected="at least 3")
        level, residual = np.array(upper.column("level")), np.array(upper.column("residual"))
        markov = upper.rows[0]["over_level_rate"] is not None
        exponent = np.polyfit(np.log(level), np.log(residual * 2.0**level), 1)[0] if markov else None
        found.append(
            {
                "kernel": name,
                "dim": dim,
                "levels": f"{level[0]:.0f}-{level[-1]:.0f}",
                "level_exponent": None if exponent is None else float(exponent),
                "feature_slope": float(np.polyfit(np.log(upper.column("features")), np.log(residual), 1)[0]),
            }
        )
    return found
