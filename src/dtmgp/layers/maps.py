"""From the outputs of one layer to the grid coordinates of the next, whose points lie in (0, 1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError


class IdentityMap(nn.Module):
    """Inputs that are grid coordinates already: the first layer's.

    >>> IdentityMap(1)(torch.tensor([0.25]))
    tensor([0.2500])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, h: Tensor) -> Tensor:
        """``h``."""
        return h


class AffineMap(nn.Module):
    """``u = 1/2 + scale * h``, per coordinate; the scale is learned unless told otherwise.

    Units of about standard size cover the cube with ``scale = 1/4`` (two standard deviations to each side); beyond it
    the outer features go on, and so does the process.

    >>> AffineMap(1, learn=False)(torch.tensor([2.0]))
    tensor([1.])
    """

    def __init__(self, dim: int, *, scale: float = 0.25, learn: bool = True) -> None:
        super().__init__()
        if not scale > 0:
            raise InputError("AffineMap scale", got=repr(scale), expected="a positive number")
        self.dim = dim
        self.log_scale = nn.Parameter(torch.full((dim,), math.log(scale)), requires_grad=learn)

    def forward(self, h: Tensor) -> Tensor:
        """Grid coordinates (..., d)."""
        return 0.5 + self.log_scale.exp() * h


class NormalCdfMap(nn.Module):
    """``u = Phi(h / spread)``: always inside the cube; the spread is learned unless told otherwise.

    >>> NormalCdfMap(1, learn=False)(torch.tensor([0.0]))
    tensor([0.5000])
    """

    def __init__(self, dim: int, *, spread: float = 1.0, learn: bool = True) -> None:
        super().__init__()
        if not spread > 0:
            raise InputError("NormalCdfMap spread", got=repr(spread), expected="a positive number")
        self.dim = dim
        self.log_spread = nn.Parameter(torch.full((dim,), math.log(spread)), requires_grad=learn)

    def forward(self, h: Tensor) -> Tensor:
        """Grid coordinates (..., d)."""
        return torch.special.ndtr(h * (-self.log_spread).exp())
