"""One-dimensional features as torch functions of inputs and hyperparameters.

Lives here: positions, the local forms of the kernels with gradients, their compiled version. Not: products, weights.
"""

from dtmgp.ops.line.functions import LineFunctions

__all__ = ["LineFunctions"]
