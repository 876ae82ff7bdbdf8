"""What the variational baselines share: scaling, options of the training, predictions from the mixture of draws."""

from __future__ import annotations

import abc
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.baselines.base import check_new_inputs, check_sample_count, check_training_data
from dtmgp.baselines.networks.network import BayesianNetwork
from dtmgp.errors import InputError
from dtmgp.inference import ELBO, AbstractObjective, Runs
from dtmgp.inference.checkpoint import fingerprint_of
from dtmgp.inference.trainer import Settings, Training, train
from dtmgp.model import DTMGP, Mixture, ModelNoise
from dtmgp.random import RandomState, as_generator

ENTRIES = 1 << 22  # hidden units held at once in predictions
NOT_IN_FINGERPRINT = {"callbacks", "checkpoint", "time_limit", "prediction_samples"}


class TrainingStep(NamedTuple):
    """One epoch: its number, seconds of training up to its end, mean loss per run in units of standardised y."""

    number: int
    seconds: float
    loss: float


def constant_rate(progress: float) -> float:
    """A learning rate that stays, for rules that stop when the loss has converged."""
    return 1.0


@dataclasses.dataclass(frozen=True)
class _Plan(Settings):
    """Settings whose progress is that of epochs or of time, whichever is further."""

    # out of the repr, by which checkpoints know their run
    begun: float = dataclasses.field(default=0.0, repr=False)
    time_limit: float | None = dataclasses.field(default=None, repr=False)
    schedule: Callable[[float], float] | None = dataclasses.field(default=None, repr=False)

    def late(self) -> float:
        """Fraction of the time that is used up."""
        return 0.0 if self.time_limit is None else (time.perf_counter() - self.begun) / self.time_limit

    def rate(self, progress: float) -> float:
        """Learning rate at a fraction of the steps."""
        progress = max(progress, min(1.0, self.late()))
        if self.schedule is None:
            return super().rate(progress)
        return self.learning_rate * self.schedule(progress)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AbstractNetworkRegressor(abc.ABC):
    """Options of the training, the same for all networks.

    ``epochs`` passes in batches of ``batch_size`` distinct inputs, Adam up to ``learning_rate`` in one cycle, or
    ``learning_rate * schedule(progress)``. ``time_limit`` in seconds of ``fit``: training stops after the epoch that
    passes it, and the schedule follows time where time is further than epochs (results then depend on the machine).
    ``callbacks`` hear of every epoch and stop the training by returning True. ``noise`` starts the standard deviation
    of the noise, in units of standardised y. ``checkpoint`` is a path: a run that was interrupted goes on from there.
    ``prediction_samples`` draws make the mean and standard deviation, the same draws in every call.
    """

    epochs: int = 200
    learning_rate: float = 0.03
    batch_size: int = 100
    time_limit: float | None = None
    objective: AbstractObjective = dataclasses.field(default_factory=ELBO)
    schedule: Callable[[float], float] | None = None
    callbacks: Sequence[Callable[[Training], bool | None]] = ()
    checkpoint: str | Path | None = None
    noise: float = 0.3
    prediction_samples: int = 256
    dtype: torch.dtype = torch.float32
    random_state: RandomState = 0

    def __post_init__(self) -> None:
        """Check the options."""
        self._dim: int | None = None
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(
                "time_limit", got=repr(self.time_limit), expected="seconds, or None for no limit"
            )
        check_sizes("prediction_samples", [self.prediction_samples])

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._dim is None:
            return f"{name}(not fitted)"
        widths = [self._dim, *self.model_.noise_widths[1], self.model_.likelihood.width]
        return f"{name}({' -> '.join(f'{width:,}' for width in widths)}, epochs={len(self.trace_)})"

    @abc.abstractmethod
    def build(self, dim: int, generator: torch.Generator | None = None) -> BayesianNetwork | DTMGP:
        """The network for ``dim`` inputs before training."""

    def input_scale(
        self, inputs: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """What is subtracted from the inputs and what they are divided by: mean and standard deviation."""
        spread = inputs.std(axis=0)
        return inputs.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def output_scale(self, outputs: Float[np.ndarray, "n r"]) -> tuple[float, float]:
        """The same of the outputs."""
        return float(outputs.mean()), float(outputs.std()) or 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train; y (n,) or replicates (n, r). Hidden draws are made once per distinct input and step.

        Afterwards: ``model_`` (float64, for standardised data), ``trace_`` (a list of `TrainingStep`), ``reason_`` why
        the training ended.
        """
        inputs, outputs = check_training_data(X, y)
        begun = time.perf_counter()
        self._shift, self._width = self.input_scale(inputs)
        self._centre, self._scale = self.output_scale(outputs)
        rows = np.repeat(self._standardise(inputs), outputs.shape[1], axis=0)
        runs = Runs.group(rows, ((outputs - self._centre) / self._scale).reshape(-1, 1), self.dtype)
        seed = int(as_generator(self.random_state).integers(2**62))
        generator = torch.Generator().manual_seed(seed)
        model = self.build(inputs.shape[1], generator).to(self.dtype)
        plan = _Plan(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            begun=begun,
            time_limit=self.time_limit,
            schedule=self.schedule,
        )
        state = train(
            model,
            runs,
            self.objective,
            plan,
            generator=generator,
            callbacks=[*self.callbacks, lambda _: plan.late() > 1.0],
            checkpoint=self.checkpoint,
            fingerprint="" if self.checkpoint is None else self._fingerprint(inputs, outputs, seed),
        )
        seconds = np.cumsum([line.seconds for line in state.trace]).tolist()
        self.trace_ = [TrainingStep(line.number, t, line.loss) for line, t in zip(state.trace, seconds)]
        self.reason_ = "time limit" if plan.late() > 1.0 and state.epoch < self.epochs else state.reason
        self.model_ = model.double()
        self._dim = inputs.shape[1]
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of Y(x) at the rows of X (n, d), shape (n,), and its standard deviation, noise included, if asked."""
        new = self._tensor(X)
        noise = self.model_.shared_noise(self.prediction_samples, new)
        mean, variance = torch.empty(len(new)).double(), torch.empty(len(new)).double()
        rows = max(1, ENTRIES // (self.prediction_samples * self._units))
        with torch.no_grad():
            for begin in range(0, len(new), rows):
                part = slice(begin, begin + rows)
                law = Mixture(self.model_.components(new[part], noise), self.model_.likelihood.warp)
                moments = law.mean_and_variance()
                mean[part], variance[part] = moments[0][:, 0], moments[1][:, 0]
        centre = self._centre + self._scale * mean.numpy()
        return (centre, self._scale * variance.sqrt().numpy()) if return_std else centre

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw ``n_samples`` outputs at each row of X (n, d), independent over rows; returns (n, n_samples).

        The noise is drawn row by row: the first rows of a call are those of a call with these rows only.
        """
        new = self._tensor(X)
        count = check_sample_count(n_samples)
        generator = as_generator(random_state)
        hidden = self.model_.noise_widths[1]
        rows = max(1, ENTRIES // (count * self._units))
        draws = np.empty((len(new), count))
        with torch.no_grad():
            for begin in range(0, len(new), rows):
                part = new[begin : begin + rows]
                normal = generator.standard_normal((len(part), count, sum(hidden) + 1))
                pieces = torch.from_numpy(normal).transpose(0, 1).split([*hidden, 1], dim=-1)
                empty = part.new_empty(count, len(part), 0)
                law = self.model_.components(part, ModelNoise(empty, pieces[:-1], empty))
                draws[begin : begin + rows] = (law.mean + law.variance.sqrt() * pieces[-1])[..., 0].T
        return self._centre + self._scale * draws

    def log_prob(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n r"]:
        """Log predictive density at y (n, r), r outputs of each row of X (n, d); the same draws in every call."""
        new = self._tensor(X)
        outputs = np.asarray(y, dtype=np.float64)
        if outputs.ndim != 2 or len(outputs) != len(new):
            raise InputError("outputs y", got=f"shape {outputs.shape}", expected=f"({len(new)}, r)")
        scaled = torch.from_numpy((outputs - self._centre) / self._scale)
        noise = self.model_.shared_noise(self.prediction_samples, new)
        found = np.empty(outputs.shape)
        rows = max(1, ENTRIES // (self.prediction_samples * max(self._units, outputs.shape[1])))
        with torch.no_grad():
            for begin in range(0, len(new), rows):
                part = slice(begin, begin + rows)
                law = self.model_.components(new[part], noise)  # (S, n, 1), against (n, r)
                score = torch.logsumexp(law.log_prob(scaled[part]), dim=0)
                found[part] = score.numpy() - math.log(self.prediction_samples) - math.log(self._scale)
        return found

    @property
    def _units(self) -> int:
        return sum(self.model_.noise_widths[1]) + 1

    def _standardise(self, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return (inputs - self._shift) / self._width

    def _tensor(self, X: ArrayLike) -> torch.Tensor:
        return torch.from_numpy(self._standardise(check_new_inputs(X, self._dim)))

    def _fingerprint(self, inputs: np.ndarray, outputs: np.ndarray, seed: int) -> str:
        options = [
            (field.name, getattr(value := getattr(self, field.name), "__qualname__", value))
            for field in dataclasses.fields(self)
            if field.name not in {*NOT_IN_FINGERPRINT, "random_state"}
        ]
        return fingerprint_of(inputs, outputs, seed, type(self).__name__, options)


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return numbers of units as ints, at least 1 each."""
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InputError(name, got=repr(size), expected="whole numbers of at least 1")
    return tuple(int(size) for size in sizes)
