"""The estimator: scaling, initial state, sampling under limits, predictions as mixtures over kept states."""

from __future__ import annotations

from typing import Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.baselines.base import check_new_inputs, check_sample_count, check_training_data
from dtmgp.baselines.vecchia.chain import Chain, Draws, Priors, State
from dtmgp.baselines.vecchia.factors import ConditioningSets, DenseSets, VecchiaSets
from dtmgp.baselines.vecchia.kernels import Covariance
from dtmgp.baselines.vecchia.likelihood import Replicated
from dtmgp.baselines.vecchia.prediction import predict_states
from dtmgp.baselines.vecchia.samplers import JITTER
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

_MOST_DENSE = 2000
_START_NUGGET = 0.01
_START_OUTER_THETA = 0.01
_START_HIDDEN_THETA = 0.1


class VecchiaDGP:
    """Fully Bayesian deep GP, Vecchia-approximated: Y(x) = f(w(x)) + noise with Gaussian processes f and w.

    Inputs are scaled to the unit cube, outputs to mean 0 and variance 1. Every hidden layer has ``width`` columns,
    each a zero-mean Gaussian process of variance 1 over the layer before it; the outer scale is integrated out. Hidden
    values are drawn by elliptical slices, nugget and lengthscales by Metropolis steps with uniform windows
    (value/2, 2 value) and gamma priors. A prediction is the mixture of the kept states' normal laws, noise included.

    One iteration costs O(n m^3) for each of about ``3 + 5 width`` factors with two layers, m = ``neighbours``.

    Follows Sauer, Cooper and Gramacy (2022), "Vecchia-approximated deep Gaussian processes for computer
    experiments", and the R package deepgp 1.2. Deviations from the package:

    - Equal inputs are merged and enter by their means and sum of squares. Without Vecchia this is the same
      likelihood; with it, ``neighbours`` counts different inputs, where the package's sets fill up with replicates.
    - The nugget starts at 0.01; the package's default is 0.001. Lengthscales start at its defaults.
    - Kept states are evenly spaced, at most ``n_draws``; ``burn_in`` is a share of the iterations that were run, so
      that a time limit needs no guess of their number. The package keeps all and leaves both to the user.
    - ``identity_mean`` (its ``pmx``) slices around the mean; the package's ellipse mixes the mean into the
      prior draw, which does not leave the posterior invariant.
    - A slice whose bracket closes by rounding keeps the old state after 200 proposals; the package stops at 100.
    - Queries condition on all points if ``neighbours >= n - 1``.
    - Predictions agree with the package's within its spread between seeds, but for Matern 1/2 with two inputs, where
      the package's runs miss what its smooth kernels and these runs find (``benchmarks/vecchia_reference.py``).
    - Not there: monotone warpings, gradients, separable lengthscales, joint predictive covariances.

    Args:
        layers: 1 (a GP), 2 or 3.
        width: columns of the hidden layers; by default the number of inputs.
        covariance: Matern 1/2, 3/2, 5/2 or squared exponential, for all layers.
        neighbours: size m of the conditioning sets; None is dense, for at most 2000 different inputs.
        n_iterations: sweeps of the sampler.
        time_limit: seconds after which ``fit`` stops sweeping, or None; at least one sweep is made.
        burn_in: share of the sweeps to drop, in [0, 1).
        n_draws: most states to keep for predictions.
        nugget: noise variance over scale, fixed to this value; None samples it.
        priors: gamma priors; by default the package's for noisy outputs, ``Priors.of_depth(layers)``.
        identity_mean: whether the first hidden layer has the inputs as prior mean; needs width = number of inputs.
        bounds: (d, 2) lower and upper bounds of the inputs; by default their ranges in the data.
        threads: threads for the rows of a factor; results do not depend on it.
        random_state: seed of orderings and sampler.

    Attributes:
        trace_: (iterations, 4 + ...) log likelihood, nugget, scale, outer lengthscale, hidden lengthscales.
        n_iterations_: sweeps made. ``seconds_``: time they took. ``states_``: kept states.

    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = VecchiaDGP(n_iterations=50, neighbours=10, random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> model
    VecchiaDGP(layers=2, width=1, MATERN52, n=20, neighbours=10, iterations=50, draws=25)
    >>> model.sample_y([[0.5]], n_samples=3, random_state=0).shape
    (1, 3)
    """

    def __init__(
        self,
        layers: int = 2,
        *,
        width: int | None = None,
        covariance: Covariance = Covariance.MATERN52,
        neighbours: int | None = 25,
        n_iterations: int = 10_000,
        time_limit: float | None = None,
        burn_in: float = 0.5,
        n_draws: int = 100,
        nugget: float | None = None,
        priors: Priors | None = None,
        identity_mean: bool = False,
        bounds: ArrayLike | None = None,
        threads: int = 1,
        random_state: RandomState = None,
    ) -> None:
        if layers not in (1, 2, 3):
            raise InputError("layers", got=repr(layers), expected="1, 2 or 3")
        counts = {"n_iterations": n_iterations, "n_draws": n_draws, "threads": threads}
        if width is not None:
            counts["width"] = width
        if neighbours is not None:
            counts["neighbours"] = neighbours
        for name, count in counts.items():
            if not count >= 1:
                raise InputError(name, got=repr(count), expected="an integer of at least 1")
        if not 0 <= burn_in < 1:
            raise InputError("burn_in", got=repr(burn_in), expected="a share of the iterations in [0, 1)")
        if time_limit is not None and not time_limit > 0:
            raise InputError("time_limit", got=repr(time_limit), expected="seconds > 0, or None")
        if nugget is not None and not nugget >= JITTER:
            raise InputError("nugget", got=repr(nugget), expected=f"at least {JITTER:.2g}, or None")
        self.priors = Priors.of_depth(layers) if priors is None else priors
        if len(self.priors.hidden) != layers - 1:
            raise InputError(
                "priors",
                got=f"{len(self.priors.hidden)} for hidden layers",
                expected=f"{layers - 1}, one per hidden layer",
            )
        self.layers, self.width, self.covariance = layers, width, Covariance(covariance)
        self.neighbours, self.n_iterations, self.time_limit = neighbours, n_iterations, time_limit
        self.burn_in, self.n_draws, self.nugget = burn_in, n_draws, nugget
        self.identity_mean, self.bounds, self.threads = identity_mean and layers > 1, bounds, threads
        self.random_state = random_state
        self._dim: int | None = None

    def __repr__(self) -> str:
        if self._dim is None:
            return f"VecchiaDGP(layers={self.layers}, {self.covariance.name}, not fitted)"
        width = f"width={self.width or self._dim}, " if self.layers > 1 else ""
        sets = "dense" if self.neighbours is None else f"neighbours={self.neighbours}"
        return (
            f"VecchiaDGP(layers={self.layers}, {width}{self.covariance.name}, n={len(self._chain.inputs)}, "
            f"{sets}, iterations={self.n_iterations_}, draws={len(self.states_)})"
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Sample the posterior given X (n, d) and y, (n,) or replicates (n, r), within both limits."""
        inputs, outputs = check_training_data(X, y)
        low, high = self._box(inputs)
        self._shift, self._unit = float(outputs.mean()), float(outputs.std())
        if not self._unit > 0:
            raise InputError("training outputs y", got="equal numbers", expected="outputs that vary")
        # A constant column stays 0.
        span = np.where(high > low, high - low, 1.0)
        points, replicated = Replicated.group((inputs - low) / span, (outputs - self._shift) / self._unit)
        generator = as_generator(self.random_state)
        width = self.width or points.shape[1]
        self._check_sizes(points, width)
        columns = np.ascontiguousarray(points[:, np.arange(width) % points.shape[1]])
        hidden = self.layers - 1
        state = State(
            nugget=_START_NUGGET if self.nugget is None else self.nugget,
            outer_theta=_START_OUTER_THETA,
            scale=1.0,
            theta=[np.full(width, _START_HIDDEN_THETA) for _ in range(hidden)],
            hidden=[columns.copy() for _ in range(hidden)],
        )
        sets = [self._sets(layer_inputs, generator) for layer_inputs in (points, *state.hidden)]
        self._chain = Chain(
            points,
            replicated,
            state,
            sets,
            self.covariance,
            self.priors,
            points if self.identity_mean else None,
            self.nugget is not None,
            generator,
        )
        self._dim, self._low, self._span = points.shape[1], low, span
        self._draws = Draws(self.n_draws, self.burn_in)
        return self.extend(self.n_iterations, self.time_limit)

    def extend(self, n_iterations: int, time_limit: float | None = None) -> Self:
        """Continue the chain of the last ``fit``; draws are chosen anew from the whole run."""
        check_new_inputs([[0.0] * (self._dim or 1)], self._dim)
        self._chain.run(n_iterations, time_limit, self._draws)
        self.states_ = self._draws.chosen()
        self.trace_ = np.array(self._chain.trace)
        self.n_iterations_, self.seconds_ = len(self.trace_), self._chain.seconds
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of Y(x) over states and noise, shape (n,); with ``return_std`` also the standard deviation.

        Its square is the states' mean variance plus the variance of their means (divided by their number less one).
        """
        means, variances = self.predict_draws(X)
        mean = means.mean(axis=0)
        if not return_std:
            return mean
        between = means.var(axis=0, ddof=1) if len(means) > 1 else 0.0
        return mean, np.sqrt(variances.mean(axis=0) + between)

    def predict_draws(self, X: ArrayLike) -> tuple[Float[np.ndarray, "S n"], Float[np.ndarray, "S n"]]:
        """Mean and variance of Y(x) under each kept state, both (states, n)."""
        queries = (check_new_inputs(X, self._dim) - self._low) / self._span
        chain = self._chain
        means, variances = predict_states(
            self.states_,
            chain.inputs,
            chain.outputs,
            chain.sets,
            self.covariance,
            self.identity_mean,
            queries,
        )
        return self._shift + self._unit * means, self._unit**2 * variances

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw ``n_samples`` outputs at each row of X (n, d), each from a random state; returns (n, n_samples)."""
        count = check_sample_count(n_samples)
        means, variances = self.predict_draws(X)
        generator = as_generator(random_state)
        shape = (means.shape[1], count)
        chosen = generator.integers(len(means), size=shape)
        rows = np.arange(shape[0])[:, None]
        noise = generator.standard_normal(shape)
        return np.asarray(means[chosen, rows] + np.sqrt(variances[chosen, rows]) * noise)

    def _sets(self, points: Float[np.ndarray, "n D"], generator: np.random.Generator) -> ConditioningSets:
        if self.neighbours is None:
            return DenseSets()
        return VecchiaSets(points, self.neighbours, generator, self.threads)

    def _box(
        self, inputs: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        if self.bounds is None:
            return inputs.min(axis=0), inputs.max(axis=0)
        bounds = np.asarray(self.bounds, dtype=np.float64)
        if bounds.shape != (inputs.shape[1], 2) or not (bounds[:, 0] < bounds[:, 1]).all():
            raise InputError(
                "bounds",
                got=f"an array of shape {bounds.shape}",
                expected=f"shape ({inputs.shape[1]}, 2) with lower < upper",
            )
        return bounds[:, 0], bounds[:, 1]

    def _check_sizes(self, points: Float[np.ndarray, "n d"], width: int) -> None:
        n, dim = points.shape
        if n < 2:
            raise InputError("training inputs X", got="one distinct row", expected="at least two")
        if self.neighbours is None and n > _MOST_DENSE:
            raise InputError(
                "training inputs X",
                got=f"{n} different rows",
                expected=f"at most {_MOST_DENSE} without Vecchia's approximation",
                do="pass neighbours=25",
            )
        if self.identity_mean and width != dim:
            raise InputError(
                "width", got=str(width), expected=f"{dim}, the number of inputs, with identity_mean=True"
            )
