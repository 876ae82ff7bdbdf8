"""A layer on a larger lower set that starts where the smaller one was."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import AbstractGrid, LowerSet
from dtmgp.layers import ExpansionLayer
from dtmgp.layers.features import ExpansionFeatures


def set_of(layer: ExpansionLayer) -> LowerSet:
    """The multi-indices of a layer of one tensor kernel."""
    if not isinstance(layer.features, ExpansionFeatures) or len(layer.features.expansion.blocks) > 1:
        raise InputError(
            "a layer that grows",
            got=repr(layer.features),
            expected="features of one tensor kernel on a grid",
        )
    grid = layer.features.expansion.blocks[0].grid
    return LowerSet(grid.multi_indices, sequence=grid.sequence)


def places(small: HierarchicalExpansion, large: HierarchicalExpansion) -> np.ndarray:
    """Position in ``large`` of every feature of ``small``, whose multi-indices it must hold.

    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> places(*(HierarchicalExpansion(Laplace(), SparseGrid(2, k)) for k in (1, 3)))
    array([0])
    """
    before, after = small.blocks[0], large.blocks[0]
    numbers = after.grid.indices.find(before.grid.multi_indices)
    if (numbers < 0).any():
        missing = tuple(map(int, before.grid.multi_indices[np.argmax(numbers < 0)]))
        raise InputError(
            "the set of a layer that grows",
            got=f"one without {missing}",
            expected="all multi-indices that the layer has",
            do="use LowerSet.add or LowerSet.refine on its set",
        )
    shift = after.layout.offset[numbers] - before.layout.offset[:-1]
    return np.arange(before.size) + np.repeat(shift, before.layout.block_size)


def grown(layer: ExpansionLayer, grid: AbstractGrid, *, new_std: float = 1.0) -> ExpansionLayer:
    """The layer on a larger grid: same kernel, mean, map and bias; every weight keeps its law in its new place.

    New weights have the mean of the prior and ``new_std`` of its standard deviation. So the mean function is the same;
    the variance grows by the part of the prior's that the new features carry; and for ``new_std=1`` the KL divergence
    is the same, too: the bound changes by what the data say about the new features alone.
    """
    set_of(layer)  # refuses what cannot grow
    features, weights = layer.features, layer.weights
    assert isinstance(features, ExpansionFeatures)
    old = features.expansion
    larger = HierarchicalExpansion(old.kernel, grid)
    where = torch.as_tensor(places(old, larger), device=layer.bias.device)
    parameter = features.log_lengthscales[0]
    found = ExpansionLayer(
        larger,
        layer.width,
        mapping=layer.mapping,
        mean=layer.mean,
        prior=(_rows(weights.prior_mean, where, larger.size), _rows(weights.prior_std, where, larger.size)),
        initial_std=new_std,
        learn_kernel=parameter.requires_grad,
    ).to(layer.bias)
    found.bias = layer.bias
    assert isinstance(found.features, ExpansionFeatures)
    found.features.log_lengthscales = features.log_lengthscales
    found.features.log_variances = features.log_variances
    with torch.no_grad():
        found.weights.mean[where] = weights.mean
        found.weights.log_std[where] = weights.log_std
    return found


def _rows(prior: Tensor, where: Tensor, size: int) -> Tensor:
    """A prior that differs from row to row, in the new order; new rows have the last old row's."""
    if prior.ndim < 2 or len(prior) == 1:
        return prior.detach().clone()
    rows = prior[-1:].expand(size, prior.shape[1]).clone()
    rows[where] = prior
    return rows
