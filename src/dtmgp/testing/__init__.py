"""Interface checks for objects that follow the library's protocols, for third parties as for our own tests.

Each check raises ``AssertionError`` with a sentence that says what was expected.

>>> from dtmgp.simulators import ActivityNetwork
>>> check_simulator(ActivityNetwork(arcs=[(1, 2), (2, 3)]))
>>> from dtmgp.kernels import Laplace
>>> check_kernel(Laplace(lengthscale=0.5))
"""

from dtmgp.testing._require import require, require_error, same_bytes
from dtmgp.testing.baselines import check_baseline
from dtmgp.testing.expansion import check_expansion
from dtmgp.testing.grids import check_grid
from dtmgp.testing.kernels import check_kernel
from dtmgp.testing.simulators import check_simulator

__all__ = [
    "check_kernel",
    "check_grid",
    "check_expansion",
    "check_simulator",
    "check_baseline",
    "require",
    "require_error",
    "same_bytes",
]
