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
from dtmgp.ops import (
    contract,
    contract_dense,
    contract_fast,
    contract_quadratic,
    dense,
    path_for,
    reference,
)
from dtmgp.ops.dispatch import LARGEST_DENSE
from dtmgp.ops.plan import plans_of
from dtmgp.ops.quadratic import operator
from dtmgp.ops.quadratic import reference as pairs_reference

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


def plain(case, operation, *tables):
    """Outputs and gradients of a plain torch function by autograd."""
    inputs = [t.clone().requires_grad_() for t in (case.values, case.mean, case.variance)]
    first, second = operation(inputs[0], case.positions, *tables, *inputs[1:])
    return torch.autograd.grad((first, second), inputs, (first.detach().cos(), second.detach().sin()))


def near(found, expected, share):
    for a, b in zip(found, expected, strict=True):
        limit = share * float(b.detach().abs().max())
        torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=limit)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_written_out_derivatives_of_the_reference_are_those_of_autograd(name):
    # operators on a GPU use them, and on the CPU operators in other dtypes
    case = Case(name)
    tables = case.plan.tree, case.plan.intervals
    first, second = reference.contract(case.values, case.positions, *tables, case.mean, case.variance)
    given = case.values, case.positions, *tables, case.mean, case.variance, first.cos(), second.sin()
    near(reference.contract_backward(*given), plain(case, reference.contract, *tables), 1e-13)
    values = case.values.clone().requires_grad_()
    phi = dense.reference_features(values, case.positions, *tables, case.plan.size)
    (expected,) = torch.autograd.grad(phi, values, phi.detach().sin())
    found = dense._reference_backward(case.values, case.positions, *tables, phi.detach().sin())
    near([found], [expected], 1e-13)


@pytest.mark.parametrize("name", EXPANSIONS)
@pytest.mark.parametrize("path", [contract, contract_dense, contract_quadratic])
def test_other_dtypes_have_derivatives(name, path):
    case, rough = Case(name), Case(name, torch.bfloat16)
    if path is contract_quadratic and case.plan.quadratic is None:
        pytest.skip("no pairs")
    found = results(path, rough)
    assert all(part.dtype == torch.bfloat16 for part in found)
    near(found[:2], results(contract, case)[:2], 0.05)  # 8 bits
    inputs = [t.double() for t in (rough.values, rough.mean, rough.variance)]
    leaves = [t.requires_grad_() for t in inputs]
    outputs = contract(case.plan, leaves[0], case.positions, *leaves[1:])
    upstream = found[0].detach().cos().double(), found[1].detach().sin().double()
    near(found[2:], torch.autograd.grad(outputs, leaves, upstream), 0.05)


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


@pytest.mark.parametrize("name", QUADRATIC)
def test_written_out_derivatives_of_the_quadratic_form_are_those_of_autograd(name):
    case = Case(name)
    case.values[3:5] = 0.0  # underflow: below the floor of the level-1 values
    tables = case.plan.quadratic.functions, case.plan.quadratic.pairs, case.plan.quadratic.paired
    first, second = pairs_reference.reference(case.values, case.positions, *tables, case.mean, case.variance)
    grads = first.cos(), second.sin()
    found = pairs_reference.reference_backward(
        case.values, case.positions, *tables, case.mean, case.variance, grads
    )
    near(found, plain(case, pairs_reference.reference, *tables), 1e-13)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("name", EXPANSIONS)
@pytest.mark.parametrize("path", [contract, contract_dense, contract_quadratic])
def test_gpu_equals_cpu_on_every_path(name, path):
    case = Case(name)
    if path is contract_quadratic and case.plan.quadratic is None:
        pytest.skip("no pairs")
    expected = results(path, case)
    for part in ("values", "positions", "mean", "variance"):
        setattr(case, part, getattr(case, part).cuda())
    near([part.cpu() for part in results(path, case)], expected, 1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("path", [contract, contract_dense, contract_quadratic])
def test_paths_compile_on_a_gpu(path):
    case = Case("quadratic")
    leaves = [t.cuda().requires_grad_() for t in (case.values, case.mean, case.variance)]
    places = case.positions.cuda()

    def sums(values, mean, variance):
        return sum(part.sum() for part in path(case.plan, values, places, mean, variance))

    compiled = torch.compile(sums, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(f(*leaves), leaves) for f in (compiled, sums))
    near(found, expected, 1e-12)
