"""Random kernels and random lower sets for the tests of the expansion; uses no code of the library's grids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import LowerSet, paired_points
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor

MOST_LEVELS = {1: 9, 2: 8, 3: 9}  # by states per point: generalised levels that the dense side can resolve


class Case(NamedTuple):
    expansion: HierarchicalExpansion
    inputs: np.ndarray
    dyadic: bool
    size: int  # counted here, not by the library
    active: int


def random_markov(rng):
    """p = (1 + b x) exp(a x), q = exp(-c x): two lines of a user, p/q increasing for a + c > 0."""
    a, b, c = rng.uniform(0.1, 2.0, 3)
    return Markov(p=lambda x: (1.0 + b * x) * np.exp(a * x), q=lambda x: np.exp(-c * x))


def random_kernel(rng):
    """One of the six classes; lengthscales for which dense algebra in float64 is an oracle to 1e-10."""
    variance = rng.uniform(0.5, 2.0)
    kind = rng.integers(6)
    if kind == 0:
        return Laplace(10 ** rng.uniform(-1.0, 0.5), variance)
    if kind == 1:
        return Brownian(10 ** rng.uniform(-0.5, 0.5), variance)
    if kind == 2:
        return BrownianBridge(variance)
    if kind == 3:
        return random_markov(rng)
    if kind == 4:
        return Matern32(rng.uniform(0.1, 0.7), variance)
    return Matern52(rng.uniform(0.1, 0.3), variance)


def random_case(seed, most=2000, dim=None):
    """Kernels per coordinate, a lower set grown at random to about m <= most, a hundred inputs."""
    rng = np.random.default_rng([seed, 20240229])
    dim = int(rng.integers(1, 5)) if dim is None else dim
    kernels = [random_kernel(rng) for _ in range(dim)]
    sizes = [kernel.state_size for kernel in kernels]
    bridge = any(isinstance(kernel, BrownianBridge) for kernel in kernels)
    nested = not bridge and rng.random() < 0.2  # boundary points, where the bridge is degenerate
    target = int(2 ** rng.uniform(0.0, np.log2(most)))
    sequence = paired_points(9) if nested else None
    count = (lambda g, s: 1 if g <= s else 2) if nested else (lambda g, s: 1 << ((g - 1) // s))

    def block(index):
        return int(np.prod([count(g, s) for g, s in zip(index, sizes)]))

    root = (1,) * dim
    members, frontier, size = {root}, {root}, 1
    frontier = {forward(root, j) for j in range(dim)}
    while frontier and size < target:
        index = sorted(frontier)[rng.integers(len(frontier))]
        frontier.discard(index)
        if size + block(index) > most or any(g > MOST_LEVELS[s] for g, s in zip(index, sizes)):
            continue
        members.add(index)
        size += block(index)
        for j in range(dim):
            new = forward(index, j)
            if all(g == 1 or backward(new, i) in members for i, g in enumerate(new)):
                frontier.add(new)
    kernel = Tensor(kernels, variance=rng.uniform(0.5, 2.0))
    expansion = HierarchicalExpansion(kernel, LowerSet(sorted(members), sequence=sequence))
    return Case(expansion, rng.random((100, dim)), not nested, size, len(members))


def random_sum(seed, most=2000):
    """Two or three random cases side by side on subsets of coordinates that may overlap: an additive kernel."""
    rng = np.random.default_rng([seed, 20240301])
    dim = int(rng.integers(1, 5))
    parts, terms = [], []
    for number in range(int(rng.integers(2, 4))):
        part = random_case(1000 * seed + number + 7, most // 3, int(rng.integers(1, dim + 1)))
        own = part.expansion.dim
        parts.append(part)
        terms.append((tuple(int(j) for j in rng.choice(dim, own, replace=False)), part.expansion.kernel))
    kernel = Additive(terms, dim=dim)
    expansion = HierarchicalExpansion(kernel, [part.expansion.blocks[0].grid for part in parts])
    size, active = sum(part.size for part in parts), sum(part.active for part in parts)
    return Case(expansion, rng.random((100, dim)), all(part.dyadic for part in parts), size, active)


def forward(index, j):
    return (*index[:j], index[j] + 1, *index[j + 1 :])


def backward(index, j):
    return (*index[:j], index[j] - 1, *index[j + 1 :])


def errors(case):
    """Worst errors: (R^-1 per column, features per row, R^-T K R^-1 - I), each relative to the largest entry."""
    from dtmgp.expansion.reference import dense_covariances, dense_inverse_cholesky

    factor = case.expansion.inverse_cholesky().toarray()
    features = case.expansion.features(case.inputs).toarray()
    worst, start = np.zeros(3), 0
    for covariance, cross in dense_covariances(case.expansion, case.inputs):  # one per term of a sum
        own = slice(start, start + len(covariance))
        dense, part = dense_inverse_cholesky(covariance), factor[own, own]
        expected, found = cross @ dense, features[:, own]
        here = (
            (np.abs(part - dense) / np.abs(dense).max(axis=0)).max(),
            (np.abs(found - expected) / np.abs(expected).max(axis=1, keepdims=True)).max(),
            np.abs(part.T @ covariance @ part - np.eye(len(part))).max(),
        )
        worst = np.maximum(worst, here)
        factor[own, own] = 0.0
        start = own.stop
    assert start == len(factor)
    assert not factor.any()  # nothing between terms
    return tuple(worst.tolist())
