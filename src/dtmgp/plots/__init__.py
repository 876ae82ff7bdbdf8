"""Pictures of models, validations and analyses in matplotlib (extra ``plots``): functions that return axes.

Each draws into ``ax`` or into a new figure, labels its axes from the column names, and changes no global style.
"""

from dtmgp.plots.calibration import calibration_curve, parity, pit_histogram, qq
from dtmgp.plots.effects import interaction_map, main_effects, sobol_bars
from dtmgp.plots.predictive import predictive_bands, sample_gallery
from dtmgp.plots.regions import region_bars, region_map
from dtmgp.plots.training import loss_trace

__all__ = [
    "predictive_bands",
    "sample_gallery",
    "parity",
    "pit_histogram",
    "qq",
    "calibration_curve",
    "region_map",
    "region_bars",
    "loss_trace",
    "main_effects",
    "interaction_map",
    "sobol_bars",
]
