"""Oracle: the other package, called beside the wrapper. Problems of others go through `emulate` with a few lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dtmgp import TMGPRegressor, emulate
from dtmgp.emulation import ShellCommand
from dtmgp.metrics import rmse

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other packages


def emulated(simulator, bounds, budget, replicates, names):
    return emulate(
        simulator,
        bounds,
        budget=budget,
        replicates=replicates,
        names=names,
        model=TMGPRegressor(),
        validation=0,
        verbose=0,
    )


def test_a_function_of_smt():
    problems = pytest.importorskip("smt.problems")
    branin = problems.Branin(ndim=2)

    def simulator(x):
        return float(branin(np.asarray(x)[None])[0, 0])

    found = emulated(simulator, branin.xlimits, 60, 1, ["a", "b"])
    x = np.random.default_rng(0).uniform(*branin.xlimits.T, size=(200, 2))
    truth = branin(x)[:, 0]
    assert rmse(truth, found.model.predict(_frame(x, ["a", "b"]))) < 0.2 * truth.std()


def test_a_model_of_simopt():
    queue = pytest.importorskip("simopt.models.mm1queue").MM1Queue
    streams = pytest.importorskip("mrg32k3a.mrg32k3a").MRG32k3a

    def simulator(x, random_state):
        model = queue({"lambda": float(x[0]), "mu": float(x[1])})
        seeds = [int(k) for k in np.random.default_rng(random_state).integers(1, 2**31, 6)]
        streamed = [streams(ref_seed=seeds, s_ss_sss_index=[k, 0, 0]) for k in range(model.n_rngs)]
        model.before_replicate(streamed)
        return model.replicate()[0]["avg_sojourn_time"]

    found = emulated(simulator, [(0.5, 1.5), (2.0, 4.0)], 120, 4, ["arrival", "service"])
    x = np.array([[0.6, 3.5], [1.4, 2.1]])  # a fast and a slow queue
    fast, slow = found.model.predict(_frame(x, ["arrival", "service"]))
    assert fast < slow


def test_a_shell_command(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import sys\nx = sys.stdin.read().split()[1].split(',')\nprint(float(x[0]) ** 2)\n")
    found = emulated(ShellCommand(f"{sys.executable} {script}"), [(0.0, 2.0)], 12, 1, ["x"])
    assert found.model.predict(_frame(np.array([[1.0]]), ["x"]))[0] == pytest.approx(1.0, abs=0.1)


def _frame(x, names):
    import pandas as pd

    return pd.DataFrame(x, columns=names)
