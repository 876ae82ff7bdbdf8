"""Do our models find better inputs than BoTorch's SingleTaskGP, with the same acquisition function and runs?

    nice -n 10 python benchmarks/bayesian_optimisation.py [--seeds 10] [--problems branin hartmann6 network quantile]
                                                          [--models SingleTaskGP "one layer" deep]

All problems are minimised from noisy runs. All models start from the same Latin hypercube, and every round proposes a
batch by qLogNEI with the same settings. Simple regret: the true objective at the recommended input (of those evaluated,
the one with the best posterior mean), minus the best known value. On the network, every evaluation is ten runs: the
Gaussian process gets their mean, or their 90% quantile, which it models with one noise level; our models get the
runs. Seeds go one by one through all problems, rows are appended, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.optimize import minimize

from dtmgp import DTMGPRegressor, TMGPRegressor
from dtmgp.botorch import DTMGPModel, MeanResponse, Negative, QuantileResponse
from dtmgp.experiments.results import origin, read_csv, write_csv
from dtmgp.simulators import ActivityNetwork, latin_hypercube

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_bayesian_optimisation.csv"
LEVEL = 0.9
TRUTH_RUNS = 100_000


@dataclasses.dataclass(frozen=True)
class Problem:
    """Runs (n, r) at inputs of the unit cube, the true objective there, and how much is evaluated."""

    dim: int
    runs: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    truth: Callable[[np.ndarray], np.ndarray]
    best: Callable[[], float]
    start: int
    rounds: int
    batch: int
    quantile: bool = False


def with_noise(function: Any, std: float) -> tuple[Any, Any]:
    """Runs and truth of a function of BoTorch with Gaussian noise."""
    low, high = function.bounds.double().numpy()

    def truth(u: np.ndarray) -> np.ndarray:
        return function(torch.from_numpy(low + u * (high - low))).numpy()

    def runs(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (truth(u) + std * rng.normal(size=len(u)))[:, None]

    return runs, truth


NETWORK = ActivityNetwork()


def network_runs(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ten costs at every input."""
    return NETWORK.sample(place(u), 10, rng)


def place(u: np.ndarray) -> np.ndarray:
    """The unit cube to the bounds of the network."""
    low, high = NETWORK.bounds.T
    return np.clip(low + u * (high - low), low, high)


def network_truth(u: np.ndarray, quantile: bool) -> np.ndarray:
    """Mean or quantile of many runs, with common random numbers."""
    runs = [NETWORK.sample(x[None], TRUTH_RUNS, 12345)[0] for x in place(np.atleast_2d(u))]
    return np.array([np.quantile(y, LEVEL) if quantile else y.mean() for y in runs])


def network_best(quantile: bool) -> float:
    """The best value known: a search on the same common random numbers, from three starts."""
    found = []
    for start in (0.1, 0.3, 0.5):
        result = minimize(
            lambda u: float(network_truth(np.clip(u, 0, 1), quantile)[0]),
            np.full(13, start),
            method="L-BFGS-B",
            bounds=[(0, 1)] * 13,
            options={"eps": 1e-3, "maxfun": 700},
        )
        found.append(float(result.fun))
    return min(found)


def problems() -> dict[str, Problem]:
    """The four problems; batches as large as a laboratory or a cluster would run at a time."""
    branin, hartmann = Branin(), Hartmann(dim=6)
    return {
        "branin": Problem(2, *with_noise(branin, 2.0), lambda: 0.397887, 8, 6, 4),
        "hartmann6": Problem(6, *with_noise(hartmann, 0.1), lambda: -3.32237, 24, 8, 6),
        "network": Problem(
            13, network_runs, lambda u: network_truth(u, False), lambda: network_best(False), 30, 6, 8
        ),
        "quantile": Problem(
            13, network_runs, lambda u: network_truth(u, True), lambda: network_best(True), 30, 6, 8, True
        ),
    }


def deep_model(problem: Problem, x: np.ndarray, y: np.ndarray) -> DTMGPModel:
    """The deep model with its defaults, which choose the number of layers by evidence."""
    regressor = DTMGPRegressor(bounds=[[0, 1]] * problem.dim)
    regressor.fit(np.repeat(x, y.shape[1], axis=0), y.ravel())
    functional = QuantileResponse(LEVEL) if problem.quantile else MeanResponse()
    return DTMGPModel(regressor, functional=Negative(functional), hidden_draws=16, draws=16)


