"""Does a sequential design beat a one-shot maximin Latin hypercube of the same number of runs? Queue and network.

    python benchmarks/emulate_against_lhs.py [--seeds 10] [--models deep one-layer kriging] [--problems queue network]
                                             [--designs one-shot alc law alm]

All runs go to the design. Every model is fitted to the one-shot design and to the campaigns of the scores, of which alc
is the default, and compared on inputs of its own with the truth: root mean squared error of the mean response, CRPS
beyond that of the true law, Kolmogorov-Smirnov distance. `kriging` is stochastic kriging with the noise variance
regressed on the replicates; `one-layer` is `TMGPRegressor()`; `deep` is `DTMGPRegressor()`. Rows are appended per
campaign, so that an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin

from dtmgp import TMGPRegressor
from dtmgp.emulation import SCORES, Campaign, emulate, replicate_noise
from dtmgp.emulation.sources import as_source
from dtmgp.estimators.cube import Cube
from dtmgp.estimators.default import default_estimator
from dtmgp.experiments.results import origin, read_csv, write_csv
from dtmgp.metrics import crps, ks_statistic, rmse
from dtmgp.random import as_generator
from dtmgp.simulators import ActivityNetwork, MM1Queue, latin_hypercube

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_emulate_against_lhs.csv"
# simulator, budget, replicates
PROBLEMS: dict[str, tuple[Any, int, int]] = {
    "queue": (MM1Queue(), 300, 5),
    "network": (ActivityNetwork(), 600, 4),
}
TEST_INPUTS, TEST_RUNS, DRAWS = 400, 1000, 1000
DESIGNS = ("one-shot", *SCORES)


class StochasticKriging(RegressorMixin, BaseEstimator):
    """Gaussian law with a mean by `TMGPRegressor` and a noise variance regressed on the replicates."""

    def __init__(self, bounds: Any = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any) -> Self:
        x, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.cube_ = Cube.from_bounds(self.bounds, [f"x{j}" for j in range(x.shape[1])])
        self.noise_of_ = replicate_noise(x, y, np.asarray(self.bounds))
        self.mean_ = TMGPRegressor(bounds=self.bounds, noise=1e-6 * float(np.var(y)))
        self.mean_.fit(x, y, noise_variance=self.noise_of_(x))
        return self

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True
    ) -> Any:
        x = np.asarray(X, dtype=float)
        if return_cov:
            return self.mean_.predict(x, return_cov=True, include_noise=False)
        mean, std = self.mean_.predict(x, return_std=True, include_noise=False)
        return (mean, np.sqrt(std**2 + include_noise * self.noise_of_(x))) if return_std else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Any:
        mean, std = self.predict(X, return_std=True)
        return mean[:, None] + std[:, None] * as_generator(random_state).standard_normal(
            (len(mean), n_samples)
        )

    def cdf(self, X: Any, y: Any) -> Any:
        return norm.cdf(y, *self.predict(X, return_std=True))


MODELS = {"kriging": StochasticKriging, "one-layer": TMGPRegressor, "deep": default_estimator}


@functools.cache
def truth(problem: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Test inputs, runs of the simulator there, and the mean CRPS of the true law (by the runs among themselves)."""
    simulator = PROBLEMS[problem][0]
    x = latin_hypercube(TEST_INPUTS, simulator.bounds, random_state=10_000)
    runs = simulator.sample(x, TEST_RUNS, random_state=10_001)
    own = float(crps(runs[:, 0], runs[:, 1:]).mean())
    fair = np.mean([crps(runs[:, k], np.delete(runs, k, axis=1)).mean() for k in range(0, TEST_RUNS, 50)])
    return x, runs, float(fair) if np.isfinite(fair) else own


