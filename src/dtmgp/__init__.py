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
    from dtmgp.estimators import TMGPRegressor

__all__ = ["TMGPRegressor", "__version__"]

# name -> module that defines it
_LAZY = {"TMGPRegressor": "dtmgp.estimators"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dtmgp' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
