"""Estimators with scikit-learn's interface.

Lives here: scaling of user data, validation with messages, and the public regressors. May not live here: mathematics.
"""

from typing import TYPE_CHECKING, Any

from dtmgp.estimators.tmgp import TMGPRegressor

if TYPE_CHECKING:
    from dtmgp.estimators.dtmgp import DTMGPRegressor

__all__ = ["DTMGPRegressor", "TMGPRegressor"]


def __getattr__(name: str) -> Any:
    if name != "DTMGPRegressor":
        raise AttributeError(f"module 'dtmgp.estimators' has no attribute {name!r}")
    from dtmgp.estimators.dtmgp import DTMGPRegressor  # needs torch, which the one-layer model does not

    return DTMGPRegressor
