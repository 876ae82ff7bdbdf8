"""Scores of predicted distributions, given as draws, as a Gaussian or as a cdf: a leaf package, NumPy only.

Draws are always on the last axis. Scores of single sites come back as arrays, averages over sites as floats.
Nothing here knows a model or a simulator.
"""

from dtmgp.metrics.coverage import coverage, interval_from_draws, pit, pit_against_cdf
from dtmgp.metrics.crps import crps, crps_gaussian, energy_score
from dtmgp.metrics.ks import average_ks, ks_against_cdf, ks_statistic
from dtmgp.metrics.point import gaussian_nlpd, rmse
from dtmgp.metrics.wasserstein import wasserstein

__all__ = [
    "ks_statistic",
    "average_ks",
    "ks_against_cdf",
    "crps",
    "crps_gaussian",
    "energy_score",
    "coverage",
    "interval_from_draws",
    "pit",
    "pit_against_cdf",
    "wasserstein",
    "rmse",
    "gaussian_nlpd",
]