def gaussian_process(problem: Problem, x: np.ndarray, y: np.ndarray) -> SingleTaskGP:
    """BoTorch's default model of the mean or the quantile of the runs at an input."""
    target = np.quantile(y, LEVEL, axis=1) if problem.quantile else y.mean(axis=1)
    model = SingleTaskGP(
        torch.from_numpy(x),
        -torch.from_numpy(target)[:, None],
        input_transform=Normalize(problem.dim),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def one_layer_model(problem: Problem, x: np.ndarray, y: np.ndarray) -> DTMGPModel:
    """The exact one-layer model with its defaults; one noise level, so that its quantile is the mean plus a number."""
    regressor = TMGPRegressor(bounds=[[0, 1]] * problem.dim)
    regressor.fit(np.repeat(x, y.shape[1], axis=0), y.ravel())
    functional = QuantileResponse(LEVEL) if problem.quantile else MeanResponse()
    return DTMGPModel(regressor, functional=Negative(functional), hidden_draws=16, draws=16)


MODELS: dict[str, Callable[[Problem, np.ndarray, np.ndarray], Any]] = {
    "SingleTaskGP": gaussian_process,
    "one layer": one_layer_model,
    "deep": deep_model,
}


def propose(model: Any, problem: Problem, x: np.ndarray) -> np.ndarray:
    """A batch by qLogNEI."""
    acquisition = qLogNoisyExpectedImprovement(model, X_baseline=torch.from_numpy(x), prune_baseline=True)
    bounds = torch.stack([torch.zeros(problem.dim), torch.ones(problem.dim)]).double()
    found, _ = optimize_acqf(
        acquisition,
        bounds=bounds,
        q=problem.batch,
        num_restarts=4,
        raw_samples=64,
        sequential=True,
        options={"maxiter": 30, "batch_limit": 4},
    )
    return found.numpy()


def optimise(problem: Problem, build: Any, seed: int, best: float) -> list[dict[str, float]]:
    """One campaign: a row per round."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x = latin_hypercube(problem.start, [[0, 1]] * problem.dim, random_state=rng)
    y = problem.runs(x, rng)
    rows = []
    for number in range(problem.rounds + 1):
        start = time.process_time()
        model = build(problem, x, y)
        with torch.no_grad():
            mean = model.posterior(torch.from_numpy(x)).mean[:, 0].numpy()
        chosen = x[int(mean.argmax())]
        regret = float(problem.truth(chosen[None])[0]) - best
        row = {"round": number, "evaluations": len(x), "regret": regret}
        if number < problem.rounds:
            more = propose(model, problem, x)
            x, y = np.concatenate([x, more]), np.concatenate([y, problem.runs(more, rng)])
        rows.append({**row, "cpu_seconds": round(time.process_time() - start, 2)})
    return rows


def main(
    seeds: int = 10,
    names: Sequence[str] = ("branin", "hartmann6", "network", "quantile"),
    models: Sequence[str] = tuple(MODELS),
    out: Path = OUT,
) -> None:
    """Run what is missing, append it, print medians."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    rows = list(read_csv(out).rows) if out.exists() else []
    done = {(row["problem"], row["model"], row["seed"]) for row in rows}
    bests = {str(row["problem"]): float(row["best"]) for row in rows if row["best"] is not None}
    stated = origin("python benchmarks/bayesian_optimisation.py", seed=0)
    for seed in range(seeds):
        for name in names:
            problem = problems()[name]
            for kind in models:
                if (name, kind, seed) in done:
                    continue
                if name not in bests:
                    bests[name] = problem.best()
                for row in optimise(problem, MODELS[kind], seed, bests[name]):
                    rows.append({"problem": name, "model": kind, "seed": seed, "best": bests[name], **row})
                write_csv(out, rows, stated)
    table(rows)


def table(rows: Sequence[Any]) -> None:
    """Median and quartiles of the regret at the start, half-way and at the end."""
    print(f"{'problem':12}{'model':14}{'seeds':>6}{'evaluations':>13}{'median regret':>15}   quartiles")
    for name in dict.fromkeys(row["problem"] for row in rows):
        for kind in MODELS:
            own = [row for row in rows if row["problem"] == name and row["model"] == kind]
            last = max((int(row["round"]) for row in own), default=0)
            for number in sorted({0, last // 2, last}):
                regrets = np.array([float(row["regret"]) for row in own if row["round"] == number])
                if len(regrets):
                    count = next(row["evaluations"] for row in own if row["round"] == number)
                    low, middle, high = np.quantile(regrets, [0.25, 0.5, 0.75])
                    print(
                        f"{name:12}{kind:14}{len(regrets):6}{count!s:>13}{middle:15.4f}   {low:.4f} {high:.4f}"
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", dest="names", nargs="+", choices=problems(), default=list(problems()))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=OUT)
    main(**vars(parser.parse_args()))
