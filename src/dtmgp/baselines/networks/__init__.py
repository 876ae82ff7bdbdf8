"""Networks with Gaussian weights for the baselines that are trained by variational inference; needs PyTorch.

Lives here: layers, random Fourier features, and what the two baselines share in ``fit`` and ``predict``.
May not live here: objectives and the training loop, which are those of `dtmgp.inference`.
"""

from dtmgp.baselines.networks.fourier import (
    AbstractFrequencies,
    FixedFrequencies,
    PriorFixed,
    VariationalFixed,
    VariationalResampled,
)
from dtmgp.baselines.networks.network import BayesianNetwork, Dense
from dtmgp.baselines.networks.regressor import AbstractNetworkRegressor, TrainingStep, constant_rate

__all__ = [
    "AbstractFrequencies",
    "AbstractNetworkRegressor",
    "BayesianNetwork",
    "Dense",
    "FixedFrequencies",
    "PriorFixed",
    "TrainingStep",
    "VariationalFixed",
    "VariationalResampled",
    "constant_rate",
]
