"""The deep model as a scikit-learn regressor: the distribution of Y(x) at every input, with one set of defaults."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dtmgp.errors import InputError
from dtmgp.estimators.cube import Cube
from dtmgp.estimators.deep_checks import check_outputs, check_parameters, processes_of, resolve
from dtmgp.estimators.deep_fit import Fitted, fit_deep
from dtmgp.estimators.deep_stream import fit_stream, survey_rows
from dtmgp.estimators.inputs import check_columns
from dtmgp.estimators.lattice import Lattice
from dtmgp.estimators.output_scale import output_likelihood
from dtmgp.estimators.predictive import PredictiveLaw
from dtmgp.grids import AbstractGrid
from dtmgp.inference import AbstractObjective, Runs
from dtmgp.inference.checkpoint import fingerprint_of
from dtmgp.inference.distributed import Processes
from dtmgp.inference.progress import report_progress
from dtmgp.inference.trainer import Callback, Epoch
from dtmgp.inference.validation import held_out_count
from dtmgp.kernels import AbstractLineKernel, Additive, Tensor
from dtmgp.likelihoods import AbstractLikelihood, AbstractWarp
from dtmgp.random import RandomState, as_generator
from dtmgp.streams.base import AbstractRows, is_rows

Array = np.ndarray
log = logging.getLogger("dtmgp")


class DTMGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Deep tensor Markov Gaussian process regression: ``Y(x)`` as a distribution, not as a mean with an error bar.

    Layers of sparse-grid features with independent Gaussian weights (paper, section 4.3), whose hidden layers also
    have a linear mean. Training starts at the posterior mode of the mean path (`inference.gauss_newton`), which also
    decides by evidence how wide the hidden layer is and whether the location depends on the inputs at all; then the
    distribution is fitted. Repeated rows of X are replicates, found and used. Parameters that are None follow the
    rules of `estimators.deep_fit`, which depend on the numbers of inputs, rows and held-out gains only.

    Parameters
    ----------
    hidden_widths: units of each hidden layer; ``()`` is one layer. None: one hidden layer, as wide as the inputs, or
        wider where the evidence asks for it.
    levels: sparse-grid level (generalised levels for Matern kernels) or grid of each layer, the last one included.
    kernel: line kernel, Tensor or Additive of all layers. Default ``Matern32(lengthscale=2)``.
    objective: ``Predictive(samples=8)`` (default), ``ELBO(samples=)`` or ``Energy(samples=)``.
    likelihood: of `dtmgp.likelihoods`. Default: `MixtureOfNormals`, any continuous law around the location, whose
        shape may follow x (`HeteroscedasticGaussian` with `Energy`). Whole numbers with many repetitions are modelled
        as counts then: spread over unit intervals and rounded back.
    warp: output warp. Default: none, a Box-Cox power or a logit, whichever the likelihood of a quadratic fit prefers,
        followed by standardisation. A likelihood that brings its own warp keeps it.
    latent_inputs: standard normal inputs of the first layer, for laws that hidden weight noise cannot make.
    learn_kernel: whether lengthscales and variances are learned.
    max_epochs, batch_size (distinct inputs), learning_rate: one training stage with these numbers.
    validation_fraction: of the distinct inputs, held out to choose the best epoch; 0 for none. None: a tenth of 150
        inputs or 500 runs or more, else none. Nothing is ever held out of fewer than 30 inputs.
    prediction_samples: hidden draws of the predictive law, the same in every call.
    bounds: (d, 2) box of the inputs. Rows outside are refused, in ``fit`` and later. None: the range of the data is
        mapped to the cube, and predictions outside it extrapolate.
    device, dtype: of the training, such as ``"cuda"`` and ``"float32"``. Predictions use float64 on the CPU.
    random_state: seed of split, start, training and predictive draws.
    verbose: 0 is silent; 1 shows a progress bar on a terminal and prints what was chosen.
    checkpoint: a file for the state of the training, removed at its end; a run that was killed goes on from there.
    callbacks: functions of the training state, called after every epoch; one that returns True stops.
    distributed: ``"auto"``: under ``torchrun`` its processes train one model together, each given all of the data
        (see docs/scale.md); ``"off"``: this process fits alone.

    Attributes
    ----------
    model_ (a `dtmgp.model.DTMGP` on grid coordinates, outputs in the user's units), start_ (of the training, or None),
    hidden_widths_, levels_, trace_ (one line per epoch), reason_ (why training ended), warp_ (names), lattice_,
    cube_, n_iter_, n_features_in_, feature_names_in_, stream_ (what a pass over streamed rows has found).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(80, 1))
    >>> y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> DTMGPRegressor().fit(X, y).predict([[0.4]]).round(1)
    array([1.])
    """

    def __init__(
        self,
        hidden_widths: Sequence[int] | None = None,
        levels: Sequence[int | AbstractGrid] | None = None,
        kernel: AbstractLineKernel | Tensor | Additive | None = None,
        *,
        objective: AbstractObjective | None = None,
        likelihood: AbstractLikelihood | None = None,
        warp: AbstractWarp | None = None,
        latent_inputs: int = 0,
        learn_kernel: bool = True,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        prediction_samples: int = 128,
        bounds: npt.ArrayLike | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        random_state: RandomState = 0,
        verbose: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        distributed: str = "auto",
    ) -> None:
        self.hidden_widths = hidden_widths
        self.levels = levels
        self.kernel = kernel
        self.objective = objective
        self.likelihood = likelihood
        self.warp = warp
        self.latent_inputs = latent_inputs
        self.learn_kernel = learn_kernel
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.prediction_samples = prediction_samples
        self.bounds = bounds
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.distributed = distributed

    # -- fitting ----------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from inputs X (n, d) and outputs y (n,) or (n, W), or from a source of both of `dtmgp.streams`."""
        check_parameters(self)
        if is_rows(X):
            return self._fit_rows(X, y)
        self.__dict__.pop("stream_", None)
        check_columns(X)
        x, outputs = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        outputs = np.asarray(outputs, dtype=np.float64)
        names = [str(n) for n in getattr(self, "feature_names_in_", [f"x{j}" for j in range(x.shape[1])])]
        self.cube_ = Cube.from_data(x, names) if self.bounds is None else Cube.from_bounds(self.bounds, names)
        self._flat_output = outputs.ndim == 1
        columns = outputs.reshape(len(x), -1)
        check_outputs(columns)
        processes = processes_of(self)
        seed = processes.once(lambda: int(as_generator(self.random_state).integers(2**62)))
        return self._set_fitted(self._fit_arrays(x, columns, seed, processes), seed, processes)

    def _fit_rows(self, rows: AbstractRows, y: Any) -> Self:
        """Learn from rows that are streamed; from as few as a start takes, in memory."""
        if y is not None:
            raise InputError(
                "y", got=type(y).__name__, expected="None", cause="a row source, which has the outputs in it"
            )
        processes = processes_of(self)
        seed = processes.once(lambda: int(as_generator(self.random_state).integers(2**62)))
        self.stream_, self.cube_ = processes.together(lambda: survey_rows(self, rows, seed))
        self._flat_output = rows.flat
        self.n_features_in_ = len(rows.names)
        if rows.named:
            self.feature_names_in_ = np.array(rows.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if self.verbose and processes.first:
            print(f"rows: {self.stream_}")
        if self.stream_.rows > rows.streaming.start:
            fitted = fit_stream(self, rows, self.stream_, seed, processes)
        else:
            log.info("%d rows fit into the start's sample: fitted in memory", self.stream_.rows)
            few = self.stream_.start
            fitted = self._fit_arrays(few.every, few.y, seed, processes)
        return self._set_fitted(fitted, seed, processes)

    def _fit_arrays(self, x: Array, columns: Array, seed: int, processes: Processes) -> Fitted:
        """A trained model for inputs (n, d) and outputs (n, W) in memory."""
        self.lattice_ = Lattice.of(columns) if self.likelihood is None and self.warp is None else None
        targets = columns if self.lattice_ is None else self.lattice_.spread(columns, seed)
        scaled = self.cube_.scale(x)
        likelihood, self.warp_ = output_likelihood(self, scaled, targets, seed)
        likelihood.check_targets(targets)
        plan = resolve(self, likelihood, seed, processes)
        runs = Runs.group(scaled, targets, dtype=plan.dtype)
        held_out = _held_out(runs, self.validation_fraction, seed)
        with report_progress(self.verbose if processes.first else 0) as watch:
            return fit_deep(
                plan,
                runs,
                held_out,
                callbacks=[*self.callbacks, *watch],
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
                fingerprint="" if self.checkpoint is None else fingerprint_of(scaled, targets, repr(plan)),
            )

    def _set_fitted(self, fitted: Fitted, seed: int, processes: Processes | None = None) -> Self:
        """Attributes that follow from a trained model; it predicts in float64."""
        self.model_ = fitted.model.cpu().double()
        self.model_.requires_grad_(False)
        self.start_ = fitted.start
        self.hidden_widths_, self.levels_ = fitted.widths, fitted.levels
        self.trace_: list[Epoch] = [line for stage in fitted.stages for line in stage.trace]
        self.reason_ = fitted.stages[-1].reason if fitted.stages else "interrupted"
        self.n_iter_ = max(1, len(self.trace_))
        self._seed = seed
        self._law = PredictiveLaw(self.model_, self.prediction_samples, seed, self.lattice_)
        if self.verbose and processes is not None and processes.first:
            print(self.summary())
        return self

    def summary(self) -> str:
        """What was chosen and found, in a few lines."""
        check_is_fitted(self)
        dims = [self.n_features_in_ + self.latent_inputs, *self.hidden_widths_]
        sizes = [layer.features.size for layer in self.model_.stack]
        layers = " -> ".join(f"{d} ({m:,} features)" for d, m in zip(dims, sizes))
        lines = [f"layers: {layers} -> {type(self.model_.likelihood).__name__}; output scale: {self.warp_}"]
        if self.start_ is not None:
            how = (
                "Gauss-Newton steps"
                if not self.start_.exact
                else "evaluations of exact kriging at the inputs"
            )
            lines.append(
                f"start: {self.start_.steps} {how}, {self.start_.effective:.0f} effective parameters, "
                f"log evidence {self.start_.log_evidence:.1f} ({self.start_.null_evidence:.1f} without inputs)"
            )
        scores = [line.validation for line in self.trace_ if np.isfinite(line.validation)]
        best = f", best held-out score {min(scores):.4f} nats a run" if scores else ", nothing held out"
        lines.append(f"training: {len(self.trace_)} epochs{best}; {self.reason_}")
        return "\n".join(lines)

    # -- files ------------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file: numbers and their description, no code. Replaced in one step."""
        from dtmgp.estimators.deep_storage import save_deep

        check_is_fitted(self)
        save_deep(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; a damaged or foreign file is refused. Nothing in a file is executed."""
        from dtmgp.estimators.deep_storage import load_deep

        return cast(Self, load_deep(cls, path))

    # -- predictions ------------------------------------------------------------------------------------------
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of Y(x), (n,) or (n, W); with ``return_std`` also its standard deviation, noise included.

        For `Bernoulli` the probability of 1; for `Categorical` those of all classes, (n, C).
        """
        x = self._check(X)
        mean, std = self._law.moments(x)
        mean = self._shape(mean)
        return (mean, self._shape(std)) if return_std else mean

    def predict_quantiles(self, X: Any, q: npt.ArrayLike) -> Float[Array, "..."]:
        """Quantiles of Y(x): (n,) or (n, W) for one q, with a last axis for several."""
        levels = _levels(q)
        x = self._check(X)
        found = self._law.quantiles(x, np.atleast_1d(levels))
        found = found[:, 0] if self._flat_output else found
        return found[..., 0] if levels.ndim == 0 else found

    def predict_summary(self, X: Any, q: npt.ArrayLike) -> tuple[Array, Array, Array]:
        """Mean, standard deviation, and quantiles at the levels q (a last axis): the layers are evaluated once."""
        levels = _levels(q)
        mean, std, found = self._law.summary(self._check(X), np.atleast_1d(levels))
        return self._shape(mean), self._shape(std), found[:, 0] if self._flat_output else found

    def single_precision(self) -> Self:
        """The same fitted model, predicting in float32, for pictures: 1.6 times as fast, quantiles to 1e-3 of a std."""
        check_is_fitted(self)
        same = copy.copy(self)
        same._law = self._law.single()
        return same

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends of the central interval of Y(x) with the given coverage."""
        if not 0.0 < coverage < 1.0:
            raise InputError("coverage", got=repr(coverage), expected="a number between 0 and 1")
        ends = self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2])
        return ends[..., 0], ends[..., 1]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Float[Array, "..."]:
        """Independent draws of Y(x), noise included: (n, S) or (n, W, S). Outputs of one draw are joint."""
        x = self._check(X)
        draws = self._law.draws(x, _count(n_samples), as_generator(random_state))
        return draws[:, 0] if self._flat_output else draws

    def sample_functions(
        self, X: Any, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[Array, "..."]:
        """Mean responses with all weights drawn once per sample, consistent across X: (n, S) or (n, W, S)."""
        x = self._check(X)
        return self._shape(self._law.functions(x, _count(n_samples), as_generator(random_state)))

    def log_prob(self, X: Any, y: npt.ArrayLike, return_error: bool = False) -> Any:
        """Log predictive density per row, joint over outputs (log probability for whole numbers), in units of y.

        With ``return_error`` also its standard error from the finite number of hidden draws.
        """
        x = self._check(X)
        found, error = self._law.log_prob(x, self._outputs(y, len(x)))
        return (found, error) if return_error else found

    def cdf(self, X: Any, y: npt.ArrayLike) -> Float[Array, "..."]:
        """Predictive distribution function at y, per row and output."""
        x = self._check(X)
        return self._shape(self._law.cdf(x, self._outputs(y, len(x))))

    def moment_gradients(self, X: Any) -> tuple[Array, Array]:
        """Gradients of mean and standard deviation with respect to the inputs, each (n, d) or (n, W, d)."""
        x = self._check(X)
        pair = self._law.moment_gradients(x)
        width = self.cube_.high - self.cube_.low
        mean, std = (self._shape(part / width) for part in pair)
        return mean, std

    def _check(self, X: Any) -> Float[Array, "n d"]:
        check_is_fitted(self)
        check_columns(X)
        return self.cube_.scale(validate_data(self, X, reset=False, dtype=np.float64))

    def _shape(self, values: Float[Array, "n w ..."]) -> Array:
        return values[:, 0] if self._flat_output and values.shape[1] == 1 else values

    def _outputs(self, y: npt.ArrayLike, rows: int) -> Float[Array, "n W"]:
        values = np.array(y, dtype=np.float64)  # a copy: torch warns of arrays that cannot be written
        expected = (rows,) if self._flat_output else (rows, self._law.width)
        if values.shape != expected:
            raise InputError(
                "y", got=f"shape {values.shape}", expected=f"shape {expected}, one row per row of X"
            )
        return values.reshape(rows, self._law.width)


def _levels(q: npt.ArrayLike) -> Array:
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise InputError("q", got=repr(q), expected="a number or a list of numbers between 0 and 1")
    return levels


def _count(n_samples: Any) -> int:
    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
        raise InputError("n_samples", got=repr(n_samples), expected="an integer of at least 1")
    return int(n_samples)


def _held_out(runs: Runs, fraction: float | None, seed: int) -> torch.Tensor:
    """Numbers of the distinct inputs that judge the training."""
    count = held_out_count(len(runs.x), len(runs.y), fraction)
    order = np.random.default_rng([seed, 3]).permutation(len(runs.x))
    return torch.as_tensor(np.sort(order[:count]))
