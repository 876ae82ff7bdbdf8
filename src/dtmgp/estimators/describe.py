"""Kernels and grids as plain JSON and back: the part of a model file that says what its arrays mean."""

from __future__ import annotations

import dataclasses
from typing import Any

from dtmgp.errors import InputError
from dtmgp.grids import AbstractGrid, AbstractSequence, Dyadic, FullGrid, LowerSet, Nested, SparseGrid
from dtmgp.kernels import (
    AbstractLineKernel,
    Additive,
    Brownian,
    BrownianBridge,
    Laplace,
    Matern32,
    Matern52,
    Tensor,
)

KERNELS = {kind.__name__: kind for kind in (Laplace, Brownian, BrownianBridge, Matern32, Matern52)}


def describe_kernel(kernel: AbstractLineKernel | Tensor | Additive) -> dict[str, Any]:
    """A JSON description; kernels made of Python functions have none."""
    if isinstance(kernel, Additive):
        terms = [[list(subset), describe_kernel(term)] for subset, term in kernel.terms]
        return {"type": "Additive", "terms": terms, "dim": kernel.dim}
    if isinstance(kernel, Tensor):
        return {
            "type": "Tensor",
            "kernels": [describe_kernel(k) for k in kernel.kernels],
            "variance": kernel.variance,
        }
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise InputError(
            "save",
            got=f"a {name} kernel, which is made of Python code",
            expected=f"one of {', '.join(KERNELS)} and their products and sums",
            cause="model files hold numbers only, so that reading one never runs code",
            do="save predictions instead, or keep the script that fits the model",
        )
    return {"type": name, **dataclasses.asdict(kernel)}


def kernel_from(description: dict[str, Any]) -> AbstractLineKernel | Tensor | Additive:
    """The kernel of a description."""
    values = dict(description)
    name = values.pop("type")
    if name == "Additive":
        return Additive([(subset, _factor(term)) for subset, term in values["terms"]], dim=values["dim"])
    if name == "Tensor":
        return Tensor([kernel_from(k) for k in values["kernels"]], variance=values["variance"])  # type: ignore[misc]
    if name not in KERNELS:
        raise InputError("model file", got=f"a kernel {name!r}", expected=f"one of {', '.join(KERNELS)}")
    return KERNELS[name](**values)


def _factor(description: dict[str, Any]) -> AbstractLineKernel | Tensor:
    kernel = kernel_from(description)
    if isinstance(kernel, Additive):
        raise InputError("model file", got="an additive kernel inside another", expected="tensor kernels")
    return kernel


def describe_grid(grid: AbstractGrid) -> dict[str, Any]:
    """A JSON description of a grid."""
    common = {"type": type(grid).__name__, "sequence": _describe_sequence(grid.sequence)}
    if isinstance(grid, SparseGrid):
        return {**common, "dim": grid.dim, "level": grid.level}
    if isinstance(grid, FullGrid):
        return {**common, "levels": list(grid.levels)}
    return {**common, "type": "LowerSet", "multi_indices": grid.multi_indices.tolist()}


def grid_from(description: dict[str, Any]) -> AbstractGrid:
    """The grid of a description."""
    sequence: AbstractSequence = (
        Dyadic() if description["sequence"] is None else Nested(description["sequence"])
    )
    if description["type"] == "SparseGrid":
        return SparseGrid(description["dim"], description["level"], sequence=sequence)
    if description["type"] == "FullGrid":
        return FullGrid(description["levels"], sequence=sequence)
    return LowerSet(description["multi_indices"], sequence=sequence)


def _describe_sequence(sequence: AbstractSequence) -> list[list[float]] | None:
    if isinstance(sequence, Dyadic):
        return None
    return [sequence.increment(k).tolist() for k in range(1, sequence.max_level + 1)]
