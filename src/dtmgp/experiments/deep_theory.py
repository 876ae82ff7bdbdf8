"""Theorem 4: the L2 distance between a deep tensor Markov GP and its hierarchical expansion, layer by layer.

The expansion is coupled to the process by sharing weights: with ``G = sum over all levels`` of ``Z phi``, its
level-l expansion ``T`` keeps the first m terms of the same sum. Given the inputs u of ``G`` and v of ``T``, one unit
of the next layer is a pair of Gaussians with

    ``Var G(u) = k(u, u),   Var T(v) = |phi(v)|^2,   Cov(G(u), T(v)) = phi(u) phi(v)``   (phi of level l)

since weights are independent and the features of ``T`` are the first of ``G``'s. So pairs are drawn exactly, layer
after layer, without any weight, and the last layer enters by its conditional expectation

    ``E |G(u) - T(v)|^2 = k(u, u) + |phi(v)|^2 - 2 phi(u) phi(v)``.

The process is the limit of ever finer expansions; a level instead of the limit (``fine``) replaces ``k(u, u)`` by
``|phi_fine(u)|^2`` and changes nothing else.

Theorem 4 needs hidden values inside the cube. With the identity between layers they leave it, where no grid point is
near, and the distance stops falling; with a map into the cube it falls at the rate of the theorem.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import Table, Value
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Tensor
from dtmgp.random import RandomState, as_generator

Array = np.ndarray
Level = int | None  # None: the process itself


@dataclasses.dataclass(frozen=True)
class Layer:
    """``width`` independent processes with a tensor kernel over ``dim`` inputs, and the map in front of them."""

    kernel: Tensor
    width: int
    mapping: Callable[[Array], Array] = ndtr

    @property
    def dim(self) -> int:
        """Number of inputs."""
        return self.kernel.dim


def identity(h: Array) -> Array:
    """No map: hidden values are grid coordinates."""
    return h


@dataclasses.dataclass(frozen=True)
class Case:
    """A process of several layers; ``expanded`` says which of them are cut at a level, the others are exact."""

    name: str
    layers: tuple[Layer, ...]
    expanded: tuple[bool, ...]

    def levels(self, level: int) -> list[Level]:
        """Level of every layer."""
        return [level if cut else None for cut in self.expanded]


def _layers(widths: Sequence[int], mapping: Callable[[Array], Array] = ndtr) -> tuple[Layer, ...]:
    pairs = itertools.pairwise(widths)
    return tuple(
        Layer(Tensor(Laplace(1.0), dim=dim), width, identity if number == 0 else mapping)
        for number, (dim, width) in enumerate(pairs)
    )


CASES = (
    Case("1-1", _layers([1, 1]), (True,)),
    Case("1-1-1", _layers([1, 1, 1]), (True, True)),
    Case("1-1-1, first layer", _layers([1, 1, 1]), (True, False)),
    Case("1-1-1, last layer", _layers([1, 1, 1]), (False, True)),
    Case("1-1-1-1", _layers([1, 1, 1, 1]), (True, True, True)),
    Case("2-2-1", _layers([2, 2, 1]), (True, True)),
    Case("1-1-1, no map", _layers([1, 1, 1], identity), (True, True)),
)


class Moments(NamedTuple):
    """Of a pair (G(u), T(v)) per input pair: variances, covariance, and ``E |G(u) - T(v)|^2`` without cancellation."""

    process: Float[Array, " n"]
    expansion: Float[Array, " n"]
    cross: Float[Array, " n"]
    square: Float[Array, " n"]


class Cut:
    """Features of one layer's kernel up to a level, and what they say about pairs of inputs.

    >>> cut = Cut(Tensor(Laplace(1.0), dim=1), 5)
    >>> cut.pairs(np.array([[0.3]]), np.array([[0.3]])).square.round(3)
    array([0.015])
    """

    def __init__(self, kernel: Tensor, level: Level, fine: Level = None) -> None:
        if fine is not None and (level is None or level > fine):
            raise InputError(
                "level of the expansion", got=str(level), expected=f"at most {fine}, the fine one"
            )
        self.kernel = kernel
        self.coarse = None if level is None else HierarchicalExpansion(kernel, SparseGrid(kernel.dim, level))
        self.fine = None if fine is None else HierarchicalExpansion(kernel, SparseGrid(kernel.dim, fine))

    @property
    def size(self) -> int | None:
        """Features, None for the process itself."""
        return None if self.coarse is None else self.coarse.size

    def pairs(self, u: Float[Array, "n d"], v: Float[Array, "n d"]) -> Moments:
        """Moments of one unit, row by row."""
        if self.coarse is None:
            cross = np.full(len(u), self.kernel.variance)
            for j, line in enumerate(self.kernel.kernels):
                cross *= line.covariance(u[:, j], v[:, j])
            own, other = self.kernel.diagonal(u), self.kernel.diagonal(v)
            return Moments(own, other, cross, np.maximum(own + other - 2.0 * cross, 0.0))
        at_u, at_v = self.coarse.features(u), self.coarse.features(v)
        own = self.kernel.diagonal(u) if self.fine is None else _energy(self.fine.features(u))
        cross = np.asarray(at_u.multiply(at_v).sum(axis=1)).ravel()
        moved = _energy(at_u - at_v)
        return Moments(own, _energy(at_v), cross, np.maximum(own - _energy(at_u), 0.0) + moved)


def _energy(features: csr_array) -> Float[Array, " n"]:
    return np.asarray(features.power(2).sum(axis=1)).ravel()


def distance(
    layers: Sequence[Layer],
    cuts: Sequence[Cut],
    x: Float[Array, " d"],
    normals: Float[Array, "N k"],
) -> float:
    """``sqrt(E |f(x) - T(x)|^2)`` from N draws of the hidden pairs; ``normals`` has 2 columns per hidden unit."""
    u = v = np.tile(np.asarray(x, dtype=np.float64), (len(normals), 1))
    column = 0
    for layer, cut in zip(layers[:-1], cuts[:-1], strict=True):
        moments = cut.pairs(layer.mapping(u), layer.mapping(v))
        std = np.sqrt(moments.expansion)
        slope = moments.cross / np.where(std > 0, std, 1.0)
        rest = np.sqrt(np.maximum(moments.process - slope**2, 0.0))
        own = normals[:, column : column + layer.width]
        other = normals[:, column + layer.width : column + 2 * layer.width]
        column += 2 * layer.width
        v = std[:, None] * own
        u = slope[:, None] * own + rest[:, None] * other
    last = layers[-1]
    square = cuts[-1].pairs(last.mapping(u), last.mapping(v)).square
    return float(np.sqrt(last.width * square.mean()))


def rate(case: Case, sizes: Sequence[int | None]) -> float:
    """The bound of Theorem 4 without its constant, logarithms to base 2; exact layers contribute nothing."""
    total = 0.0
    depth = len(case.layers)
    for h, (layer, size) in enumerate(zip(case.layers, sizes, strict=True), start=1):
        if size is None:
            continue
        own = layer.width * np.log2(max(size, 2)) ** (2 * layer.dim - 2) / size
        later = [case.layers[g - 1].width ** (0.5 ** (depth - g + 1)) for g in range(h + 1, depth + 1)]
        total += own ** (0.5 ** (depth - h + 1)) * float(np.prod(later))
    return float(total)


def candidates(dim: int) -> Float[Array, "n d"]:
    """Inputs among which the largest distance is sought: ends and a third of every coordinate, no grid points.

    >>> len(candidates(2))
    9
    """
    return np.array(list(itertools.product([0.0, 1.0 / 3.0, 1.0], repeat=dim)))


def study(
    most: int, samples: int = 1 << 13, cases: Sequence[Case] = CASES, random_state: RandomState = 0
) -> Iterator[dict[str, Value]]:
    """One row per case and level: the largest distance over the candidates, and the rate of Theorem 4.

    ``most`` is the highest level in one dimension, two thirds of it in two. Hidden pairs come from one scrambled Sobol
    sequence for all levels.
    """
    for case in cases:
        columns = 2 * sum(layer.width for layer in case.layers[:-1])
        normals = np.empty((samples, 0))
        if columns:
            uniform = qmc.Sobol(columns, seed=as_generator(random_state)).random(samples)
            normals = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        dim = max(layer.dim for layer in case.layers)
        for level in range(2, (most if dim == 1 else 2 * most // 3) + 1):
            cuts = [Cut(layer.kernel, own) for layer, own in zip(case.layers, case.levels(level))]
            found = [distance(case.layers, cuts, x, normals) for x in candidates(case.layers[0].dim)]
            sizes = [cut.size for cut in cuts]
            bound = rate(case, sizes)
            yield {
                "case": case.name,
                "layers": len(case.layers),
                "level": level,
                "features": max(size for size in sizes if size is not None),
                "distance": max(found),
                "rate": bound,
                "over_rate": max(found) / bound,
            }


def slopes(table: Table) -> list[dict[str, Value]]:
    """Least-squares slopes of log distance and of log rate in log m, over the upper half of the levels of each case."""
    groups: dict[Value, list[dict[str, Value]]] = {}
    for row in table.rows:
        groups.setdefault(row["case"], []).append(row)
    found: list[dict[str, Value]] = []
    for name, rows in groups.items():
        upper = Table({}, rows[len(rows) // 2 :])
        size = np.log(upper.column("features"))
        found.append(
            {
                "case": name,
                "levels": f"{upper.rows[0]['level']}-{upper.rows[-1]['level']}",
                "slope": float(np.polyfit(size, np.log(upper.column("distance")), 1)[0]),
                "rate_slope": float(np.polyfit(size, np.log(upper.column("rate")), 1)[0]),
                "over_rate_first": rows[0]["over_rate"],
                "over_rate_last": rows[-1]["over_rate"],
            }
        )
    return found
