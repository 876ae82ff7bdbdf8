"""Oracle: the sparse contraction, which has its own; both sides of every switch give the same numbers."""

from __future__ import annotations

import pytest
import torch
from cases import EXPANSIONS, Case
from torch.library import opcheck

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32
from dtmgp.ops import contract, contract_dense, contract_fast, contract_quadratic, dense, path_for
from dtmgp.ops.dispatch import LARGEST_DENSE
from dtmgp.ops.plan import plans_of

EXPANSIONS["quadratic"] = lambda: HierarchicalExpansion(Matern32(4.0), SparseGrid(6, 3))
EXPANSIONS["dense"] = lambda: HierarchicalExpansion(Laplace(30.0), SparseGrid(30, 2))


def results(path, case):
    inputs = [t.clone().requires_grad_() for t in (case.values, case.mean, case.variance)]
    first, second = path(case.plan, inputs[0], case.positions, *inputs[1:])
    grads = torch.autograd.grad((first, second), inputs, (first.detach().cos(), second.detach().sin()))
    return first, second, *grads


@pytest.mark.parametrize("name", EXPANSIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dense_equals_sparse(name, dtype):
    case = Case(name, dtype)
    for found, expected in zip(results(contract_dense, case), results(contract, case), strict=True):
        limit = (1e-13 if dtype == torch.float64 else 1e-5) * float(expected.detach().abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=limit)


def test_quadratic_equals_sparse():
    case = Case("quadratic")
    assert dense.has_quadratic_form(case.plan)
    for found, expected in zip(results(contract_quadratic, case), results(contract, case), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["laplace-13d", "laplace-deep", "dense"])
def test_the_quadratic_form_is_refused_where_positions_matter(name):
    case = Case(name)
    with pytest.raises(InputError, match="contract_quadratic"):
        contract_quadratic(case.plan, case.values, case.positions, case.mean)


def test_operator_contract():
    case = Case("matern")
    values = case.values.clone().requires_grad_()
    opcheck(dense._features, (values, case.positions, case.plan.tree, case.plan.intervals, case.plan.size))


def test_features_are_those_of_the_expansion():
    case = Case("full")
    found = dense.features(case.plan, case.values, case.positions)
    torch.testing.assert_close(found, torch.from_numpy(case.features.toarray()), rtol=0, atol=1e-14)


# (dim, level, width): what is chosen, measured by benchmarks/fused_dispatch.py
SWITCH = [
    (13, 3, 10, contract),
    (2, 8, 8, contract),
    (3, 10, 4, contract),
    (30, 2, 16, contract),
    (100, 2, 256, contract_dense),
    (30, 2, 4096, contract_dense),
    (512, 2, 4096, contract_dense),
]


@pytest.mark.parametrize(("dim", "level", "width", "expected"), SWITCH)
def test_the_choice(dim, level, width, expected):
    (plan,) = plans_of(HierarchicalExpansion(Laplace(dim), SparseGrid(dim, level)))
    assert path_for(plan, 1000, width) is expected


def test_dense_features_that_would_not_fit_are_not_formed():
    (plan,) = plans_of(HierarchicalExpansion(Laplace(30), SparseGrid(30, 2)))
    assert path_for(plan, LARGEST_DENSE, 4096) is contract


@pytest.mark.parametrize("width", [16, 2048])
def test_the_same_results_on_both_sides_of_the_switch(width):
    case = Case("dense", width=width, rows=9)
    paths = {16: contract, 2048: contract_dense}
    assert path_for(case.plan, 9, width) is paths[width]
    for other in (contract, contract_dense):
        for found, expected in zip(results(contract_fast, case), results(other, case), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
