"""The exact one-layer model: Bayesian linear regression in the features, that is kriging with a TMGP.

Lives here: sufficient statistics of replicates, exact evidence and its gradient, posteriors (dense and iterative).
May not live here: scaling of user data, data frames, torch.
"""

from dtmgp.kriging.adaptive import Adaptive, Grown, fit_adaptive
from dtmgp.kriging.design import Design
from dtmgp.kriging.dual import DualEvidence
from dtmgp.kriging.evidence import Evidence, Hyperparameters
from dtmgp.kriging.gains import evidence_gains
from dtmgp.kriging.iterative import Effort, IterativePosterior, iterative_posterior
from dtmgp.kriging.model import Bounds, KrigingModel, Settings, fit
from dtmgp.kriging.posterior import DensePosterior
from dtmgp.kriging.replicates import Replicates, collapse

__all__ = [
    "Adaptive",
    "Bounds",
    "DensePosterior",
    "Design",
    "DualEvidence",
    "Effort",
    "Evidence",
    "Grown",
    "Hyperparameters",
    "IterativePosterior",
    "KrigingModel",
    "Replicates",
    "Settings",
    "collapse",
    "evidence_gains",
    "fit",
    "fit_adaptive",
    "iterative_posterior",
]
