"""Mean functions of a layer: what it computes before its weights say anything."""

from __future__ import annotations

import abc
import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError


class AbstractMean(nn.Module, abc.ABC):
    """``forward`` maps inputs (..., dim) to (..., width); ``kl`` is what learned parameters add to the bound."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim, self.width = dim, width

    @abc.abstractmethod
    def forward(self, h: Tensor) -> Tensor:
        """``m(h)``."""

    def kl(self) -> Tensor | float:
        """Nothing is learned."""
        return 0.0


class ZeroMean(AbstractMean):
    """``m(h) = 0``: the paper's layers.

    >>> ZeroMean(2, 3)(torch.ones(1, 2))
    tensor([[0., 0., 0.]])
    """

    def forward(self, h: Tensor) -> Tensor:
        """Zeros (..., W)."""
        return h.new_zeros(()).expand(*h.shape[:-1], self.width)


class IdentityMean(AbstractMean):
    """``m(h) = h``; wider layers repeat the inputs, narrower ones keep the first.

    >>> IdentityMean(2, 3)(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 1.]])
    """

    def forward(self, h: Tensor) -> Tensor:
        """(..., W) from (..., d)."""
        return h.repeat(*[1] * (h.ndim - 1), -(-self.width // self.dim))[..., : self.width]


class LinearMean(AbstractMean):
    """``m(h) = h A`` with a learned matrix (d, W), point-estimated under the prior ``A ~ N(start, prior_std^2)``.

    The start is ``matrix``, or 0: where the data say nothing the projections stay what they were. ``kl`` is minus
    the log prior density up to a constant, which is what a point estimate adds to the bound.

    >>> LinearMean(2, 1, matrix=[[1.0], [2.0]])(torch.tensor([[3.0, 4.0]])).tolist()
    [[11.0]]
    """

    start: Tensor
    prior_std: Tensor

    def __init__(
        self, dim: int, width: int, *, matrix: object = None, prior_std: float = 3.0, learn: bool = True
    ) -> None:
        super().__init__(dim, width)
        start = (
            torch.zeros(dim, width)
            if matrix is None
            else torch.as_tensor(matrix, dtype=torch.get_default_dtype())
        )
        if start.shape != (dim, width):
            raise InputError(
                "LinearMean", got=f"a matrix of shape {tuple(start.shape)}", expected=f"({dim}, {width})"
            )
        if not 0 < prior_std < math.inf:
            raise InputError("LinearMean prior_std", got=repr(prior_std), expected="a positive number")
        self.matrix = nn.Parameter(start.clone(), requires_grad=learn)
        self.register_buffer("start", start.clone())
        self.register_buffer("prior_std", torch.tensor(float(prior_std), dtype=start.dtype))

    def forward(self, h: Tensor) -> Tensor:
        """(..., W) from (..., d)."""
        return h @ self.matrix

    def kl(self) -> Tensor | float:
        """``|A - start|^2 / (2 prior_std^2)``; 0 for a fixed matrix."""
        if not self.matrix.requires_grad:
            return 0.0
        return 0.5 * ((self.matrix - self.start) / self.prior_std).square().sum()
