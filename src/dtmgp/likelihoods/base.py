"""What a likelihood is: process outputs to the law of y, and its expectation under Gaussian process outputs."""

from __future__ import annotations

import abc
import math
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import Gaussian
from dtmgp.likelihoods.components import AbstractComponents
from dtmgp.likelihoods.warps import AbstractWarp, IdentityWarp

NODES = 20  # of Gauss-Hermite rules: exact for polynomials of degree 39


@cache
def hermite(nodes: int = NODES) -> tuple[Tensor, Tensor]:
    """Nodes and weights of ``E g(N(0, 1)) = sum_k w_k g(t_k)``, float64."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return torch.from_numpy(points), torch.from_numpy(weights / math.sqrt(2 * math.pi))


class AbstractLikelihood(nn.Module, abc.ABC):
    """``p(y | f)`` for ``width`` process outputs f and ``outputs`` columns of y; ``z = warp(y)`` follows the law.

    ``noise_width`` columns of standard normal noise are asked of the caller, for what has no closed form given f's law.
    """

    def __init__(self, outputs: int, width: int, noise_width: int, warp: AbstractWarp | None) -> None:
        super().__init__()
        if outputs < 1:
            raise InputError(f"{type(self).__name__} outputs", got=repr(outputs), expected="at least 1")
        self.outputs, self.width, self.noise_width = outputs, width, noise_width
        self.warp: AbstractWarp = IdentityWarp() if warp is None else warp

    @abc.abstractmethod
    def forward(self, f: Gaussian, noise: Tensor) -> AbstractComponents:
        """Law of z given the law of f (..., width) and standard normal noise (..., noise_width)."""

    @abc.abstractmethod
    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """``E log p(z | f)`` (..., n, W) under f's law: the data term of the ELBO."""

    def check_targets(self, y: np.ndarray) -> None:
        """Refuse values of y that have no density: here, those outside the domain of the warp."""
        buffers = [*self.warp.parameters(), *self.warp.buffers()]
        with torch.no_grad():
            values = torch.tensor(y, dtype=torch.float64, device=buffers[0].device if buffers else None)
            bad = ~(torch.isfinite(self.warp(values)) & torch.isfinite(self.warp.log_derivative(values)))
        if bool(bad.any()):
            raise InputError(
                f"y for {type(self).__name__}",
                got=f"{values[bad][0].item()!r}",
                expected=f"finite numbers inside the domain of {type(self.warp).__name__}",
                cause="a warp that needs positive outputs" if bool(torch.isfinite(values).all()) else "",
                do="shift the outputs, or use YeoJohnson, which takes all numbers",
            )

    def hermite_nodes(self, f: Gaussian) -> tuple[Tensor, Tensor]:
        """Values (K, ..., W) of f at Gauss-Hermite nodes, and their weights (K, 1, ..)."""
        points, weights = hermite()
        shape = (-1, *[1] * f.mean.ndim)
        return f.mean + f.std * points.to(f.mean).reshape(shape), weights.to(f.mean).reshape(shape)


def check_counts(name: str, y: np.ndarray) -> None:
    """Non-negative whole numbers, or an error that shows the first other value."""
    bad = ~((y >= 0) & (y == np.floor(y)) & np.isfinite(y))
    if bad.any():
        raise InputError(
            f"y for {name}",
            got=f"{y[bad].flat[0]!r}",
            expected="counts 0, 1, 2, ...",
            do="use a Gaussian likelihood with a warp for continuous outputs",
        )
