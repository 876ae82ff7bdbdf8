"""Estimators with scikit-learn's interface.

Lives here: scaling of user data, validation with messages, and the public regressors. May not live here: mathematics.
"""

from dtmgp.estimators.tmgp import TMGPRegressor

__all__ = ["TMGPRegressor"]
