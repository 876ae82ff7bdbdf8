"""Oracles: `LineExpansion.evaluate`, the eager formulas, finite differences; float32 against float64 by level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.library import opcheck

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid, paired_points
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor
from dtmgp.ops import LineFunctions
from dtmgp.ops.line import operator
from dtmgp.ops.line.kernels import LARGEST, LONG, _constants, matern_tables
from dtmgp.ops.line.tables import operator as tables_operator

KERNELS = {
    "laplace": Laplace(0.4),
    "laplace-short": Laplace(0.01),
    "brownian": Brownian(2.0),
    "bridge": BrownianBridge(),
    "markov": Markov(p=lambda x: 2 * np.sinh(x) + 0.1, q=lambda x: np.exp(-x), lengthscale=0.7),
    "matern32": Matern32(0.6),
    "matern52": Matern52(0.7),
    "mixed": Tensor([Laplace(0.3, variance=3.0), Matern32(0.5)], variance=1.7),
}
COMPILED = ["laplace", "laplace-short", "matern32", "matern52"]
GRIDS = {"dyadic": SparseGrid(2, 12), "nested": SparseGrid(2, 10, sequence=paired_points())}


def functions(kernel, grid):
    block = HierarchicalExpansion(KERNELS[kernel], GRIDS[grid]).blocks[0]
    return block, LineFunctions(block)


def inputs(kernel, rows=300):
    x = np.random.default_rng(1).uniform(size=(rows, 2)).astype(np.float32).astype(float)
    x[:3] = [[0.5, 0.25], [0.0, 1.0], [0.75, 0.125]]
    if kernel not in ("brownian", "bridge", "markov"):
        x[3:5] = [[-0.2, 1.3], [-3.0, 4.0]]  # defined outside the cube
    if kernel == "markov":
        x[1] = 0.25
    return x


def expected(block, x):
    values, positions = block.evaluate(x)
    values[:, 0] *= np.sqrt(block.kernel.variance)
    return values, positions


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("path", ["__call__", "eager"])
def test_values_and_positions_are_those_of_the_expansion(kernel, grid, path):
    if (kernel, grid) in [("bridge", "nested"), ("markov", "nested")]:
        pytest.skip("the kernel is degenerate on the boundary points of this sequence")
    block, function = functions(kernel, grid)
    x = inputs(kernel)
    values, positions = getattr(function, path)(torch.from_numpy(x))
    right, places = expected(block, x)
    factors = np.sqrt([k.variance for k in block.kernel.kernels])  # all of them are in coordinate 0 here
    right = right / factors[:, None]
    right[:, 0] *= factors.prod()
    np.testing.assert_array_equal(positions, places)
    np.testing.assert_allclose(values, right, rtol=0, atol=1e-12 * np.abs(right).max())


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_keeps_its_digits_at_every_level(kernel, grid):
    if (kernel, grid) in [("bridge", "nested"), ("markov", "nested")]:
        pytest.skip("the kernel is degenerate on the boundary points of this sequence")
    _, function = functions(kernel, grid)
    x = torch.from_numpy(inputs(kernel))
    right, places = function(x)
    values, positions = function(x.float())
    assert torch.equal(positions, places)
    peak = right.abs().amax(0, keepdim=True) + 1e-30
    # measured: 2e-7 for Laplace and the straight lines, 2e-6 for Matern
    limit = 1e-5
    assert float(((values - right).abs() / peak).max()) < limit


def away_from_points(rows):
    """Inputs in the middle third of a cell side of the deepest level."""
    cell = torch.randint(0, 2**6, (rows, 2), generator=torch.Generator().manual_seed(0))
    return (cell + 0.37) / 2**6


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_against_finite_differences(kernel):
    block = HierarchicalExpansion(KERNELS[kernel], SparseGrid(2, 5)).blocks[0]
    function = LineFunctions(block)
    x = away_from_points(8).double().requires_grad_()
    scales = torch.tensor([0.6, 0.9], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    # the derivative of a kernel given by p and q is itself a central difference: 1e-6 of its size
    assert torch.autograd.gradcheck(lambda *a: function(*a)[0], (x, scales, variance), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", COMPILED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_compiled_gradients_equal_the_eager_ones(kernel, grid, dtype):
    _, function = functions(kernel, grid)
    results = []
    for path in (function, function.eager):
        x = torch.from_numpy(inputs(kernel)).to(dtype).requires_grad_()
        scales = torch.tensor([0.3, 0.8], dtype=dtype, requires_grad=True)
        values, _ = path(x, scales)
        weights = torch.linspace(-1, 1, values.numel(), dtype=dtype).reshape(values.shape)
        results.append((values, *torch.autograd.grad(values, (x, scales), weights)))
    limit = 1e-12 if dtype == torch.float64 else 2e-4
    for found, right in zip(*results, strict=True):
        error = (found - right).detach().abs().max() / right.detach().abs().max()
        assert float(error) < limit


@pytest.mark.parametrize("top", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "kernel", [Laplace(0.4), Matern32(0.6), Matern52(0.7)], ids=["laplace", "m32", "m52"]
)
@pytest.mark.parametrize("rows", [7, 80])
def test_every_number_of_levels_and_incomplete_vectors(kernel, top, rows):
    block = HierarchicalExpansion(kernel, SparseGrid(5, top)).blocks[0]
    function = LineFunctions(block)
    x = torch.rand(rows, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    right, places = block.evaluate(x.numpy())
    results = []
    for path in (function, function.eager):
        leaves = [x.clone(), torch.linspace(0.3, 0.9, 5, dtype=torch.float64), torch.tensor(2.0).double()]
        values, positions = path(*(leaf.requires_grad_() for leaf in leaves))
        weights = torch.linspace(-1, 1, values.numel(), dtype=torch.float64).reshape(values.shape)
        results.append((values, *torch.autograd.grad(values, leaves, weights)))
        np.testing.assert_array_equal(positions, places)
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(function(x)[0], right, rtol=0, atol=1e-12)


def test_many_rows_keep_the_digits_of_the_summed_gradients():
    block = HierarchicalExpansion(Matern32(0.6), SparseGrid(3, 3)).blocks[0]
    function = LineFunctions(block)
    x = torch.rand(100_000, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for dtype in (torch.float32, torch.float64):
        scales = torch.tensor([0.3, 0.5, 0.9], dtype=dtype, requires_grad=True)
        variance = torch.tensor(1.0, dtype=dtype, requires_grad=True)
        total = function(x.to(dtype), scales, variance)[0].square().sum()
        found.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(total, (scales, variance))]))
    # measured: 2e-7; sums of 1e5 terms in float32 alone would lose three digits more
    torch.testing.assert_close(found[0].double(), found[1], rtol=3e-6, atol=0)


@pytest.mark.parametrize("kernel", ["laplace", "matern32"])
@pytest.mark.parametrize("grid", GRIDS)
def test_operator_contract(kernel, grid):
    _, function = functions(kernel, grid)
    (group,) = function.groups
    x = torch.rand(20, 2, dtype=torch.float64, requires_grad=True)
    _, _, table, kind, gaps, *_ = group.tables(x)
    scales = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    opcheck(tables_operator._line_tables, (gaps, scales, variance, group.order))
    rates, tables = tables_operator.rates_and_tables(gaps, scales.detach(), variance.detach(), group.order)
    arguments = (x, rates.requires_grad_(), tables.requires_grad_(), table, kind, group.increments)
    opcheck(operator._line, (*arguments, group.dyadic, group.top))


@pytest.mark.parametrize("kernel", COMPILED)
@pytest.mark.parametrize("grid", GRIDS)
def test_tables_and_their_gradients_equal_those_of_the_eager_formulas(kernel, grid):
    _, function = functions(kernel, grid)
    (group,) = function.groups
    *_, gaps = group.tables(torch.zeros(1, dtype=torch.float64))[:5]
    scales = torch.tensor([0.02, 0.5, 30.0], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    found = tables_operator.rates_and_tables(gaps, scales, variance, group.order)[1]
    if group.order == 0:
        shares = -torch.expm1(-2 * (gaps / scales[:, None, None]).clamp(max=LONG))
        both = -torch.expm1(-2 * (gaps / scales[:, None, None]).clamp(max=LONG).sum(-1, keepdim=True))
        right = (torch.sqrt(shares.prod(-1, keepdim=True) / both) / shares)[..., None, None]
    else:
        right = matern_tables(_constants(group.order), gaps, scales[:, None])
    right = torch.cat([right[:1] * torch.sqrt(variance), right[1:]])
    size = right.detach().abs().amax(-1, keepdim=True)  # rows differ by powers of the gap
    assert float(((found - right).detach().abs() / size).max()) < 1e-11
    weights = torch.linspace(-1, 1, found.numel(), dtype=torch.float64).reshape(found.shape) / size
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), (scales, variance)),
        torch.autograd.grad((right * weights).sum(), (scales, variance)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_second_derivatives_are_refused_by_name_and_eager_has_them():
    _, function = functions("matern52", "dyadic")
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(function(x)[0].sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="eager"):
        grad.sum().backward()
    (grad,) = torch.autograd.grad(function.eager(x)[0].sum(), x, create_graph=True)
    grad.sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own compiler
@pytest.mark.parametrize("kernel", ["laplace", "matern32"])
def test_compiles_without_graph_breaks(kernel):
    _, function = functions(kernel, "dyadic")
    x = torch.rand(7, 2, dtype=torch.float64)
    scales = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(lambda a, s: function(a, s)[0], fullgraph=True)
    torch.testing.assert_close(compiled(x, scales), function(x, scales)[0])


def test_empty_not_contiguous_and_leading_dimensions():
    _, function = functions("laplace", "dyadic")
    assert function(torch.zeros(0, 2))[0].shape == (0, 2, 12)
    x = torch.rand(2, 6).T
    assert not x.is_contiguous()
    torch.testing.assert_close(function(x)[0], function(x.contiguous())[0], rtol=0, atol=0)
    values, positions = function(x.reshape(3, 2, 2))
    assert values.shape == positions.shape == (3, 2, 2, 12)


def test_nan_has_a_position_and_a_nan_value():
    for kernel in ("laplace", "bridge", "matern32"):
        _, function = functions(kernel, "dyadic")
        values, positions = function(torch.tensor([[torch.nan, 0.3]]))
        assert torch.isnan(values[0, 0]).any()
        assert torch.isfinite(values[0, 1]).all()
        assert (positions >= 0).all()


def test_inputs_of_another_shape_are_refused():
    _, function = functions("laplace", "dyadic")
    with pytest.raises(InputError, match="line features"):
        function(torch.zeros(3, 5))
    with pytest.raises(InputError, match="line features"):
        function(torch.zeros(3, 2, dtype=torch.int64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("kernel", KERNELS)
def test_gpu_equals_cpu(kernel):
    _, function = functions(kernel, "dyadic")
    x = torch.from_numpy(inputs(kernel))
    torch.testing.assert_close(function(x.cuda())[0].cpu(), function(x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["laplace", "matern32", "matern52"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_lengthscale_that_has_left_every_scale_makes_nan(kernel, dtype):
    # training with a wild learning rate gets there; it must see a loss that is not finite, and no other error
    _, function = functions(kernel, "dyadic")
    x = torch.rand(5, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    for scale in (2 * LARGEST, np.inf, 0.5 / LARGEST, 1e-320, 0.0, -1.0, np.nan):
        scales = torch.tensor([scale, 0.5], dtype=dtype, requires_grad=True)
        values, _ = function(x, scales, 1.0)
        values.sum().backward()
        assert values[:, 0].isnan().all()
        assert values[:, 1].isfinite().all()
        assert scales.grad[0].isnan()
        try:
            values, _ = function.eager(x, scales, 1.0)
        except torch.linalg.LinAlgError:
            assert kernel != "laplace"
        else:
            assert values[:, 0].isnan().all()


@pytest.mark.parametrize("kernel", ["laplace", "matern32", "matern52"])
def test_the_longest_lengthscales_reach_the_limit(kernel):
    # the first function tends to 1, all others to 0
    _, function = functions(kernel, "dyadic")
    x = torch.rand(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for path in (function, function.eager):
        values, _ = path(x, torch.full((2,), 0.9 * LARGEST, dtype=torch.float64), 1.0)
        torch.testing.assert_close(values[..., 0], torch.ones_like(values[..., 0]), rtol=1e-15, atol=0)
        assert values[..., 1:].abs().max() < 1e-11
