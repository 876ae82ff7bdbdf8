"""The Gibbs sampler over nugget, lengthscales and hidden layers, for any number of layers."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float

from dtmgp.baselines.vecchia.factors import ConditioningSets, Factor
from dtmgp.baselines.vecchia.kernels import Covariance
from dtmgp.baselines.vecchia.likelihood import Replicated, hidden_log_likelihood, profile_log_likelihood
from dtmgp.baselines.vecchia.samplers import JITTER, GammaPrior, elliptical_slice, metropolis


@dataclasses.dataclass(frozen=True)
class Priors:
    """Gamma priors of the nugget, of the outer lengthscale and of each hidden layer's, from the inputs outwards."""

    nugget: GammaPrior
    outer: GammaPrior
    hidden: tuple[GammaPrior, ...] = ()

    @classmethod
    def of_depth(cls, layers: int) -> Priors:
        """What the R package (1.2.0) takes for noisy outputs.

        Its three-layer outer prior is Gamma(1, 1.2), not Gamma(1.2, 1) as with two layers; followed as it is.
        """
        nugget = GammaPrior(1.01, 10.0)
        if layers == 1:
            return cls(nugget, GammaPrior(1.2, 4.0))
        if layers == 2:
            return cls(nugget, GammaPrior(1.2, 1.0), (GammaPrior(1.2, 2.0),))
        return cls(nugget, GammaPrior(1.0, 1.2), (GammaPrior(1.2, 2.0), GammaPrior(1.2, 0.8)))


@dataclasses.dataclass
class State:
    """One state: ``hidden[k]`` (n, D) are the values of hidden layer k, ``theta[k]`` (D,) its lengthscales."""

    nugget: float
    outer_theta: float
    scale: float
    theta: list[Float[np.ndarray, " D"]]
    hidden: list[Float[np.ndarray, "n D"]]

    def copy(self) -> State:
        """A copy that shares nothing."""
        return State(
            self.nugget,
            self.outer_theta,
            self.scale,
            [theta.copy() for theta in self.theta],
            [values.copy() for values in self.hidden],
        )


class Draws:
    """Evenly spaced states of a run of unknown length: when the store is full, every second one is dropped.

    The store holds ``2 wanted / (1 - burn_in)`` states, so that at least ``wanted`` remain after dropping the first
    share ``burn_in`` of the run, whenever it stops.
    """

    def __init__(self, wanted: int, burn_in: float) -> None:
        self.wanted, self.burn_in = wanted, burn_in
        self.spacing, self.seen = 1, 0
        self._size = 2 * math.ceil(wanted / (1.0 - burn_in))
        self._kept: list[State] = []

    def add(self, state: State) -> None:
        """Offer the state of the next iteration."""
        self.seen += 1
        if self.seen % self.spacing:
            return
        self._kept.append(state.copy())
        if len(self._kept) == self._size:
            self._kept = self._kept[1::2]
            self.spacing *= 2

    def chosen(self) -> list[State]:
        """At most ``wanted`` states after the burn-in, evenly spaced; the last of the store is one of them."""
        first = min(int(self.burn_in * len(self._kept)), len(self._kept) - 1)
        late = self._kept[first:]
        places = np.linspace(len(late) - 1, 0, min(self.wanted, len(late))).round().astype(int)[::-1]
        return [late[place] for place in places]


