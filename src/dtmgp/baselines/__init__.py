"""Models to compare with, one per file, all with ``fit``, ``predict`` and ``sample_y``: a leaf package.

The trivial ones here are the bar that any model must pass; they belong in every table of results.
Nothing in the library imports a baseline, and a baseline imports no other.
"""

from dtmgp.baselines.base import Baseline
from dtmgp.baselines.input_ignoring_kde import InputIgnoringKDE, scott_bandwidth, silverman_bandwidth
from dtmgp.baselines.quadratic_bootstrap import QuadraticBootstrap

__all__ = ["Baseline", "QuadraticBootstrap", "InputIgnoringKDE", "silverman_bandwidth", "scott_bandwidth"]
