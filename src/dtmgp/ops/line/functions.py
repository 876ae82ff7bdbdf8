"""Values and positions of the active one-dimensional functions, as differentiable torch functions of the inputs.

What `LineExpansion.evaluate` computes in NumPy: here for tensors of any device and floating dtype, with gradients in
inputs, lengthscales and variance. Positions are piecewise constant and carry no gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.expansion.block import TensorBlock
from dtmgp.grids import AbstractSequence, Dyadic
from dtmgp.kernels import AbstractLineKernel
from dtmgp.ops.line.kernels import FAR, Insertion, family_of, features_of, order_of
from dtmgp.ops.line.operator import fused_line
from dtmgp.ops.line.tables.operator import rates_and_tables


class LineGroup:
    """Coordinates with kernels of one family and equal levels: evaluated in one pass."""

    def __init__(
        self, kernel: AbstractLineKernel, sequence: AbstractSequence, top: int, members: list[int]
    ) -> None:
        self.kernel = kernel
        self.sequence = sequence
        self.top = top
        self.members = torch.tensor(members)
        self.features = features_of(kernel)
        self.order = order_of(kernel)
        increments = range(1, -(-top // kernel.state_size) + 1)
        self.counts = torch.tensor([sequence.count(k) for k in increments])
        self.starts = torch.tensor([sequence.start(k) for k in increments])
        self.increments = torch.stack([self.starts, self.counts])
        points = sequence.points(len(increments))
        near = [sequence.neighbours(k) for k in increments]
        left = np.concatenate([pair.left for pair in near])
        right = np.concatenate([pair.right for pair in near])
        a = np.where(left >= 0, points[left], -FAR)
        c = np.where(right >= 0, points[right], FAR)
        gaps = np.minimum(np.stack([points - a, c - points], axis=1), FAR / 2)
        distinct, kind = np.unique(gaps, axis=0, return_inverse=True)
        self.table = torch.from_numpy(np.stack([a, points, c]))
        self.gaps = torch.from_numpy(distinct)
        self.kind = torch.from_numpy(kind.reshape(-1))
        self.dyadic = isinstance(sequence, Dyadic)
        self.ends = (
            [] if self.dyadic else [self.table[2][s : s + n] for s, n in zip(self.starts, self.counts)]
        )
        self._unit = torch.ones((), dtype=torch.float64)
        self._last: tuple[tuple[object, ...], Tensor, Tensor] | None = None
        self._moved: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def __reduce__(self) -> tuple[type[LineGroup], tuple[object, ...]]:
        """Copies and pickles are made anew: the torch functions of a kernel are closures, the tables follow."""
        return type(self), (self.kernel, self.sequence, self.top, self.members.tolist())

    def tables(self, like: Tensor) -> tuple[Tensor, ...]:
        """Counts, starts, points and classes on the device and in the dtype of the inputs; kept."""
        key = (like.device, like.dtype)
        if key not in self._moved:
            self._moved[key] = (
                self.counts.to(like.device),
                self.starts.to(like.device),
                self.table.to(like),
                self.kind.to(like.device),
                self.gaps.to(like.device),
                *(end.to(like) for end in self.ends),
            )
        return self._moved[key]

    def locate(self, x: Tensor) -> Tensor:
        """Index (N, J, K) of the active point in every increment; 0 for NaN."""
        counts, _, _, _, _, *ends = self.tables(x)
        if self.dyadic:
            cell = x.nan_to_num(0.0).clamp(0.0, 1.0).unsqueeze(-1) * counts
            return torch.minimum(cell.long(), counts - 1)
        found = [torch.searchsorted(end, x.contiguous()).clamp(max=len(end) - 1) for end in ends]
        return torch.stack(found, dim=-1)

    def fused(self, x: Tensor, lengthscale: Tensor, variance: Tensor | None) -> tuple[Tensor, Tensor]:
        """``eager`` by the compiled operator where there is one: Laplace and Matern kernels on the CPU."""
        if self.order is None or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
            return self.eager(x, lengthscale, variance)
        _, _, table, kind, gaps, *_ = self.tables(x)
        rates, tables = self._prepared(gaps, lengthscale, self._unit if variance is None else variance)
        return fused_line(x, rates, tables, table, kind, self.increments, self.dyadic, self.top)

    def _prepared(self, gaps: Tensor, lengthscale: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Rates and tables; those of the last constant hyperparameters are kept."""
        assert self.order is not None
        if lengthscale.requires_grad or variance.requires_grad or torch.compiler.is_compiling():
            return rates_and_tables(gaps, lengthscale, variance, self.order)
        key = (lengthscale.dtype, float(variance), *lengthscale.tolist())
        if self._last is None or self._last[0] != key:
            self._last = key, *rates_and_tables(gaps, lengthscale, variance, self.order)
        return self._last[1:]

    def eager(self, x: Tensor, lengthscale: Tensor, variance: Tensor | None) -> tuple[Tensor, Tensor]:
        """Values and positions (N, J, top) for inputs (N, J) and lengthscales (J,), in plain torch.

        The variance, if it is not 1, is that of coordinate 0.
        """
        _, starts, table, kind, gaps, *_ = self.tables(x)
        place = self.locate(x)
        number = starts + place
        a, b, c = (row[number] for row in table)
        at = Insertion(a, b, c, kind[number], gaps)
        values = self.features(x.unsqueeze(-1), at, lengthscale.unsqueeze(-1)).flatten(-2)
        places = place.to(torch.int32).repeat_interleave(self.kernel.state_size, dim=-1)
        if variance is not None:
            first = torch.cat([torch.sqrt(variance).reshape(1), x.new_ones(x.shape[1] - 1)])
            values = values * first[:, None]
        return values[..., : self.top], places[..., : self.top]


