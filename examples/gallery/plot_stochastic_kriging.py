"""
Stochastic kriging
==================

``TMGPRegressor`` is kriging with exact evidence. Replicates are repeated rows; noise that is known, such as the
variance of an average, is passed per row.
"""

# %%
# A queue: the mean time that a customer spends, seen through averages over few or many customers. The time of one
# customer has a standard deviation equal to its mean, so that the variance of each average is known from theory.

import matplotlib.pyplot as plt
import numpy as np

from dtmgp import TMGPRegressor

rng = np.random.default_rng(0)
load = np.linspace(0.1, 0.9, 25)
mean_time = 1.0 / (1.0 - load)
customers = np.where(rng.random(load.size) < 0.5, 10, 1000)
variances = mean_time**2 / customers
averages = np.array([rng.exponential(mean, size=n).mean() for mean, n in zip(mean_time, customers)])

known = TMGPRegressor(noise=1e-8).fit(load[:, None], averages, noise_variance=variances)
learned = TMGPRegressor().fit(load[:, None], averages)

# %%
# With known variances the curve passes close to the precise averages and ignores the others where they disagree; a
# single learned variance treats all of them alike.

x = np.linspace(0.1, 0.9, 200)[:, None]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, model, title in zip(axes, (known, learned), ("known variances", "one learned variance")):
    mean, std = model.predict(x, return_std=True, include_noise=False)
    axis.errorbar(
        load, averages, 2 * np.sqrt(variances), fmt=".", color="0.5", lw=1, label="averages ± 2 std"
    )
    axis.fill_between(x[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.25)
    axis.plot(x, mean, label="posterior mean ± 2 std")
    axis.plot(x, 1 / (1 - x), "k--", lw=1, label="truth")
    error = np.sqrt(np.mean((mean - 1 / (1 - x[:, 0])) ** 2))
    axis.set(xlabel="load", title=f"{title}: RMSE {error:.2f}")
axes[0].set_ylabel("mean time in the system")
axes[0].legend(frameon=False, loc="upper left")
plt.show()
