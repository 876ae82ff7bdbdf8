"""Models to compare with, one per file, all with ``fit``, ``predict`` and ``sample_y``: a leaf package.

The trivial ones here are the bar that any model must pass; they belong in every table of results.
Nothing in the library imports a baseline, and a baseline imports no other. The heavy ones (PyTorch, Numba) are loaded
when their names are first used; the trivial ones work without either.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtmgp.baselines.base import Baseline
from dtmgp.baselines.input_ignoring_kde import InputIgnoringKDE, scott_bandwidth, silverman_bandwidth
from dtmgp.baselines.quadratic_bootstrap import QuadraticBootstrap

if TYPE_CHECKING:
    from dtmgp.baselines.bnn_relu import BNNReLU
    from dtmgp.baselines.exact_gp import ExactGP
    from dtmgp.baselines.paper_dtmgp import PaperDTMGP
    from dtmgp.baselines.random_feature_dgp import RandomFeatureDGP
    from dtmgp.baselines.vecchia import VecchiaDGP

__all__ = [
    "Baseline",
    "QuadraticBootstrap",
    "InputIgnoringKDE",
    "silverman_bandwidth",
    "scott_bandwidth",
    "ExactGP",
    "BNNReLU",
    "RandomFeatureDGP",
    "VecchiaDGP",
    "PaperDTMGP",
]

# name -> module that defines it
_LAZY = {
    "ExactGP": "dtmgp.baselines.exact_gp",
    "BNNReLU": "dtmgp.baselines.bnn_relu",
    "RandomFeatureDGP": "dtmgp.baselines.random_feature_dgp",
    "VecchiaDGP": "dtmgp.baselines.vecchia",
    "PaperDTMGP": "dtmgp.baselines.paper_dtmgp",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(
            f"module 'dtmgp.baselines' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
