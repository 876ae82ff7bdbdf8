"""A fitted deep model inside BoTorch: function draws, conditioning, posteriors. A leaf; needs the extra `botorch`.

Lives here: `DTMGPModel` and what it is made of. May not live here: acquisition functions, which are BoTorch's.
"""

from dtmgp.botorch.functionals import MeanResponse, Negative, QuantileResponse
from dtmgp.botorch.model import DTMGPModel
from dtmgp.botorch.posterior import FunctionPosterior

__all__ = ["DTMGPModel", "FunctionPosterior", "MeanResponse", "QuantileResponse", "Negative"]
