"""Covariance functions: one-dimensional Markov kernels, their tensor products and additive sums.

Lives here: what a kernel is (values, covariances of the state, and the local form that the expansion uses).
May not live here: grids, features, torch.
"""

from dtmgp.kernels.additive import Additive
from dtmgp.kernels.base import AbstractLineKernel, Local
from dtmgp.kernels.brownian import Brownian, BrownianBridge
from dtmgp.kernels.laplace import Laplace
from dtmgp.kernels.markov import AbstractMarkov, Markov
from dtmgp.kernels.matern import AbstractMatern, Matern32, Matern52
from dtmgp.kernels.tensor import Tensor, as_tensor

__all__ = [
    "AbstractLineKernel",
    "AbstractMarkov",
    "AbstractMatern",
    "Additive",
    "Brownian",
    "BrownianBridge",
    "Laplace",
    "Local",
    "Markov",
    "Matern32",
    "Matern52",
    "Tensor",
    "as_tensor",
]
