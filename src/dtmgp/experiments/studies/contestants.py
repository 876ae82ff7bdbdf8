"""The models of the studies, each with how it is fitted within a limit of processor time, and when it has converged."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dtmgp.baselines import (
    BNNReLU,
    ExactGP,
    InputIgnoringKDE,
    PaperDTMGP,
    QuadraticBootstrap,
    RandomFeatureDGP,
    VecchiaDGP,
)
from dtmgp.baselines.networks import AbstractNetworkRegressor
from dtmgp.baselines.vecchia.kernels import Covariance
from dtmgp.experiments.convergence import LEAST, STANDARD, ConvergeThenCool, Rule, gap, look_at
from dtmgp.experiments.studies.problems import AbstractProblem, Data

NOISE = 0.2  # initial standard deviation of the noise, in units of scaled y
RATE = 0.01  # learning rate of all variational models
MANY = 10**7  # epochs: the rule ends the training


class Fit(NamedTuple):
    """A fitted model, seconds of processor time, when it converged (None: not, or no such rule), why it ended."""

    model: Any
    cpu_seconds: float
    converged: float | None
    ended: str


class AbstractContestant(abc.ABC):
    """``fit(problem, data, limit)``; ``has_budgets`` says whether a limit means anything to it."""

    has_budgets: ClassVar[bool] = True

    def __init__(self, name: str, label: str) -> None:
        self.name, self.label = name, label

    @abc.abstractmethod
    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Fit within ``limit`` seconds; another rule of convergence than the studies' is for tests."""


class Variational(AbstractContestant):
    """A network with Gaussian weights: Adam at a constant rate until the rule stops it, then a short cooling."""

    def __init__(
        self,
        name: str,
        label: str,
        make: Callable[[AbstractProblem, Mapping[str, Any]], AbstractNetworkRegressor],
    ) -> None:
        super().__init__(name, label)
        self.make = make

    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Train by the ELBO."""
        shape = problem.architecture
        stop = ConvergeThenCool(limit, rule.tolerance, rule.least or shape.least)
        options = {
            "epochs": MANY,
            "batch_size": shape.batch_size,
            "learning_rate": RATE,
            "schedule": stop.rate,
            "callbacks": [lambda state: stop.hear(state.trace[-1].loss)],
            "noise": NOISE,
            "random_state": data.seeds[0],
        }
        model = self.make(problem, options).fit(data.X, data.y)
        return Fit(model, stop.elapsed, stop.seconds, stop.ended or model.reason_)


class Vecchia(AbstractContestant):
    """DGP-VEC as in the paper: two layers, Matern 1/2; its loss is minus the log likelihood of a sweep per run."""

    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Sweep until the rule or the limit stops it; burn-in and thinning are shares of the sweeps made."""
        begun = time.process_time()
        model = VecchiaDGP(
            2,
            width=problem.architecture.width,
            covariance=Covariance.MATERN12,
            n_iterations=1,
            bounds=data.simulator.bounds,
            random_state=data.seeds[0],
        ).fit(data.X, data.y)
        for look in look_at(rule.least or LEAST):
            while model.n_iterations_ < look:
                used = time.process_time() - begun
                if used >= limit:
                    return Fit(model, used, None, "limit")
                possible = int(0.5 * (limit - used) / (used / model.n_iterations_))
                model.extend(max(1, min(look - model.n_iterations_, possible)))
            if abs(gap(-model.trace_[:, 0] / data.y.size)) <= rule.tolerance:
                break
        used = time.process_time() - begun
        return Fit(model, used, used, "converged")


class Exact(AbstractContestant):
    """The exact GP, which ends by the criterion of its optimiser."""

    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Maximise the evidence; the limit is one of wall time."""
        begun = time.process_time()
        model = ExactGP(time_limit=limit, random_state=data.seeds[0]).fit(data.X, data.y)
        late = model.trace_[-1].seconds >= limit
        return Fit(model, time.process_time() - begun, None, "limit" if late else "optimiser")


class Immediate(AbstractContestant):
    """What is fitted at once: trivial baselines and the truth."""

    has_budgets = False

    def __init__(self, name: str, label: str, make: Callable[[Data], Any]) -> None:
        super().__init__(name, label)
        self.make = make

    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Fit."""
        begun = time.process_time()
        model = self.make(data).fit(data.X, data.y)
        return Fit(model, time.process_time() - begun, None, "at once")


