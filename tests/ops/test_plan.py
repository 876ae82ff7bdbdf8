"""Oracle: sizes of the expansion, and the definition of a product over all coordinates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import EXPANSIONS, Case

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Additive, Laplace, Tensor
from dtmgp.ops import reference
from dtmgp.ops.plan import plans_of


@pytest.mark.parametrize("name", EXPANSIONS)
def test_sizes_are_those_of_the_expansion(name):
    case = Case(name)
    assert (case.plan.size, case.plan.active) == (case.expansion.size, case.expansion.active_per_input)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_active_values_are_products_over_all_coordinates(name):
    case = Case(name)
    levels = torch.from_numpy(case.expansion.blocks[0].grid.multi_indices.astype(np.int64)) - 1
    every = case.values[:, torch.arange(case.plan.dim), levels]  # (N, T, d)
    found = reference.active_values(case.values, case.plan.tree, case.plan.intervals)
    torch.testing.assert_close(found, every.prod(-1), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_reference_equals_the_sparse_features(name):
    case = Case(name)
    found = reference.contract(
        case.values, case.positions, case.plan.tree, case.plan.intervals, case.mean, case.variance
    )
    np.testing.assert_allclose(found[0], case.features @ case.mean.numpy(), atol=1e-13)
    np.testing.assert_allclose(found[1], case.features.power(2) @ case.variance.numpy(), atol=1e-13)


def test_additive_kernels_have_one_plan_per_term_with_consecutive_rows():
    kernel = Additive([((0, 2), Tensor(Laplace(), dim=2)), ((1,), Laplace())])
    plans = plans_of(HierarchicalExpansion(kernel, SparseGrid(3, 3)))
    assert [plan.coordinates for plan in plans] == [(0, 2), (1,)]
    assert plans[1].rows == slice(plans[0].size, plans[0].size + plans[1].size)


def test_a_table_beyond_32_bit_rows_is_refused(monkeypatch):
    monkeypatch.setattr("dtmgp.ops.plan.LARGEST", 100)
    with pytest.raises(InputError, match="rows"):
        plans_of(HierarchicalExpansion(Laplace(), SparseGrid(1, 8)))
