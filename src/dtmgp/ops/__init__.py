"""Torch operators: from inputs and weight tables to a layer's means and variances, touching active rows only.

Lives here: one-dimensional features, the contraction and its gradients, the choice between ways to compute it, and
optimiser steps for tables of millions of rows. May not live here: parameters, likelihoods, training loops.
"""

from dtmgp.ops.contraction import contract
from dtmgp.ops.dense import contract_dense
from dtmgp.ops.dispatch import contract_fast, path_for
from dtmgp.ops.lazy import NaturalTable
from dtmgp.ops.line import LineFunctions
from dtmgp.ops.plan import Plan, plans_of
from dtmgp.ops.quadratic.operator import contract_quadratic

__all__ = [
    "LineFunctions",
    "NaturalTable",
    "Plan",
    "contract",
    "contract_dense",
    "contract_fast",
    "contract_quadratic",
    "path_for",
    "plans_of",
]
