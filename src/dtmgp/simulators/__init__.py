"""Stochastic simulators and the designs to run them on: a leaf package, NumPy, SciPy and Numba only.

One simulator per file, each with ``bounds``, ``input_names`` and ``sample(X, n_replicates, random_state)``; those
whose law is known exactly also have ``cdf(X, y)``.
No models, no metrics and no plots live here; ``dtmgp.testing.check_simulator`` is the test every file passes.
"""

from dtmgp.simulators.activity_network import ActivityNetwork
from dtmgp.simulators.base import KnownLaw, Simulator
from dtmgp.simulators.brownian_field import BrownianField
from dtmgp.simulators.design import latin_hypercube, maximin_latin_hypercube
from dtmgp.simulators.epidemic import Epidemic
from dtmgp.simulators.mm1_queue import MM1Queue
from dtmgp.simulators.rotated_chairs import RotatedChairs
from dtmgp.simulators.two_branches import TwoBranches

__all__ = [
    "Simulator",
    "KnownLaw",
    "ActivityNetwork",
    "BrownianField",
    "Epidemic",
    "MM1Queue",
    "RotatedChairs",
    "TwoBranches",
    "latin_hypercube",
    "maximin_latin_hypercube",
]
