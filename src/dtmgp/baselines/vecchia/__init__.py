"""Deep Gaussian processes by MCMC under Vecchia's approximation (Sauer, Cooper and Gramacy 2022).

Kernels, then orderings and neighbours, then factors over conditioning sets, likelihoods, samplers, the chain, the
predictions, the estimator; a file imports only files before it. Compiled loops are in ``_jit``. No torch here.
"""

from dtmgp.baselines.vecchia.chain import Priors
from dtmgp.baselines.vecchia.estimator import VecchiaDGP
from dtmgp.baselines.vecchia.kernels import Covariance
from dtmgp.baselines.vecchia.samplers import GammaPrior

__all__ = ["Covariance", "GammaPrior", "Priors", "VecchiaDGP"]
