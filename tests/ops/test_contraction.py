"""Oracles: the sparse features of the expansion, the eager reference, finite differences, torch's operator checks."""

from __future__ import annotations

import pytest
import torch
from cases import EXPANSIONS, Case
from torch.library import opcheck

from dtmgp.errors import InputError
from dtmgp.ops import _jit, contract, contraction, reference, threads

SHARES = threads.shares
WIDTHS = [1, 3, 4, 8, 10, 16, 37]
# relative to the largest entry; float32 measured at 2e-6
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5}
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")


def assert_near(found, expected, dtype):
    scale = float(expected.detach().abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype] * max(scale, 1e-30))


def leaves(case):
    return [t.clone().requires_grad_() for t in (case.values, case.mean, case.variance)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", EXPANSIONS)
def test_forward_and_backward_equal_the_reference(name, dtype):
    case = Case(name, dtype)
    results = []
    for function in (
        lambda v, m, s: contract(case.plan, v, case.positions, m, s),
        lambda v, m, s: reference.contract(v, case.positions, case.plan.tree, case.plan.intervals, m, s),
    ):
        inputs = leaves(case)
        outputs = function(*inputs)
        weights = [torch.linspace(-1, 2, o.numel(), dtype=dtype).reshape(o.shape) for o in outputs]
        results.append([*outputs, *torch.autograd.grad(outputs, inputs, weights)])
    for found, expected in zip(*results, strict=True):
        assert_near(found, expected, dtype)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_every_width_of_table(width, dtype):
    case = Case("laplace-deep", dtype, width, rows=37)
    inputs, others = leaves(case), leaves(case)
    outputs = contract(case.plan, inputs[0], case.positions, *inputs[1:])
    expected = reference.contract(others[0], case.positions, case.plan.tree, case.plan.intervals, *others[1:])
    for found, right in zip(outputs, expected, strict=True):
        assert_near(found, right, dtype)
    for found, right in zip(
        torch.autograd.grad(outputs, inputs, outputs), torch.autograd.grad(expected, others, expected)
    ):
        assert_near(found, right, dtype)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_gradients_against_finite_differences(name):
    case = Case(name, rows=6)
    inputs = leaves(case)
    assert torch.autograd.gradcheck(lambda v, m, s: contract(case.plan, v, case.positions, m, s), inputs)
    assert torch.autograd.gradcheck(lambda v, m: contract(case.plan, v, case.positions, m)[0], inputs[:2])


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_operator_contract(both, dtype):
    case = Case("matern", dtype)
    values, mean, variance = leaves(case)
    arguments = (
        values,
        case.positions,
        case.plan.tree,
        case.plan.intervals,
        mean,
        variance if both else None,
    )
    opcheck(contraction._contract, arguments)
    grads = torch.rand(len(values), 3, dtype=dtype), torch.rand(len(values) if both else 0, 3, dtype=dtype)
    detached = [None if a is None else a.detach() for a in arguments]
    opcheck(contraction._contract_backward, (*detached, *grads, True, True))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own compiler
def test_compiles_without_graph_breaks():
    case = Case("laplace-deep")
    inputs = leaves(case)

    def function(v, m, s):
        first, second = contract(case.plan, v, case.positions, m, s)
        return first.sum() + second.square().sum()

    expected = torch.autograd.grad(function(*inputs), inputs)
    found = torch.autograd.grad(torch.compile(function, fullgraph=True)(*inputs), inputs)
    for a, b in zip(found, expected, strict=True):
        assert_near(a, b, torch.float64)


def test_second_derivatives_are_refused_by_name():
    case = Case("line")
    inputs = leaves(case)
    first, _ = contract(case.plan, inputs[0], case.positions, *inputs[1:])
    (grad,) = torch.autograd.grad(first.square().sum(), inputs[0], create_graph=True)
    with pytest.raises(NotImplementedError, match=r"reference\.contract"):
        grad.sum().backward()


def test_the_reference_has_second_derivatives():
    case = Case("full", rows=3)
    plan = case.plan
    inputs = leaves(case)
    assert torch.autograd.gradgradcheck(
        lambda v, m, s: reference.contract(v, case.positions, plan.tree, plan.intervals, m, s), inputs
    )


def test_empty_batch_and_one_input():
    case = Case("laplace-deep")
    for rows in (0, 1):
        values = case.values[:rows].clone().requires_grad_()
        mean = case.mean.clone().requires_grad_()
        first, second = contract(case.plan, values, case.positions[:rows], mean, case.variance)
        assert first.shape == second.shape == (rows, 3)
        (first.sum() + second.sum()).backward()
        assert values.grad.shape == values.shape
        assert mean.grad.any() == bool(rows)


def test_inputs_that_are_not_contiguous():
    case = Case("laplace-deep")
    expected = contract(case.plan, case.values, case.positions, case.mean, case.variance)
    transposed = [t.mT.contiguous().mT for t in (case.values, case.positions, case.mean, case.variance)]
    assert not transposed[0].is_contiguous()
    found = contract(case.plan, *transposed)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_hidden_draws_are_a_leading_dimension():
    case = Case("laplace-13d", rows=20)
    shape = (4, 5, case.plan.dim, case.plan.levels)
    found = contract(
        case.plan, case.values.reshape(shape), case.positions.reshape(shape), case.mean, case.variance
    )
    expected = contract(case.plan, case.values, case.positions, case.mean, case.variance)
    torch.testing.assert_close(found[1], expected[1].reshape(4, 5, 3), rtol=0, atol=0)


def test_rows_already_found_give_the_same():
    case = Case("nested")
    rows = reference.active_rows(case.positions, case.plan.tree).to(torch.int32)
    expected = contract(case.plan, case.values, case.positions, case.mean, case.variance)
    found = contract(case.plan, case.values, rows, case.mean, case.variance)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_positions_beyond_a_level_stay_inside_the_table():
    case = Case("laplace-deep")
    wild = torch.where(torch.rand(case.positions.shape) < 0.5, -(2**31), 2**31 - 1).to(torch.int32)
    first, _ = contract(case.plan, case.values, wild, case.mean)
    plan = case.plan
    expected, _ = reference.contract(case.values, wild, plan.tree, plan.intervals, case.mean, None)
    assert_near(first, expected, torch.float64)


def test_nan_reaches_the_outputs_of_its_own_input_only():
    case = Case("laplace-deep")
    case.values[5, 1, 2] = torch.nan
    first, _ = contract(case.plan, case.values, case.positions, case.mean)
    assert torch.isnan(first[5]).all()
    assert torch.isfinite(first[:5]).all()


@pytest.mark.parametrize("counts", [1, 2, 3])
def test_threads_give_the_same_and_repeat_exactly(counts, monkeypatch):
    case = Case("laplace-deep", rows=203, width=5)
    expected = reference.contract_backward(
        case.values, case.positions, case.plan.tree, case.plan.intervals, case.mean, case.variance,
        torch.ones(203, 5, dtype=torch.float64), torch.ones(203, 5, dtype=torch.float64),
    )  # fmt: skip
    monkeypatch.setattr(torch, "get_num_threads", lambda: counts)
    monkeypatch.setattr(contraction.threads, "shares", lambda n, _: SHARES(n, 1e9))
    runs = []
    for _ in range(2):
        inputs = leaves(case)
        first, second = contract(case.plan, inputs[0], case.positions, *inputs[1:])
        runs.append(torch.autograd.grad(first.sum() + second.sum(), inputs))
    for found, again, right in zip(*runs, expected, strict=True):
        assert torch.equal(found, again)
        assert_near(found, right, torch.float64)


@pytest.mark.parametrize(("count", "work"), [(0, 0.0), (1, 1e9), (1000, 1e3), (1000, 1e9), (4097, 1e9)])
def test_shares_cover_all_inputs_once(count, work):
    ranges = threads.shares(count, work)
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(count))
    assert len(ranges) <= max(1, torch.get_num_threads())


