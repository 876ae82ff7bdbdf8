"""From processes to outputs: the law of y given the last layer, and monotone warps of y.

Lives here: likelihoods, their components, output warps. May not live here: layers, objectives, data handling.
"""

from dtmgp.likelihoods.base import AbstractLikelihood
from dtmgp.likelihoods.classes import Bernoulli, Categorical
from dtmgp.likelihoods.components import (
    AbstractComponents,
    BernoulliComponents,
    CategoricalComponents,
    NegativeBinomialComponents,
    NormalComponents,
    PoissonComponents,
    StudentTComponents,
)
from dtmgp.likelihoods.counts import NegativeBinomial, Poisson
from dtmgp.likelihoods.gaussian import GaussianLikelihood, HeteroscedasticGaussian
from dtmgp.likelihoods.mixture import MixtureOfNormals
from dtmgp.likelihoods.mixture_components import NormalMixtureComponents
from dtmgp.likelihoods.pooled import PooledNormals
from dtmgp.likelihoods.student import StudentT
from dtmgp.likelihoods.warps import (
    AbstractWarp,
    BoxCox,
    Chain,
    IdentityWarp,
    Logit,
    QuantileWarp,
    Standardise,
    YeoJohnson,
)

__all__ = [
    "AbstractComponents",
    "AbstractLikelihood",
    "AbstractWarp",
    "Bernoulli",
    "BernoulliComponents",
    "BoxCox",
    "Categorical",
    "CategoricalComponents",
    "Chain",
    "GaussianLikelihood",
    "HeteroscedasticGaussian",
    "IdentityWarp",
    "Logit",
    "MixtureOfNormals",
    "NegativeBinomial",
    "NegativeBinomialComponents",
    "NormalComponents",
    "NormalMixtureComponents",
    "Poisson",
    "PoissonComponents",
    "PooledNormals",
    "QuantileWarp",
    "Standardise",
    "StudentT",
    "StudentTComponents",
    "YeoJohnson",
]
