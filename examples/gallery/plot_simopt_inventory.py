"""
A model of SimOpt
=================

`SimOpt <https://github.com/simopt-admin/simopt>`_ collects simulation models with their random number streams. Any of
them becomes a simulator in five lines: factors in, streams from the seed, a response out.
"""

# %%
# The (s, S) inventory: whenever the stock falls below ``s``, order up to ``S``. The response is the cost per day over
# 60 days: ordering, holding, and backorders.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from mrg32k3a.mrg32k3a import MRG32k3a
from simopt.models.sscont import SSCont

from dtmgp import emulate


def inventory(x, random_state):
    model = SSCont({"s": x[0], "S": x[0] + x[1], "n_days": 60, "warmup": 20})
    streams = [MRG32k3a(s_ss_sss_index=[random_state % 2**31, k, 0]) for k in range(model.n_rngs)]
    model.before_replicate(streams)
    response = model.replicate()[0]
    return sum(response[f"avg_{kind}_costs"] for kind in ("order", "holding", "backorder"))


# %%
# ``emulate`` needs nothing but that function and the box. The report is about runs that the model has not seen.

bounds = [(200, 1200), (100, 1000)]
names = ["reorder_point", "order_size"]
found = emulate(inventory, bounds, names=names, output="cost", budget=300, batch=60, verbose=0)
print(found.report)

# %%
# The law of the cost along the reorder point, beside 400 fresh runs at seven points.

x = pd.DataFrame({"reorder_point": np.linspace(200, 1200, 81), "order_size": 300.0})
quantiles = found.model.predict_quantiles(x, [0.1, 0.5, 0.9])
checked = np.linspace(200, 1200, 7)
fresh = np.array([[inventory([s, 300.0], 10_000 + k) for k in range(400)] for s in checked])

figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
axis.fill_between(
    x["reorder_point"], quantiles[:, 0], quantiles[:, 2], alpha=0.25, label="emulator, 10% to 90%"
)
axis.plot(x["reorder_point"], quantiles[:, 1], label="emulator, median")
for level, marker in ((0.1, "_"), (0.5, "o"), (0.9, "_")):
    label = f"{level:.0%} of 400 fresh runs"
    axis.plot(
        checked, np.quantile(fresh, level, axis=1), f"k{marker}", ms=8 if marker == "_" else 4, label=label
    )
axis.set(xlabel="reorder point", ylabel="cost per day", title="(s, S) inventory, order size 300")
axis.legend(frameon=False)
plt.show()