Evaluate = Callable[[LineGroup, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


class LineFunctions:
    """The one-dimensional functions of a tensor block: a function of inputs and hyperparameters, without parameters.

    ``lengthscale`` (d,) and ``variance`` (of the whole tensor product) default to those of the block's kernel;
    kernels without a lengthscale ignore theirs.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import BrownianBridge
    >>> block = HierarchicalExpansion(BrownianBridge(), SparseGrid(1, 3)).blocks[0]
    >>> LineFunctions(block)(torch.tensor([[0.25]]))
    (tensor([[[0.2500, 0.3536, 0.0000]]]), tensor([[[0, 0, 1]]], dtype=torch.int32))
    """

    def __init__(self, block: TensorBlock) -> None:
        self.dim = block.grid.dim
        self.levels = max(line.top for line in block.lines)
        kernels = block.kernel.kernels
        members: dict[tuple[object, ...], list[int]] = {}
        for j, kernel in enumerate(kernels):
            members.setdefault((*family_of(kernel), block.line(j).top), []).append(j)
        self.groups = [
            LineGroup(kernels[group[0]], block.grid.sequence, block.line(group[0]).top, group)
            for group in members.values()
        ]
        scales = [float(getattr(kernel, "lengthscale", 1.0)) for kernel in kernels]
        self.lengthscale = torch.tensor(scales, dtype=torch.float64)
        self.variance = block.kernel.variance
        # the variances of the factors multiply whatever variance the tensor has
        self.factor = float(np.prod([getattr(kernel, "variance", 1.0) for kernel in kernels]))

    def __repr__(self) -> str:
        names = "/".join(type(group.kernel).__name__ for group in self.groups)
        return f"LineFunctions({names}, dim={self.dim}, levels={self.levels})"

    def __call__(
        self, x: Tensor, lengthscale: Tensor | None = None, variance: Tensor | float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Values and positions (..., d, L) of inputs (..., d); positions are int32."""
        return self._evaluate(LineGroup.fused, x, lengthscale, variance)

    def eager(
        self, x: Tensor, lengthscale: Tensor | None = None, variance: Tensor | float | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same in plain torch, differentiable more than once; the reference of the compiled operator."""
        return self._evaluate(LineGroup.eager, x, lengthscale, variance)

    def _evaluate(
        self, evaluate: Evaluate, x: Tensor, lengthscale: Tensor | None, variance: Tensor | float | None
    ) -> tuple[Tensor, Tensor]:
        if x.shape[-1:] != (self.dim,) or not x.is_floating_point():
            raise InputError(
                "line features",
                got=f"inputs of shape {tuple(x.shape)}, dtype {x.dtype}",
                expected=f"floating inputs (..., {self.dim})",
                do="pick the block's coordinates first",
            )
        lead = x.shape[:-1]
        flat = x.reshape(-1, self.dim)
        scales = (self.lengthscale if lengthscale is None else lengthscale).to(flat).expand(self.dim)
        given = self.variance if variance is None else variance
        total: Tensor | None = None
        if variance is not None or float(self.variance * self.factor) != 1.0:
            total = torch.as_tensor(given, dtype=flat.dtype, device=flat.device) * self.factor
        if len(self.groups) == 1:
            values, places = evaluate(self.groups[0], flat, scales, total)
        else:
            values = flat.new_zeros(*flat.shape, self.levels)
            places = torch.zeros(values.shape, dtype=torch.int32, device=x.device)
            for number, group in enumerate(self.groups):  # coordinate 0 is the first of the first group
                members = group.members.to(x.device)
                share = None if number else total
                found, where = evaluate(group, flat.index_select(1, members), scales[members], share)
                padding = (0, self.levels - group.top)
                values = values.index_copy(1, members, torch.nn.functional.pad(found, padding))
                places = places.index_copy(1, members, torch.nn.functional.pad(where, padding))
        return values.reshape(*lead, self.dim, self.levels), places.reshape(*lead, self.dim, self.levels)
