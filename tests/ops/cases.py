"""Cases for the operators: expansions with inputs in every corner of their grids."""

from __future__ import annotations

import numpy as np
import torch

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import FullGrid, LowerSet, SparseGrid, paired_points
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Matern32, Matern52, Tensor
from dtmgp.ops.plan import plans_of

EXPANSIONS = {
    "laplace-13d": lambda: HierarchicalExpansion(Laplace(13.0), SparseGrid(13, 3)),
    "laplace-deep": lambda: HierarchicalExpansion(Laplace(0.3), SparseGrid(3, 6)),
    "full": lambda: HierarchicalExpansion(Brownian(2.0), FullGrid([3, 1, 4, 2])),
    "line": lambda: HierarchicalExpansion(Laplace(1.0), SparseGrid(1, 7)),
    "root-only": lambda: HierarchicalExpansion(Laplace(1.0), SparseGrid(3, 1)),
    "gaps": lambda: HierarchicalExpansion(
        BrownianBridge(), LowerSet.closure([[1, 1, 2, 3, 1, 2], [2, 1, 1, 1, 3, 1]])
    ),
    "matern": lambda: HierarchicalExpansion(Matern32(0.7), SparseGrid(5, 4)),
    "mixed": lambda: HierarchicalExpansion(
        Tensor([Laplace(0.4), Matern52(0.9), Laplace(2.0, variance=3.0)], variance=0.5), SparseGrid(3, 5)
    ),
    "nested": lambda: HierarchicalExpansion(Laplace(0.4), SparseGrid(2, 8, sequence=paired_points())),
}


class Case:
    """An expansion, its plan, inputs, their one-dimensional values, and weights."""

    def __init__(self, name, dtype=torch.float64, width=3, rows=21):
        self.expansion = EXPANSIONS[name]()
        (self.plan,) = plans_of(self.expansion)
        block = self.expansion.blocks[0]
        rng = np.random.default_rng(0)
        self.x = rng.uniform(size=(rows, self.plan.dim))
        self.x[:4] = np.array([[0.0], [1.0], [0.5], [0.25]])[:rows]  # corners of the domain and grid points
        values, positions = block.evaluate(self.x)
        values[:, 0] *= np.sqrt(block.kernel.variance)
        self.values = torch.from_numpy(values).to(dtype)
        self.positions = torch.from_numpy(positions).to(torch.int32)
        self.mean = torch.from_numpy(rng.normal(size=(self.plan.size, width))).to(dtype)
        self.variance = torch.from_numpy(rng.uniform(size=(self.plan.size, width))).to(dtype)
        self.features = self.expansion.features(self.x)
