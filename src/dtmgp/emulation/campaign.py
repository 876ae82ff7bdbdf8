"""Ask and tell: a campaign says which runs to make next, and is told what came of them."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.spatial import cKDTree
from sklearn.base import clone

from dtmgp.emulation.assessment import ValidationReport, assess
from dtmgp.emulation.beliefs import belief_of
from dtmgp.emulation.log import RunLog
from dtmgp.emulation.record import RunTable
from dtmgp.emulation.runs import Outcome, Purpose, Run, run_seed
from dtmgp.emulation.scaled import has_covariance, scaled_belief
from dtmgp.emulation.scores import ALC, Score, choose
from dtmgp.emulation.settings import Settings
from dtmgp.errors import InputError
from dtmgp.estimators.default import default_estimator
from dtmgp.simulators.design import latin_hypercube, maximin_latin_hypercube

Array = np.ndarray
CANDIDATES, REFERENCE, TRIED = 400, 400, 300  # points that a score compares
INITIAL, VALIDATION, ROUND = 1, 2, 3  # streams of random numbers


class Campaign:
    """A sequential design for a simulator that runs elsewhere: ``ask`` for runs, ``tell`` their outputs.

    First come the runs of a space-filling design and fresh runs for validation, then, in rounds, runs where ``score``
    says that they help most: at new inputs, or as more replicates of inputs that were tried. ``budget`` counts every
    run that is asked for, validation and second attempts included. A failed run is asked for again, with another
    seed, up to ``retries`` times; then it is left out. The model never sees validation runs.

    Parameters
    ----------
    bounds: (d, 2) box of the inputs; ``names`` their names, ``output`` that of the output.
    budget, replicates: number of runs in all, and of runs at an input when it is chosen.
    model: an unfitted estimator; default `dtmgp.estimators.default_estimator`.
    score: where runs help; default `ALC`. `ALM`, `LawError`, or a function of your own.
    initial, validation: how many inputs the first design and the validation have; default 40% and 20% of the budget.
    batch: runs per round; default: eight rounds.
    folder: where the state goes. A campaign of a folder with a state continues where it was, and runs that were
        asked for but not told are handed out again. None: in memory only.
    report: called with one line per failure; default: the logger "dtmgp".

    >>> from dtmgp import TMGPRegressor
    >>> campaign = Campaign([(0, 1)], budget=30, replicates=2, model=TMGPRegressor())
    >>> while runs := campaign.ask():
    ...     for run in runs:
    ...         campaign.tell(run, run.x[0] ** 2)
    >>> campaign
    Campaign(1 inputs, 30 of 30 runs done, 0 failed)
    """

    def __init__(
        self,
        bounds: npt.ArrayLike,
        *,
        budget: int,
        replicates: int = 5,
        model: Any = None,
        score: Score | None = None,
        names: Sequence[str] | None = None,
        output: str = "y",
        initial: int | None = None,
        validation: int | None = None,
        batch: int | None = None,
        retries: int = 1,
        folder: str | os.PathLike[str] | None = None,
        random_state: int = 0,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = Settings.make(
            bounds,
            budget=budget,
            replicates=replicates,
            names=names,
            output=output,
            initial=initial,
            validation=validation,
            batch=batch,
            retries=retries,
            seed=random_state,
            folder=folder,
        )
        self.score: Score = ALC() if score is None else score
        self.report = logging.getLogger("dtmgp").warning if report is None else report
        self._estimator = default_estimator() if model is None else model
        self._asked: dict[tuple[int, int], Run] = {}
        self._told: dict[tuple[int, int], Outcome] = {}
        self._fitted: tuple[int, Any] | None = None
        self._log = None if folder is None else RunLog(folder, self.settings.fixed)
        for event in self._log.events if self._log else []:
            if isinstance(event, Run):
                self._asked[event.key] = event
            else:
                self._told[event.key] = event
        # Asked for by a process that ended: handed out again, and not counted twice.
        self._lost = deque(run for key, run in self._asked.items() if key not in self._told)
        self._again = deque(self._next_attempts())
        started = {number for number, _ in self._asked}
        self._plan = deque(run for run in self._first_runs() if run.number not in started)
        self._next = max([self._first_count, *(number + 1 for number in started)])

    def __repr__(self) -> str:
        return (
            f"Campaign({len(self.settings.names)} inputs, {self.done} of {self.settings.budget} runs done, "
            f"{self.failed} failed)"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- counts -----------------------------------------------------------------------------------------------
    @property
    def spent(self) -> int:
        """Runs that were asked for."""
        return len(self._asked)

    @property
    def done(self) -> int:
        """Runs whose outcome is known."""
        return len(self._told)

    @property
    def failed(self) -> int:
        """Runs that ended without an output, attempts counted one by one."""
        return sum(outcome.failed for outcome in self._told.values())

    @property
    def outstanding(self) -> int:
        """Runs that were asked for and not told."""
        return self.spent - self.done

    @property
    def complete(self) -> bool:
        """Whether nothing is outstanding, waits for another attempt, or is left of a plan."""
        return not (self.outstanding or self._again or self._plan)

    @property
    def round(self) -> int:
        """Number of the last round; 0 is the first design."""
        return max((run.round for run in self._asked.values()), default=0)

    @property
    def runs(self) -> RunTable:
        """All runs that were asked for, with their outcomes."""
        return RunTable(
            self.settings.names, self.settings.output, list(self._asked.values()), dict(self._told)
        )

    # -- ask and tell -----------------------------------------------------------------------------------------
    def ask(self, n: int | None = None) -> list[Run]:
        """The next runs to make: at most ``n``, or all that are due (the rest of the first design, or a round).

        An empty list with runs outstanding means: tell some first. Else it means that the budget is spent.
        """
        if n is not None and (isinstance(n, bool) or n < 1):
            raise InputError("n", got=repr(n), expected="a number of runs, at least 1, or None")
        wanted = self.settings.budget if n is None else n
        due: list[Run] = []
        while self._lost and len(due) < wanted:
            due.append(self._lost.popleft())
        left = min(wanted - len(due), self.settings.budget - self.spent)
        fresh: list[Run] = []
        while self._again and len(fresh) < left:
            fresh.append(self._again.popleft())
        if n is None and (due or fresh):
            left = len(fresh)  # what is due now is to be told before a round is planned
        if len(fresh) < left and not self._plan and self._may_plan():
            self._plan.extend(self._propose(left - len(fresh) if n is None else None))
        while self._plan and len(fresh) < left:
            fresh.append(self._plan.popleft())
        if fresh and self._log:
            self._log.asked(fresh)
        self._asked.update((run.key, run) for run in fresh)
        return due + fresh

    def tell(
        self,
        run: Run | Outcome | int,
        y: float | None = None,
        *,
        error: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """The output of a run, or the error that it ended with; or an `Outcome`. NaN and infinity are errors."""
        outcome = self._outcome(run, y, error, seconds)
        if outcome.key in self._told:
            raise InputError(
                f"run {outcome.number}",
                got="a second outcome",
                expected="one per run",
                do="ask for another run",
            )
        if self._log:
            self._log.told(outcome)
        self._told[outcome.key] = outcome
        if outcome.failed:
            self._again.extend(self._next_attempts(outcome))
            self._report_failure(outcome)

    def close(self) -> None:
        """Write everything to the disk and let go of the folder."""
        if self._log:
            self._log.close()

    def _outcome(
        self, run: Run | Outcome | int, y: float | None, error: str | None, seconds: float | None
    ) -> Outcome:
        if isinstance(run, Outcome):
            found = run
        elif isinstance(run, Run):
            found = Outcome(run.number, run.attempt, None if y is None else float(y), error, seconds)
        else:
            attempts = [attempt for number, attempt in self._asked if number == run]
            found = Outcome(
                int(run), max(attempts, default=0), None if y is None else float(y), error, seconds
            )
        if found.key not in self._asked:
            raise InputError(
                f"run {found.number}", got="a run that was not asked for", expected="one that ask() returned"
            )
        if (found.y is None) == (found.error is None):
            raise InputError(
                f"run {found.number}", got="y and error" if error else "neither y nor error", expected="one"
            )
        if found.y is not None and not np.isfinite(found.y):
            return Outcome(found.number, found.attempt, None, f"output {found.y}", found.seconds)
        return found

    def _next_attempts(self, outcome: Outcome | None = None) -> list[Run]:
        """Further attempts of failed runs that have some left."""
        failures = [o for o in self._told.values() if o.failed] if outcome is None else [outcome]
        runs = []
        for failure in failures:
            number, attempt = failure.number, failure.attempt + 1
            if attempt <= self.settings.retries and (number, attempt) not in self._asked:
                run = self._asked[failure.key]
                seed = run_seed(self.settings.seed, number, attempt)
                runs.append(Run(number, run.x, seed, attempt, run.purpose, run.round))
        return runs

    def _report_failure(self, outcome: Outcome) -> None:
        run = self._asked[outcome.key]
        place = ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.settings.names, run.x))
        last = outcome.attempt >= self.settings.retries
        then = f"left out after {outcome.attempt + 1} attempts" if last else "will be tried again"
        self.report(f"run {run.number} at {place}: {outcome.error}; {then}")

    # -- designs ----------------------------------------------------------------------------------------------
    @property
    def _first_count(self) -> int:
        return (self.settings.initial + self.settings.validation) * self.settings.replicates

    def _first_runs(self) -> list[Run]:
        """The space-filling design and the validation design, all inputs once before any of them twice."""
        own = self.settings
        runs: list[Run] = []
        parts = [(Purpose.DESIGN, own.initial, INITIAL), (Purpose.VALIDATION, own.validation, VALIDATION)]
        for purpose, count, stream in parts:
            if count:
                points = maximin_latin_hypercube(count, own.bounds, own.generator(stream))
                for row in np.tile(points, (own.replicates, 1)):
                    runs.append(self._run(len(runs), row, purpose, 0))
        return runs

    def _run(self, number: int, x: Float[Array, " d"], purpose: Purpose, round_: int) -> Run:
        seed = run_seed(self.settings.seed, number, 0)
        return Run(number, tuple(float(value) for value in x), seed, 0, purpose, round_)

    def _may_plan(self) -> bool:
        """A round needs outputs: all that were asked for, or at least half of the first design."""
        if not self.outstanding:
            return True
        return len(self.runs.usable()[1]) >= self.settings.initial * self.settings.replicates / 2

    def _propose(self, most: int | None) -> list[Run]:
        """The runs of the next round."""
        own = self.settings
        size = min(own.batch, own.budget - self.spent) if most is None else min(own.batch, most)
        if size < 1:
            return []
        x, y = self.runs.usable()
        rng = own.generator(ROUND, self._next)
        tried, reference = self._tried(rng), latin_hypercube(REFERENCE, own.bounds, rng)
        new = self._feasible(latin_hypercube(CANDIDATES, own.bounds, rng))
        points = np.concatenate([tried, new, reference])
        seed = int(rng.integers(2**31))
        if has_covariance(self._estimator):
            belief = belief_of(self.model, points, x, y, own.bounds, random_state=seed)
        else:
            belief = scaled_belief(points, x, y, own.bounds)
        index = np.arange(len(points))
        for run in self._asked.values():  # runs under way count as made
            if run.key not in self._told and run.purpose is Purpose.DESIGN:
                same = np.flatnonzero((tried == np.array(run.x)).all(axis=1))
                if len(same):
                    belief = belief.after(int(same[0]), 1)
        steps = -(-size // own.replicates)
        sites = index[: len(tried) + len(new)].tolist()
        chosen = choose(self.score, belief, sites, index[-REFERENCE:], own.replicates, steps)
        rows = np.repeat(points[chosen], own.replicates, axis=0)[:size]
        number = self.round + 1
        runs = [self._run(self._next + k, row, Purpose.DESIGN, number) for k, row in enumerate(rows)]
        self._next += len(runs)
        return runs

    def _tried(self, rng: np.random.Generator) -> Float[Array, "n d"]:
        """Design inputs with an output, or with runs under way: at most 300 of them, those in flight first."""
        good, flying = set(), set()
        for key, run in self._asked.items():
            if run.purpose is Purpose.DESIGN:
                outcome = self._told.get(key)
                if outcome is None:
                    flying.add(run.x)
                elif not outcome.failed:
                    good.add(run.x)
        first = sorted(flying)[:TRIED]
        rest = sorted(good - flying)
        keep = rng.permutation(len(rest))[: TRIED - len(first)]
        points = first + [rest[k] for k in sorted(keep)]
        return np.array(points, dtype=np.float64).reshape(len(points), len(self.settings.names))

    def _feasible(self, candidates: Float[Array, "n d"]) -> Float[Array, "m d"]:
        """Candidates whose nearest tried input gave an output; all of them if none is left."""
        outputs: Counter[tuple[float, ...]] = Counter()
        for key, outcome in self._told.items():
            outputs[self._asked[key].x] += not outcome.failed
        if not outputs or all(outputs.values()):
            return candidates
        places = list(outputs)
        low, high = self.settings.bounds.T
        tree = cKDTree((np.array(places) - low) / (high - low))
        nearest = np.asarray(tree.query((candidates - low) / (high - low))[1])
        allowed = np.array([outputs[places[k]] > 0 for k in nearest])
        return candidates[allowed] if allowed.any() else candidates

    # -- the model --------------------------------------------------------------------------------------------
    @property
    def model(self) -> Any:
        """The model, fitted to all design runs that have an output; refitted when there are more."""
        x, y = self.runs.usable()
        if self._fitted is None or self._fitted[0] != len(y):
            self._fitted = (len(y), self._fit(x, y))
        return self._fitted[1]

    def _fit(self, x: Float[Array, "n d"], y: Float[Array, " n"]) -> Any:
        if len(np.unique(x, axis=0)) < 3:
            errors = Counter(outcome.error for outcome in self._told.values() if outcome.failed)
            common = (
                f", {errors.most_common(1)[0][1]} times {errors.most_common(1)[0][0]!r}" if errors else ""
            )
            raise InputError(
                "runs of the design",
                got=f"{len(y)} outputs of {self.done} runs{common}",
                expected="outputs at 3 different inputs or more",
                cause="a simulator that fails" if errors else "",
                do="make one run by hand and mend what it says" if errors else "tell more outputs",
            )
        model = clone(self._estimator)
        parameters = model.get_params()
        if "bounds" in parameters and parameters["bounds"] is None:
            model.set_params(bounds=self.settings.bounds)
        return model.fit(named(x, self.settings.names), y)

    def validate(self, *, draws: int = 256) -> ValidationReport:
        """The model on the validation runs, which it has never seen, beside trivial models."""
        x_fresh, y_fresh = self.runs.usable(Purpose.VALIDATION)
        if len(y_fresh) < 2:
            raise InputError(
                "validation runs",
                got=f"{len(y_fresh)} with an output",
                expected="at least 2",
                do="ask for validation inputs: validation=8",
            )
        x, y = self.runs.usable()
        seed = self.settings.seed
        return assess(self.model, x_fresh, y_fresh, x, y, draws=draws, random_state=seed)


def named(x: Float[Array, "n d"], names: Sequence[str]) -> Any:
    """Inputs with their names, if pandas is installed, so that the model knows them."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        return x
    return pd.DataFrame(x, columns=list(names))
