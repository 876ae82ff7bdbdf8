"""Sparse expansions of Gaussian processes with Markov kernels, and the models built on them.

The packages follow the mathematics: `dtmgp.kernels`, `dtmgp.grids`, `dtmgp.expansion`. Importing `dtmgp`
itself loads none of them; the names below are loaded when they are first used.

>>> import dtmgp
>>> "TMGPRegressor" in dir(dtmgp)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtmgp._version import __version__

if TYPE_CHECKING:
    from dtmgp.emulation import emulate
    from dtmgp.estimators import DTMGPRegressor, TMGPRegressor
    from dtmgp.model import DTMGP

__all__ = ["DTMGP", "DTMGPRegressor", "TMGPRegressor", "__version__", "emulate"]

# name -> module that defines it
_LAZY = {
    "DTMGP": "dtmgp.model",
    "DTMGPRegressor": "dtmgp.estimators",
    "TMGPRegressor": "dtmgp.estimators",
    "emulate": "dtmgp.emulation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dtmgp' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
