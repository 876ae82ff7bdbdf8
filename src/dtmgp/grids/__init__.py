"""Where the inducing points are: one-dimensional nested sequences and lower sets of multi-indices over them.

Lives here: points, their required order, sizes by formula, and the maps position <-> point <-> (multi-index, local).
May not live here: kernels, features, torch.
"""

from dtmgp.grids.full import FullGrid
from dtmgp.grids.grid import AbstractGrid
from dtmgp.grids.layout import Layout
from dtmgp.grids.lower_set import LowerSet
from dtmgp.grids.multi_indices import MultiIndices
from dtmgp.grids.sequences import AbstractSequence, Dyadic, Nested, dyadic_points, paired_points
from dtmgp.grids.sparse import SparseGrid

__all__ = [
    "AbstractGrid",
    "AbstractSequence",
    "Dyadic",
    "FullGrid",
    "Layout",
    "LowerSet",
    "MultiIndices",
    "Nested",
    "SparseGrid",
    "dyadic_points",
    "paired_points",
]