def test_errors_of_a_thread_reach_the_caller():
    def task(number, start, stop):
        if number:
            raise ValueError("in a thread")

    with pytest.raises(ValueError, match="in a thread"):
        threads.run(task, [(0, 1), (1, 2)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a | {"values": a["values"][:, :1]}, "values and positions"),
        (lambda a: a | {"positions": a["positions"][:, :, :1]}, "positions"),
        (lambda a: a | {"mean": a["mean"][1:]}, "weight tables"),
        (lambda a: a | {"variance": a["variance"][:, 1:]}, "weight tables"),
        (lambda a: a | {"values": a["values"].float()}, "dtypes"),
    ],
)
def test_what_does_not_belong_together_is_refused(change, message):
    case = Case("laplace-deep")
    arguments = {
        "values": case.values,
        "positions": case.positions,
        "mean": case.mean,
        "variance": case.variance,
    }
    with pytest.raises(InputError, match=message):
        contract(case.plan, **change(arguments))


def test_other_dtypes_take_the_reference():
    case = Case("line", torch.bfloat16)
    first, second = contract(case.plan, case.values, case.positions, case.mean, case.variance)
    assert first.dtype == second.dtype == torch.bfloat16


def test_the_kernels_are_cached_on_disk():
    assert all(kernel._cache is not None for kernel in (_jit.forward16, _jit.backward16))


@CUDA
@pytest.mark.parametrize("name", EXPANSIONS)
def test_gpu_equals_cpu(name):
    case = Case(name)
    inputs = leaves(case)
    moved = [t.detach().cuda().requires_grad_() for t in inputs]
    expected = contract(case.plan, inputs[0], case.positions, *inputs[1:])
    found = contract(case.plan, moved[0], case.positions.cuda(), *moved[1:])
    for a, b in zip(found, expected, strict=True):
        assert_near(a.cpu(), b, torch.float64)
    for a, b in zip(
        torch.autograd.grad(found, moved, found), torch.autograd.grad(expected, inputs, expected), strict=True
    ):
        assert_near(a.cpu(), b, torch.float64)