class Default(AbstractContestant):
    """The library's deep model with its defaults, by its own rules; a limit ends its training, not its start."""

    def fit(self, problem: AbstractProblem, data: Data, limit: float, rule: Rule = STANDARD) -> Fit:
        """Fit to rows, replicates repeated."""
        from dtmgp.estimators import DTMGPRegressor

        begun = time.process_time()
        late: list[bool] = []

        def stop(state: object) -> bool:
            late.append(time.process_time() - begun >= limit)
            return late[-1]

        model = DTMGPRegressor(
            bounds=data.simulator.bounds, random_state=int(data.seeds[0]), callbacks=(stop,)
        )
        model.fit(np.repeat(data.X, data.y.shape[1], axis=0), data.y.ravel())
        ended = "limit" if any(late) else "own rule"
        return Fit(model, time.process_time() - begun, None, ended)


class Truth:
    """The simulator as a model of itself: what a perfect model scores."""

    def __init__(self, data: Data) -> None:
        self.simulator, self.seed = data.simulator, data.seeds[3]

    def fit(self, X: np.ndarray, y: np.ndarray) -> Truth:
        """Nothing to do."""
        return self

    def sample_y(self, X: np.ndarray, n_samples: int, random_state: int) -> np.ndarray:
        """Other draws than those that models are compared with."""
        return np.asarray(self.simulator.sample(X, n_samples, self.seed))


def paper_dtmgp(grids: str) -> Callable[[AbstractProblem, Mapping[str, Any]], AbstractNetworkRegressor]:
    """The paper's model on one of the grids of a study."""

    def make(problem: AbstractProblem, options: Mapping[str, Any]) -> AbstractNetworkRegressor:
        shape = problem.architecture
        return PaperDTMGP(
            levels=shape.grids[grids],
            widths=(shape.width,),
            prior_std=shape.prior_std,
            bounds=problem.simulator.bounds,
            **options,
        )

    return make


def bnn(problem: AbstractProblem, options: Mapping[str, Any]) -> AbstractNetworkRegressor:
    """The ReLU network of a study."""
    shape = problem.architecture
    return BNNReLU(features=shape.features, widths=(shape.width,), **options)


def random_features(problem: AbstractProblem, options: Mapping[str, Any]) -> AbstractNetworkRegressor:
    """The random-feature model of a study."""
    shape = problem.architecture
    return RandomFeatureDGP(features=shape.features, widths=(shape.width,), **options)


# The first two give the budgets; the order is that of the work within a cell.
CONTESTANTS: Mapping[str, AbstractContestant] = {
    contestant.name: contestant
    for contestant in (
        Variational("dtmgp", "DTMGP (paper)", paper_dtmgp("dtmgp")),
        Vecchia("dgp-vec", "DGP-VEC"),
        Immediate("truth", "truth", Truth),
        Immediate("kde", "KDE, x ignored", lambda data: InputIgnoringKDE()),
        Immediate("quadratic", "quadratic bootstrap", lambda data: QuadraticBootstrap()),
        Exact("gp", "GP"),
        Default("dtmgp-default", "DTMGP (default)"),
        Variational("dtmgp-level5", "DTMGP, level 5", paper_dtmgp("dtmgp-level5")),
        Variational("dtmgp-level6", "DTMGP, level 6", paper_dtmgp("dtmgp-level6")),
        Variational("dgp-rff", "DGP-RFF", random_features),
        Variational("bnn-relu", "BNN-ReLU", bnn),
    )
}


def contestants_of(problem: AbstractProblem) -> list[str]:
    """Names of the models of a study, the default one only if it can be imported."""
    return [
        name
        for name in CONTESTANTS
        if (not name.startswith("dtmgp-level") or name in problem.architecture.grids)
        and (name != "dtmgp-default" or _has_default())
    ]


def _has_default() -> bool:
    try:
        from dtmgp.estimators import DTMGPRegressor
    except (ImportError, AttributeError):
        return False
    return DTMGPRegressor is not None
