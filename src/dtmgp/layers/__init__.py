"""Torch modules that own parameters: weights, mean functions, maps to the cube, and one layer made of them.

Lives here: what one layer is. May not live here: likelihoods, stacks of layers, objectives, training loops.
"""

from dtmgp.layers.gaussian import Gaussian
from dtmgp.layers.induced import InducedFeatures
from dtmgp.layers.layer import ExpansionLayer, FrozenLayer
from dtmgp.layers.maps import AffineMap, IdentityMap, NormalCdfMap
from dtmgp.layers.means import AbstractMean, IdentityMean, LinearMean, ZeroMean
from dtmgp.layers.weights import GaussianWeights

__all__ = [
    "AbstractMean",
    "AffineMap",
    "ExpansionLayer",
    "FrozenLayer",
    "Gaussian",
    "GaussianWeights",
    "IdentityMap",
    "IdentityMean",
    "InducedFeatures",
    "LinearMean",
    "NormalCdfMap",
    "ZeroMean",
]
