"""
A function of SMT
=================

The `Surrogate Modeling Toolbox <https://smt.readthedocs.io>`_ has deterministic test problems: functions of arrays with
their limits. One line turns one into a simulator, and the sequential design spends its runs where the variance is.
"""

# %%
# The weight of a wing as a function of ten design variables. Without noise one run per input is enough, and the
# variance of the prediction (``ALM``) says where to go next.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from smt.problems import WingWeight

from dtmgp import TMGPRegressor, emulate
from dtmgp.analysis import sobol_indices
from dtmgp.emulation import ALM
from dtmgp.plots import sobol_bars

wing = WingWeight()
names = ["area", "fuel", "aspect", "sweep", "pressure", "taper", "thickness", "load", "gross", "paint"]


def weight(x):
    return float(wing(np.asarray(x)[None])[0, 0])


found = emulate(
    weight,
    wing.xlimits,
    names=names,
    output="weight",
    budget=200,
    replicates=1,
    model=TMGPRegressor(),
    score=ALM(),
    verbose=0,
)
print(found.report)

# %%
# Which variables matter, and the prediction against the function at inputs of its own.

x = np.random.default_rng(1).uniform(*wing.xlimits.T, size=(300, len(names)))
truth = wing(x)[:, 0]
mean, std = found.model.predict(pd.DataFrame(x, columns=names), return_std=True)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
left.errorbar(truth, mean, 2 * std, fmt=".", lw=0.8, ms=4)
left.axline((300, 300), slope=1, color="k", lw=0.8, ls="--")
error = np.sqrt(np.mean((mean - truth) ** 2))
left.set(
    xlabel="weight by the function [lb]",
    ylabel="prediction ± 2 std [lb]",
    title=f"RMSE {error:.2f} lb after 160 runs",
)
sobol_bars(sobol_indices(found.model), right)
plt.show()
