"""Oracle: the sparse contraction, which has its own; both sides of every switch give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import EXPANSIONS, Case
from torch.library import opcheck

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.kernels import Laplace, Matern32, Matern52
from dtmgp.ops import contract, contract_dense, contract_fast, contract_quadratic, dense, path_for
from dtmgp.ops.dispatch import LARGEST_DENSE
from dtmgp.ops.plan import plans_of
from dtmgp.ops.quadratic import operator

EXPANSIONS["quadratic"] = lambda: HierarchicalExpansion(Matern32(4.0), SparseGrid(6, 3))
EXPANSIONS["pairs-of-two"] = lambda: HierarchicalExpansion(Laplace(2.0), SparseGrid(5, 3))
EXPANSIONS["singles"] = lambda: HierarchicalExpansion(Matern32(2.0), SparseGrid(4, 2))
EXPANSIONS["padded"] = lambda: HierarchicalExpansion(Matern52(1.0), SparseGrid(17, 3))
EXPANSIONS["dense"] = lambda: HierarchicalExpansion(Laplace(30.0), SparseGrid(30, 2))


def some_pairs(dim, deepest):
    """Pairs of odd coordinates at level 2, and every coordinate but the first alone at the deepest level."""
    odd = np.arange(1, dim, 2)
    indices = np.ones((6 * dim + dim, dim), dtype=int)
    rng = np.random.default_rng(0)
    for row in indices[: 6 * dim]:
        row[rng.choice(odd, 2, replace=False)] = 2
    for j in range(1, dim):
        indices[6 * dim + j, j] = deepest
    return LowerSet.closure(indices)


EXPANSIONS["scattered-2"] = lambda: HierarchicalExpansion(Laplace(9.0), some_pairs(37, 2))
EXPANSIONS["scattered-4"] = lambda: HierarchicalExpansion(Matern32(9.0), some_pairs(21, 4))


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


QUADRATIC = ["quadratic", "pairs-of-two", "laplace-13d", "padded", "scattered-2", "scattered-4"]


@pytest.mark.parametrize("name", QUADRATIC)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_quadratic_equals_sparse(name, dtype):
    case = Case(name, dtype)
    for found, expected in zip(results(contract_quadratic, case), results(contract, case), strict=True):
        limit = (1e-13 if dtype == torch.float64 else 3e-5) * float(expected.detach().abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=limit)


def test_functions_come_in_all_kinds_of_groups():
    found = set()
    for name in QUADRATIC:
        plan = Case(name).plan
        kinds = operator._groups(plan.quadratic.functions.numpy(), plan.levels, plan.dim)[0]
        found |= set(kinds.tolist())
    assert found == {0, 1, 2}


def test_quadratic_in_several_blocks_and_without_variance():
    case = Case("quadratic", rows=1000)
    whole = results(contract_quadratic, case)
    before, operator.BLOCK_ENTRIES = operator.BLOCK_ENTRIES, 1
    try:
        for found, expected in zip(results(contract_quadratic, case), whole, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        mean, nothing = contract_quadratic(case.plan, case.values, case.positions, case.mean)
    finally:
        operator.BLOCK_ENTRIES = before
    assert nothing is None
    torch.testing.assert_close(mean, whole[0].detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["gaps", "matern", "laplace-deep", "full", "singles", "line"])
def test_the_quadratic_form_is_refused_where_there_is_none(name):
    case = Case(name)
    with pytest.raises(InputError, match="contract_quadratic"):
        contract_quadratic(case.plan, case.values, case.positions, case.mean)


@pytest.mark.parametrize("with_variance", [True, False])
def test_quadratic_operator_contract(with_variance):
    case = Case("quadratic", rows=5)
    tables = case.plan.quadratic
    values, mean, variance = (t.clone().requires_grad_() for t in (case.values, case.mean, case.variance))
    arguments = (
        values, case.positions, tables.functions, tables.pairs, tables.paired,
        mean, variance if with_variance else None,
    )  # fmt: skip
    opcheck(operator._quadratic, arguments)
    assert torch.autograd.gradcheck(
        lambda v, m, s: operator._quadratic(v, *arguments[1:5], m, s if with_variance else None),
        (values, mean, variance),
    )


def test_quadratic_without_inputs_and_with_underflow():
    case = Case("quadratic", torch.float32)
    assert contract_quadratic(case.plan, case.values[:0], case.positions[:0], case.mean)[0].shape == (0, 3)
    values = torch.zeros_like(case.values).requires_grad_()  # far outside the cube everything underflows
    found = contract_quadratic(case.plan, values, case.positions, case.mean)[0]
    assert bool((found.abs() < 1e-30).all())
    (grad,) = torch.autograd.grad(found.sum(), values)
    assert bool(torch.isfinite(grad).all())


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
    (Laplace, 13, 3, 10, contract),
    (Laplace, 2, 8, 8, contract),
    (Laplace, 3, 10, 4, contract),
    (Laplace, 30, 2, 16, contract),
    (Laplace, 100, 2, 256, contract_dense),
    (Laplace, 30, 2, 4096, contract_dense),
    (Laplace, 512, 2, 4096, contract_dense),
    (Matern32, 64, 3, 1, contract_quadratic),
    (Matern32, 64, 3, 2, contract_quadratic),
    (Matern32, 64, 3, 256, contract_dense),
    (Matern32, 100, 3, 2, contract_quadratic),
    (Laplace, 64, 3, 1, contract_quadratic),
]


@pytest.mark.parametrize(("kernel", "dim", "level", "width", "expected"), SWITCH)
def test_the_choice(kernel, dim, level, width, expected):
    (plan,) = plans_of(HierarchicalExpansion(kernel(dim), SparseGrid(dim, level)))
    assert path_for(plan, 1000, width) is expected
    if expected is contract_quadratic:  # its call is dear: not worth it for a few inputs
        assert path_for(plan, 10, width) is not expected


def test_dense_features_that_would_not_fit_are_not_formed():
    (plan,) = plans_of(HierarchicalExpansion(Laplace(30), SparseGrid(30, 2)))
    assert path_for(plan, LARGEST_DENSE, 4096) is contract
    assert path_for(plan, LARGEST_DENSE, 4096, "cuda") is contract
    (pairs,) = plans_of(HierarchicalExpansion(Matern32(64), SparseGrid(64, 3)))
    assert path_for(pairs, LARGEST_DENSE, 2) is contract_quadratic
    assert path_for(pairs, 1000, 256, "cuda") is contract_quadratic


@pytest.mark.parametrize("width", [16, 2048])
def test_the_same_results_on_both_sides_of_the_switch(width):
    case = Case("dense", width=width, rows=9)
    paths = {16: contract, 2048: contract_dense}
    assert path_for(case.plan, 9, width) is paths[width]
    for other in (contract, contract_dense):
        for found, expected in zip(results(contract_fast, case), results(other, case), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