def scores(problem: str, model: Any) -> dict[str, float]:
    """Accuracy of a fitted model on the test inputs."""
    x, runs, best = truth(problem)
    draws = model.sample_y(x, DRAWS, 0)
    return {
        "rmse_mean": rmse(runs.mean(axis=1), model.predict(x)),
        "excess_crps": float(np.mean([crps(runs[:, k], draws).mean() for k in range(0, TEST_RUNS, 50)]))
        - best,
        "ks": float(ks_statistic(runs, draws).mean()),
    }


def campaign(problem: str, kind: str, design: str, seed: int) -> dict[str, float]:
    """One fitted design: everything at once, or in rounds by a score."""
    simulator, budget, replicates = PROBLEMS[problem]
    model = MODELS[kind]()
    start = time.perf_counter()
    if design == "one-shot":
        plan = Campaign(
            simulator.bounds,
            budget=budget,
            replicates=replicates,
            model=model,
            initial=budget // replicates,
            validation=0,
            random_state=seed,
        )
        source = as_source(simulator)[0]
        for run in plan.ask():
            plan.tell(run, source(run.x, run.seed))
        fitted, inputs = plan.model, budget // replicates
    else:
        result = emulate(
            simulator,
            budget=budget,
            replicates=replicates,
            names=[f"x{j}" for j in range(len(simulator.bounds))],
            model=model,
            score=SCORES[design],
            validation=0,
            random_state=seed,
            verbose=0,
        )
        fitted, inputs = result.model, len({run.x for run in result.runs.runs})
    seconds = time.perf_counter() - start
    return {"inputs": inputs, **scores(problem, fitted), "seconds": seconds}


def main(
    seeds: int = 10,
    models: Sequence[str] = ("deep",),
    problems: Sequence[str] = tuple(PROBLEMS),
    designs: Sequence[str] = ("one-shot", "alc"),
    out: Path = OUT,
) -> None:
    """Run what is missing, append it, and print means with standard errors over the seeds, paired with one-shot."""
    rows = list(read_csv(out).rows) if out.exists() else []
    done = {(row["problem"], row["model"], row["design"], row["seed"]) for row in rows}
    stated = origin("python benchmarks/emulate_against_lhs.py", seed=0)
    for problem in problems:
        for kind in models:
            for seed in range(seeds):
                for design in designs:
                    key = (problem, kind, design, seed)
                    if key in done:
                        continue
                    found = campaign(problem, kind, design, seed)
                    rows.append({"problem": problem, "model": kind, "design": design, "seed": seed, **found})
                    write_csv(out, rows, stated)
    for problem in problems:
        for kind in models:
            table(rows, problem, kind, designs)


def table(rows: Sequence[Any], problem: str, kind: str, designs: Sequence[str]) -> None:
    """Means, and mean differences to the one-shot design with their standard errors, over the seeds that all have."""
    _, budget, replicates = PROBLEMS[problem]
    picked = {
        (row["design"], int(row["seed"])): row
        for row in rows
        if row["problem"] == problem and row["model"] == kind
    }
    seeds = [seed for seed in sorted({s for _, s in picked}) if all((d, seed) in picked for d in designs)]
    print(f"\n{problem}, {budget} runs in groups of {replicates}, {kind}, {len(seeds)} seeds")
    if not seeds:
        return
    names = ("rmse_mean", "excess_crps", "ks")
    print(f"{'design':10}{'inputs':>8}" + "".join(f"{name + ' (minus one-shot)':>36}" for name in names))
    for design in designs:
        cells = ""
        for name in names:
            own = np.array([float(picked[design, seed][name]) for seed in seeds])
            base = np.array([float(picked[designs[0], seed][name]) for seed in seeds])
            error = (own - base).std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else np.nan
            cells += f"{own.mean():14.4f} ({(own - base).mean():+.4f} +- {error:.4f})"
        inputs = np.mean([float(picked[design, seed]["inputs"]) for seed in seeds])
        print(f"{design:10}{inputs:8.0f}{cells}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["deep"])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=["one-shot", "alc"])
    parser.add_argument("--out", type=Path, default=OUT)
    main(**vars(parser.parse_args()))
