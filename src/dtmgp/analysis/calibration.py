"""Which inputs produced the data? Posterior over inputs, with the emulator's density as the likelihood."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.analysis.base import ROWS, Array, Box, Emulator, rows_for, space_filling
from dtmgp.analysis.mcmc import Chains, effective_sample_size, split_rhat, stretch_sampler
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

LogPrior = Callable[[Float[Array, "n d"]], Float[Array, " n"]]
GOOD_RHAT = 1.02


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Draws from the posterior of the unknown inputs, (S, f), with R-hat and effective sample size of each.

    R-hat well above 1.01, or an effective size of a few dozen: run more steps.

    >>> from dtmgp import TMGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> model = TMGPRegressor().fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    >>> calibrate(model, [0.4, 0.6, 0.5], steps=200, random_state=0).mean.round(1)
    array([0.5])
    """

    names: tuple[str, ...]
    draws: Float[Array, "S f"]
    rhat: Float[Array, " f"]
    effective: Float[Array, " f"]
    acceptance: float

    @property
    def mean(self) -> Float[Array, " f"]:
        """Posterior mean of every unknown input."""
        return np.asarray(self.draws.mean(axis=0))

    @property
    def std(self) -> Float[Array, " f"]:
        """Posterior standard deviation of every unknown input."""
        return np.asarray(self.draws.std(axis=0))

    def interval(self, coverage: float = 0.9) -> Float[Array, "f 2"]:
        """Central posterior interval of every unknown input."""
        return np.asarray(np.quantile(self.draws, [0.5 - coverage / 2, 0.5 + coverage / 2], axis=0).T)


def calibrate(
    model: Emulator,
    y: npt.ArrayLike,
    *,
    known: Mapping[str | int, npt.ArrayLike] | None = None,
    log_prior: LogPrior | None = None,
    steps: int = 1000,
    burn_in: int | None = None,
    ensembles: int = 4,
    walkers: int | None = None,
    screen: int = 2048,
    bounds: npt.ArrayLike | None = None,
    random_state: RandomState = None,
) -> Calibration:
    """Posterior of the inputs that produced the independent observations y (r,) or (r, W).

    ``known`` holds inputs that were set: one number, or one per observation. ``log_prior`` is a function of the unknown
    inputs (n, f), in the model's column order, up to a constant; uniform in the box by default. The prior is cut
    to the box. ``ensembles`` of ``walkers`` (default max(2f + 2, 16)) start at Sobol' points drawn by their posterior
    weight, and take ``burn_in`` (default half of ``steps``) and ``steps`` stretch moves. The answer is as good as the
    emulator: its predictive density, with its own uncertainty at x, is taken for the likelihood; a discrepancy of the
    simulator from reality is not modelled.
    """
    box = Box.of(model, bounds)
    observed, settings = _observations(y, known or {}, box)
    free = [j for j in range(box.dim) if j not in settings]
    if not free:
        raise InputError("known", got="every input", expected="at least one unknown input")
    low, high = box.low[free], box.high[free]
    rng = as_generator(random_state)

    def log_posterior(theta: Float[Array, "n f"]) -> Float[Array, " n"]:
        inside = ((theta >= low) & (theta <= high)).all(axis=1)
        values = np.full(len(theta), -np.inf)
        if inside.any():
            values[inside] = _log_likelihood(model, box, free, settings, observed, theta[inside])
            if log_prior is not None:
                values[inside] += np.asarray(log_prior(theta[inside]), dtype=float)
        values[np.isnan(values)] = -np.inf
        return values

    count = walkers or max(2 * len(free) + 2, 16)
    candidates = low + space_filling(max(screen, 4 * count), len(free), rng) * (high - low)
    start = _start(candidates, log_posterior, (ensembles, count), rng)
    chains: Chains = stretch_sampler(
        log_posterior, start, steps, steps // 2 if burn_in is None else burn_in, rng
    )
    rhat = split_rhat(chains.draws)
    if (rhat > GOOD_RHAT).any():
        worst = int(rhat.argmax())
        name = box.names[free[worst]]
        warnings.warn(
            f"R-hat of {name!r} is {rhat[worst]:.3f}: the ensembles disagree; take more steps", stacklevel=2
        )
    return Calibration(
        tuple(box.names[j] for j in free),
        chains.draws.reshape(-1, len(free)),
        rhat,
        effective_sample_size(chains.draws),
        chains.acceptance,
    )


def _observations(
    y: npt.ArrayLike, known: Mapping[str | int, npt.ArrayLike], box: Box
) -> tuple[Array, dict[int, Float[Array, " r"]]]:
    observed = np.asarray(y, dtype=np.float64)
    if observed.ndim not in (1, 2) or observed.size == 0 or not np.isfinite(observed).all():
        raise InputError(
            "observations y", got=f"shape {observed.shape}", expected="finite values, (r,) or (r, W), r >= 1"
        )
    settings: dict[int, Float[Array, " r"]] = {}
    for name, value in known.items():
        column, given = box.column(name), np.asarray(value, dtype=np.float64)
        if (
            given.shape not in ((), (len(observed),))
            or not ((given >= box.low[column]) & (given <= box.high[column])).all()
        ):
            raise InputError(
                f"known input {name!r}",
                got=f"shape {given.shape}" if given.ndim else f"{float(given):g}",
                expected=f"one value or {len(observed)}, in [{box.low[column]:g}, {box.high[column]:g}]",
            )
        settings[column] = np.broadcast_to(given, (len(observed),)).astype(float)
    return observed, settings


def _log_likelihood(
    model: Emulator,
    box: Box,
    free: list[int],
    settings: dict[int, Float[Array, " r"]],
    observed: Array,
    theta: Float[Array, "n f"],
) -> Float[Array, " n"]:
    """Sum over observations of the log density, in parts of bounded size."""
    runs = len(observed)
    step = max(1, ROWS // runs)
    total = np.empty(len(theta))
    for begin in range(0, len(theta), step):
        part = theta[begin : begin + step]
        x = np.empty((len(part), runs, box.dim))
        x[:, :, free] = part[:, None, :]
        for column, values in settings.items():
            x[:, :, column] = values
        rows = rows_for(model, x.reshape(-1, box.dim))
        outputs = np.broadcast_to(observed, (len(part), *observed.shape)).reshape(-1, *observed.shape[1:])
        density = np.asarray(model.log_prob(rows, outputs), dtype=np.float64)
        total[begin : begin + step] = density.reshape(len(part), runs).sum(axis=1)
    return total


def _start(
    candidates: Float[Array, "c f"],
    log_posterior: LogPrior,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> Float[Array, "e w f"]:
    """Walkers at distinct candidates, drawn by a tempered weight so that a sharp posterior leaves enough of them."""
    values = log_posterior(candidates)
    possible = np.flatnonzero(np.isfinite(values))
    count = shape[0] * shape[1]
    if len(possible) < shape[1]:
        raise InputError(
            "posterior",
            got=f"positive density at {len(possible)} of {len(candidates)} inputs of the box",
            expected=f"at least {shape[1]}",
            cause="a prior that excludes the box, or observations that the model thinks impossible",
        )
    # Gumbel trick: the largest of (log weight / temperature + Gumbel noise) are draws without replacement
    spread = max(1.0, float(np.ptp(np.sort(values[possible])[-count:])))
    keys = values[possible] / spread + rng.gumbel(size=len(possible))
    order = possible[np.argsort(-keys)]
    chosen = order[np.arange(count) % len(order)]
    return candidates[rng.permutation(chosen)].reshape(*shape, -1)