class Chain:
    """State, likelihoods and factors of one Markov chain; ``sets[k]`` condition in the inputs of layer k.

    One sweep updates nugget, outer lengthscale, hidden lengthscales (from the outputs inwards), then the hidden layers
    column by column (from the inputs outwards): the order of the R package. Factors of hidden layers are kept until
    their inputs or lengthscales move, so that a sweep costs one factor per Metropolis step and per proposed ellipse.
    """

    def __init__(
        self,
        inputs: Float[np.ndarray, "n d"],
        outputs: Replicated,
        state: State,
        sets: Sequence[ConditioningSets],
        covariance: Covariance,
        priors: Priors,
        mean: Float[np.ndarray, "n D"] | None,
        fixed_nugget: bool,
        generator: np.random.Generator,
    ) -> None:
        self.inputs, self.outputs, self.state, self.sets = inputs, outputs, state, sets
        self.covariance, self.priors, self.mean, self.fixed_nugget = covariance, priors, mean, fixed_nugget
        self.generator = generator
        self.trace: list[tuple[float, ...]] = []
        self.seconds = 0.0
        self._jitter = np.full(len(inputs), JITTER)
        self.refresh()

    def run(self, n_iterations: int, time_limit: float | None, draws: Draws) -> None:
        """Sweep until one of the limits is met; at least once."""
        start = time.perf_counter()
        for _ in range(n_iterations):
            self.sweep()
            draws.add(self.state)
            if time_limit is not None and time.perf_counter() - start >= time_limit:
                break
        self.seconds += time.perf_counter() - start

    def sweep(self) -> None:
        """One update of everything."""
        if not self.fixed_nugget:
            self._move_nugget()
        self._move_outer_theta()
        for layer in reversed(range(len(self.state.hidden))):
            self._move_theta(layer)
        for layer in range(len(self.state.hidden)):
            self._move_hidden(layer)
        state = self.state
        thetas = [float(value) for theta in state.theta for value in theta]
        self.trace.append((self.log_likelihood, state.nugget, state.scale, state.outer_theta, *thetas))

    def refresh(self) -> None:
        """Recompute all factors and the likelihood of the outputs from the state."""
        state = self.state
        self._factors = [
            [self._hidden_factor(layer, theta) for theta in state.theta[layer]]
            for layer in range(len(state.hidden))
        ]
        self.log_likelihood, state.scale = self._outer(state.nugget, state.outer_theta)

    def inputs_of(self, layer: int) -> Float[np.ndarray, "n D"]:
        """The coordinates in which a layer conditions: the inputs, or the values of the layer before it."""
        return self.inputs if layer == 0 else self.state.hidden[layer - 1]

    def centred(self, layer: int, column: int) -> Float[np.ndarray, " n"]:
        """Hidden values less their prior mean, which only the first layer can have."""
        values = self.state.hidden[layer][:, column]
        return values - self.mean[:, column] if layer == 0 and self.mean is not None else values

    def _hidden_factor(self, layer: int, theta: float) -> Factor:
        points = self.inputs_of(layer)
        return self.sets[layer].factor(points, self.covariance, float(theta), self._jitter)

    def _outer(self, nugget: float, theta: float) -> tuple[float, float]:
        layer = len(self.state.hidden)
        factor = self.sets[layer].factor(
            self.inputs_of(layer), self.covariance, theta, self.outputs.noise(nugget)
        )
        return profile_log_likelihood(factor, self.outputs, nugget)

    def _move_nugget(self) -> None:
        state = self.state
        moved = metropolis(
            state.nugget,
            self.log_likelihood,
            lambda nugget: self._outer(nugget, state.outer_theta),
            self.priors.nugget,
            self.generator,
        )
        if moved is not None:
            state.nugget, self.log_likelihood, state.scale = moved

    def _move_outer_theta(self) -> None:
        state = self.state
        moved = metropolis(
            state.outer_theta,
            self.log_likelihood,
            lambda theta: self._outer(state.nugget, theta),
            self.priors.outer,
            self.generator,
        )
        if moved is not None:
            state.outer_theta, self.log_likelihood, state.scale = moved

    def _move_theta(self, layer: int) -> None:
        theta = self.state.theta[layer]
        for column in range(len(theta)):
            values = self.centred(layer, column)
            moved = metropolis(
                float(theta[column]),
                hidden_log_likelihood(self._factors[layer][column], values),
                partial(self._with_theta, layer, values),
                self.priors.hidden[layer],
                self.generator,
            )
            if moved is not None:
                theta[column], _, self._factors[layer][column] = moved

    def _with_theta(self, layer: int, values: Float[np.ndarray, " n"], theta: float) -> tuple[float, Factor]:
        factor = self._hidden_factor(layer, theta)
        return hidden_log_likelihood(factor, values), factor

    def _move_hidden(self, layer: int) -> None:
        """Elliptical slices, one per column; a column moves given the others."""
        values = self.state.hidden[layer]
        if layer == len(self.state.hidden) - 1:
            likelihood = self.log_likelihood
        else:
            likelihood = self._next_layer(layer + 1, self._factors[layer + 1])
        for column in range(values.shape[1]):
            before = values[:, column].copy()
            current = self.centred(layer, column).copy()
            white = self.generator.standard_normal(len(values))
            moved = elliptical_slice(
                current,
                self._factors[layer][column].colour(white),
                likelihood,
                partial(self._with_column, layer, column, before - current),
                self.generator,
            )
            if moved is None:
                values[:, column] = before
                continue
            _, likelihood, extra = moved
            if isinstance(extra, float):
                self.log_likelihood, self.state.scale = likelihood, extra
            else:
                self._factors[layer + 1] = extra

    def _with_column(
        self, layer: int, column: int, mean: Float[np.ndarray, " n"], proposal: Float[np.ndarray, " n"]
    ) -> tuple[float, float | list[Factor]]:
        """Likelihood of what lies outwards, once the proposal is in place, and the scale or the new factors there."""
        state = self.state
        state.hidden[layer][:, column] = mean + proposal
        if layer == len(state.hidden) - 1:
            return self._outer(state.nugget, state.outer_theta)
        factors = [self._hidden_factor(layer + 1, theta) for theta in state.theta[layer + 1]]
        return self._next_layer(layer + 1, factors), factors

    def _next_layer(self, layer: int, factors: Sequence[Factor]) -> float:
        """Log density of a hidden layer's values given its inputs."""
        return sum(
            hidden_log_likelihood(factor, self.centred(layer, column))
            for column, factor in enumerate(factors)
        )
