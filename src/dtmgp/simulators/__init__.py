"""Stochastic simulators and the designs to run them on: a leaf package, NumPy and SciPy only.

One simulator per file, each with ``bounds``, ``input_names`` and ``sample(X, n_replicates, random_state)``.
No models, no metrics and no plots live here; ``dtmgp.testing.check_simulator`` is the test every file passes.
"""

from dtmgp.simulators.activity_network import ActivityNetwork
from dtmgp.simulators.base import Simulator
from dtmgp.simulators.design import latin_hypercube, maximin_latin_hypercube

__all__ = ["Simulator", "ActivityNetwork", "latin_hypercube", "maximin_latin_hypercube"]
