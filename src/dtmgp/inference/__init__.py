"""How a model learns: objectives as functions of (model, batch), grouped data, one training loop, checkpoints.

Lives here: everything that changes parameters. May not live here: scaling of user data, estimators.
"""

from dtmgp.inference.data import Batch, Runs, RunSource
from dtmgp.inference.objectives import ELBO, AbstractObjective, Energy, Loss, Predictive

__all__ = ["ELBO", "AbstractObjective", "Batch", "Energy", "Loss", "Predictive", "RunSource", "Runs"]
