"""Layers in a row and a likelihood at their end, and the law of the output that they define.

Lives here: `DTMGP`, its noise, frozen draws, the predictive mixture. May not live here: objectives, training, data.
"""

from dtmgp.model.architecture import deep_model
from dtmgp.model.dtmgp import DTMGP, FrozenModel
from dtmgp.model.mixture import Mixture
from dtmgp.model.noise import ModelNoise
from dtmgp.model.protocol import TrainableModel

__all__ = ["DTMGP", "FrozenModel", "Mixture", "ModelNoise", "TrainableModel", "deep_model"]
