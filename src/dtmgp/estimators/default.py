"""The estimator that is used where a user names none: the one place to change it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# In order of preference: the first one whose module can be imported.
DEFAULTS = (("dtmgp.estimators.dtmgp", "DTMGPRegressor"), ("dtmgp.estimators.tmgp", "TMGPRegressor"))


def default_estimator() -> Any:
    """An unfitted estimator with its defaults: the deep one, or the one-layer one without torch.

    >>> hasattr(default_estimator(), "sample_y")
    True
    """
    for module, name in DEFAULTS[:-1]:
        try:
            return getattr(import_module(module), name)()
        except (ModuleNotFoundError, AttributeError):
            continue
    module, name = DEFAULTS[-1]
    return getattr(import_module(module), name)()
