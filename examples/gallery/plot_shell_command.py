"""
A program in any language
=========================

A simulator can be a shell command: it reads the inputs as a line of CSV (or JSON), and writes a number. Here it is a
queue in ``awk``; it could be a compiled program, a container, or a call of another language.
"""

# %%
# The command gets a header and a line with arrival rate, service rate and a seed. It sends 40 customers through a
# queue with one server, prints the longest stay, and fails for one run in twenty, as real programs do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dtmgp import emulate
from dtmgp.emulation import ShellCommand

program = """awk -F, 'NR == 2 {
    srand($3 % 1000003); if (rand() < 0.05) exit 3;
    for (k = 0; k < 40; k++) {
        stay += log(1 - rand()) / $1; if (stay < 0) stay = 0;
        stay -= log(1 - rand()) / $2; if (stay > longest) longest = stay }
    print longest }'"""

# %%
# With a ``folder`` every finished run is on disk at once. The same call again goes on where the first one was killed;
# here it finds everything done. Failed runs are recorded, and tried again with another seed.

with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        found = emulate(
            ShellCommand(program),
            [(0.3, 0.9), (1.0, 2.0)],
            names=["arrival", "service"],
            output="longest_stay",
            budget=300,
            batch=100,
            folder=folder,
            verbose=0,
        )
    print(sorted(path.name for path in Path(folder).iterdir()))
print(found, found.report, sep="\n")

# %%
# The law of the longest stay along the arrival rate, and the probability of a stay above ten.

x = pd.DataFrame({"arrival": np.linspace(0.3, 0.9, 61), "service": 1.2})
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
quantiles = found.model.predict_quantiles(x, levels)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for k, alpha in ((0, 0.15), (1, 0.3)):
    label = f"{levels[k]:.0%} to {levels[-1 - k]:.0%}"
    left.fill_between(
        x["arrival"], quantiles[:, k], quantiles[:, -1 - k], color="C0", lw=0, alpha=alpha, label=label
    )
left.plot(x["arrival"], quantiles[:, 2], label="median")
left.set(xlabel="arrival rate", ylabel="longest stay", title="service rate 1.2")
left.legend(frameon=False, loc="upper left")
right.plot(x["arrival"], 1 - found.model.cdf(x, np.full(len(x), 10.0)))
right.set(xlabel="arrival rate", ylabel="probability", title="P(longest stay > 10)")
plt.show()
