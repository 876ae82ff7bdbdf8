"""Bar 1: forward and backward of mean and variance against dense features and a GEMM in torch, from the inputs on.

Three dense sides. *products*: every 1-D function once, features as products of gathered columns (the best dense way
we could write). *closed form*: the local form of every coordinate at all m features. *k R^-1*: the dense covariance
times the dense inverse factor, as the authors' scripts do (up to m = 2,000). Large m: smaller batches, scaled.
"""

# ruff: noqa: B023 - the closures of a case are called before the next case begins

from __future__ import annotations

import numpy as np
import torch
from fused_common import Layer, medians, save, sparse_layer
from torch import Tensor

from dtmgp.ops import contract_dense, contract_fast, path_for
from dtmgp.ops.contraction import contract

CASES = [(13, 3, 10, 1000), (2, 8, 8, 1000), (3, 10, 4, 20), (100, 2, 256, 1000), (512, 2, 4096, 1000)]


class DenseFeatures:
    """Dense features of a Laplace expansion in torch."""

    def __init__(self, layer: Layer) -> None:
        block = layer.expansion.blocks[0]
        line = block.lines[0]
        self.ends = [
            end.float() for end in layer.line.groups[0].table
        ]  # left, centre, right; 1e30 is infinite
        self.lengthscale = float(block.kernel.lengthscales[0])
        number, local = block.layout.addresses(np.arange(block.size))
        levels = block.grid.indices.levels[number]
        functions = line.start[levels - 1] + local  # (m, d): which 1-D function each coordinate has
        self.functions = torch.from_numpy(functions)
        most = max(1, block.layout.most_raised)
        columns = np.full((block.size, most), block.grid.dim * line.size)  # a column of ones
        for k in range(most):
            filled = (functions > 0).sum(1) > k
            raised = np.argsort(functions == 0, axis=1, kind="stable")[:, k]
            columns[filled, k] = raised[filled] * line.size + functions[filled, raised[filled]]
        self.columns = torch.from_numpy(columns)

    def local_form(self, x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Values of the hat with ends a, c and centre b at x."""
        scale = self.lengthscale
        before, after = torch.expm1(-2 * (b - a) / scale), torch.expm1(-2 * (c - b) / scale)
        peak = torch.sqrt(-before * after / torch.expm1(-2 * (c - a) / scale))
        rising = x <= b
        outer = torch.where(rising, x - a, c - x).clamp(min=0)
        ratio = torch.expm1(-2 * outer / scale) / torch.where(rising, before, after)
        return peak * torch.exp(-(x - b).abs() / scale) * ratio

    def products(self, x: Tensor) -> Tensor:
        """Root times ratios, gathered."""
        line = self.local_form(x.unsqueeze(-1), *self.ends)
        ratio = (line / line[..., :1]).flatten(1)
        ratio = torch.cat([ratio, ratio.new_ones(len(x), 1)], dim=1)
        phi = line[..., 0].prod(1, keepdim=True)
        for k in range(self.columns.shape[1]):
            phi = phi * ratio.index_select(1, self.columns[:, k])
        return phi

    def closed_form(self, x: Tensor) -> Tensor:
        """The product over coordinates at every feature."""
        phi = x.new_ones(len(x), len(self.functions))
        for j in range(x.shape[1]):
            phi = phi * self.local_form(x[:, j : j + 1], *(e[self.functions[:, j]] for e in self.ends))
        return phi


def main(cases: list[tuple[int, int, int, int]] = CASES, batch: int = 1000, repeats: int = 9) -> None:
    torch.set_num_threads(1)
    rows = []
    for dim, level, width, few in cases:
        layer = sparse_layer(dim, level, width, batch)
        plan, dense = layer.plan, DenseFeatures(layer)
        x, mean, variance = layer.leaves(layer.x, layer.mean, layer.variance)

        def backward(
            outputs: tuple[Tensor, Tensor], size: int = batch, leaves: tuple = (x, mean, variance)
        ) -> None:
            torch.autograd.grad(outputs, leaves, tuple(g[:size] for g in layer.grads))

        def by_features(features, size, mean=mean, variance=variance):
            phi = features(x[:size])
            backward((phi @ mean, phi.square() @ variance), size)

        tasks = {
            "fused": lambda: backward(contract_fast(plan, *layer.line(x), mean, variance)),
            "sparse path": lambda: backward(contract(plan, *layer.line(x), mean, variance)),
            "dense path": lambda: backward(contract_dense(plan, *layer.line(x), mean, variance)),
            "products": lambda: by_features(dense.products, few),
            "closed form": lambda: by_features(dense.closed_form, few if level > 2 else min(few, 50)),
        }
        sizes = {"products": few, "closed form": few if level > 2 else min(few, 50)}
        if plan.size * batch > 2e7:
            tasks.pop("dense path")
        if plan.size <= 2000:
            points = torch.tensor(layer.expansion.grid.points, dtype=torch.float32)
            factor = torch.tensor(layer.expansion.inverse_cholesky().toarray(), dtype=torch.float32)
            tasks["k R^-1"] = lambda: by_features(
                lambda u: torch.exp(-torch.cdist(u, points, p=1) / dim) @ factor, few
            )
            sizes["k R^-1"] = few
        few_repeats = repeats if width < 1000 else 3
        with torch.no_grad():
            phi = dense.products(layer.x[:5])
            found = contract(plan, *layer.line(layer.x[:5]), layer.mean)[0]
            assert torch.allclose(found, phi @ layer.mean, atol=1e-3 * float(found.abs().max()))
        times = medians(tasks, few_repeats)
        micro = {name: seconds / sizes.get(name, batch) * 1e6 for name, seconds in times.items()}
        row: dict[str, object] = {"d": dim, "l": level, "W": width, "m": plan.size, "T": plan.active}
        row["path"] = path_for(plan, batch, width).__name__
        row["dense batch"] = few
        for name in ("fused", "sparse path", "dense path", "products", "closed form", "k R^-1"):
            row[f"{name} us"] = micro.get(name)
        for name in ("products", "closed form", "k R^-1"):
            row[f"{name} / fused"] = micro[name] / micro["fused"] if name in micro else None
        best = min(micro["sparse path"], micro.get("dense path", np.inf))
        row["fused / best path"] = micro["fused"] / best
        rows.append(row)
    save("fused_dense", rows)


if __name__ == "__main__":
    main()
