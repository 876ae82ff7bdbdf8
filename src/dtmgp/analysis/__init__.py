"""What a fitted model says about its inputs: effects, sensitivities, gradients, optima, calibration. A leaf package.

Everything here works on any model with the methods of :class:`dtmgp.analysis.base.Emulator`, by calling them: no module
may look inside a model. Pictures are in `dtmgp.plots`, the HTML page in `dtmgp.report`.
"""

from dtmgp.analysis.base import (
    Box,
    Emulator,
    Functional,
    Mean,
    Quantile,
    StandardDeviation,
    TailProbability,
    Variance,
)
from dtmgp.analysis.calibration import Calibration, calibrate
from dtmgp.analysis.conformal import ConformalIntervals, conformal_intervals
from dtmgp.analysis.effects import Interactions, MainEffects, interactions, main_effects
from dtmgp.analysis.gradients import moment_gradients
from dtmgp.analysis.labels import axis_label, split_unit
from dtmgp.analysis.mcmc import effective_sample_size, split_rhat, stretch_sampler
from dtmgp.analysis.optimum import Optimum, optimal_input
from dtmgp.analysis.regions import crps_by_bin, ks_by_input
from dtmgp.analysis.sobol import SobolIndices, sobol_indices, sobol_of_function
from dtmgp.analysis.validation import Validation, validate

__all__ = [
    "Emulator",
    "Box",
    "Functional",
    "Mean",
    "StandardDeviation",
    "Variance",
    "Quantile",
    "TailProbability",
    "MainEffects",
    "main_effects",
    "Interactions",
    "interactions",
    "SobolIndices",
    "sobol_indices",
    "sobol_of_function",
    "moment_gradients",
    "Optimum",
    "optimal_input",
    "Calibration",
    "calibrate",
    "ConformalIntervals",
    "conformal_intervals",
    "stretch_sampler",
    "split_rhat",
    "effective_sample_size",
    "Validation",
    "validate",
    "crps_by_bin",
    "ks_by_input",
    "axis_label",
    "split_unit",
]
