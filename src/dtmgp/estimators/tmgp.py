"""The one-layer model as a scikit-learn regressor: exact stochastic kriging with a tensor Markov Gaussian process."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.stats import norm
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dtmgp.errors import InputError
from dtmgp.estimators.cube import Cube
from dtmgp.estimators.inputs import check_columns, check_level, check_number
from dtmgp.estimators.kriging_start import default_level, feature_limit, grid_of, level_size, starting_point
from dtmgp.estimators.storage import load_regressor, save_regressor
from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.kernels import AbstractLineKernel, Additive, Matern32, Tensor, as_tensor
from dtmgp.kriging import (
    Adaptive,
    Effort,
    Grown,
    KrigingModel,
    Replicates,
    Settings,
    collapse,
    fit,
    fit_adaptive,
)
from dtmgp.random import RandomState, as_generator

Array = np.ndarray
log = logging.getLogger("dtmgp")
LARGEST = 5_000_000  # features: the iterative path holds some 75 vectors of them, 3 GB


class TMGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression on sparse-grid features, exact in linear time in the number of runs.

    ``Y(x) = linear mean + G(x) + noise`` with a tensor Markov (or half-integer Matern) process ``G``, expanded in
    ``m`` features of which ``T`` are active at any input. Repeated rows of X are replicates and enter through their
    mean, number and spread; known noise variances are accepted per row (stochastic kriging). All hyperparameters are
    learned by maximising the exact log evidence. Several outputs are modelled independently.

    Parameters
    ----------
    kernel: line kernel, Tensor or Additive, in coordinates of the unit cube. Default ``Matern32()``.
    level: level of the sparse grid (generalised levels for Matern kernels); a sequence of levels to choose from by
        evidence; a grid of your own; ``Adaptive()`` for one that grows where the evidence says that it pays; or None
        for the largest level with at most 1500 features (and 5 per input).
    linear_mean: whether a linear mean with a wide prior is integrated out beside the features.
    learn_kernel: whether lengthscales and variances are learned; else those of ``kernel`` are used, which then refer
        to outputs of unit variance.
    noise: noise variance in units of y squared, or None to learn it.
    bounds: (d, 2) box of the inputs. Rows outside are refused, in ``fit`` and later. None: the range of the data is
        mapped to the cube, and predictions outside it extrapolate by the kernel.
    max_evaluations: of the evidence, per start.
    effort: accuracy of the iterative path for large problems.
    random_state: seed of the subset and probes of the iterative path; the dense path uses none.
    verbose: 1 prints the path taken and the evidence reached.

    Attributes
    ----------
    models_ (one fitted model per output), log_evidence_ (of all), path_ (which algebra was used), level_, expansion_
    (these three of the first output), lengthscales_ (in units of X), noise_ (variance, in units of y squared), cube_,
    n_features_in_, feature_names_in_.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2))
    >>> est = TMGPRegressor().fit(X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60))
    >>> est.predict([[0.5, 0.5]], return_std=True)[0].round(1)
    array([1.5])
    """

    def __init__(
        self,
        kernel: AbstractLineKernel | Tensor | Additive | None = None,
        level: int | Sequence[int] | AbstractGrid | Adaptive | None = None,
        *,
        linear_mean: bool = True,
        learn_kernel: bool = True,
        noise: float | None = None,
        bounds: npt.ArrayLike | None = None,
        max_evaluations: int = 60,
        effort: Effort | None = None,
        random_state: RandomState = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.level = level
        self.linear_mean = linear_mean
        self.learn_kernel = learn_kernel
        self.noise = noise
        self.bounds = bounds
        self.max_evaluations = max_evaluations
        self.effort = effort
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, noise_variance: npt.ArrayLike | None = None) -> Self:
        """Learn from inputs X (n, d) and outputs y (n,) or (n, W); ``noise_variance`` (n,) is known noise per row.

        Known noise is added to the learned (or given) one.
        """
        self._check_parameters()
        check_columns(X)
        x, outputs = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        outputs = np.asarray(outputs, dtype=np.float64)
        names = [
            str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(x.shape[1])])
        ]
        self.cube_ = Cube.from_data(x, names) if self.bounds is None else Cube.from_bounds(self.bounds, names)
        scaled = self.cube_.scale(x)
        self._flat_output = outputs.ndim == 1
        columns = outputs.reshape(len(x), -1)
        known = self._known_noise(noise_variance, len(x))
        self.offset_ = columns.mean(axis=0)
        spread = columns.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        kernel = Matern32() if self.kernel is None else self.kernel
        template = kernel if isinstance(kernel, Additive) else as_tensor(kernel, x.shape[1])
        rng = as_generator(self.random_state)
        self.models_: list[KrigingModel] = []
        for output, offset, scale in zip(columns.T, self.offset_, self.scale_, strict=True):
            data = collapse(scaled, (output - offset) / scale, None if known is None else known / scale**2)
            model, level = self._fit_levels(data, template, float(scale), rng)
            if not self.models_:
                self.level_ = level
            self.models_.append(model)
        self._set_fitted(self.models_)
        self.log_evidence_ = float(
            sum(
                model.log_evidence - len(x) * np.log(scale)
                for model, scale in zip(self.models_, self.scale_, strict=True)
            )
        )
        return self

    def _set_fitted(self, models: list[KrigingModel]) -> None:
        """Attributes that follow from the fitted models, the cube and the scale of the outputs."""
        self.models_ = models
        self.path_ = models[0].path
        self.expansion_ = models[0].posterior.design.expansion
        width = self.cube_.high - self.cube_.low
        self.lengthscales_ = np.array([model.hyperparameters.lengthscales * width for model in models])
        self.noise_ = np.array([m.hyperparameters.noise for m in models]) * self.scale_**2
        self.n_iter_ = sum(model.evaluations for model in models)

    # -- files ------------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file: numbers and their description, no code. Replaced in one step."""
        check_is_fitted(self)
        save_regressor(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; a damaged or foreign file is refused. Nothing in a file is executed."""
        return cast(Self, load_regressor(cls, path))

    def _check_parameters(self) -> None:
        if not isinstance(self.kernel, AbstractLineKernel | Tensor | Additive | None):
            raise InputError(
                "kernel",
                got=repr(self.kernel),
                expected="a kernel of dtmgp.kernels",
                do="try kernel=Laplace()",
            )
        if self.noise is not None:
            more = "give a small variance, e.g. 1e-8, for runs without noise; it is a variance in units of y squared"
            check_number("noise", self.noise, 0.0, strict=True, do=more)
        check_number("max_evaluations", self.max_evaluations, 0, whole=True)

    def _known_noise(self, noise_variance: npt.ArrayLike | None, rows: int) -> Float[Array, " n"] | None:
        if noise_variance is None:
            return None
        known = np.asarray(noise_variance, dtype=np.float64)
        if known.shape != (rows,) or not np.isfinite(known).all() or (known < 0).any():
            raise InputError(
                "noise_variance",
                got=f"shape {known.shape}" if known.shape != (rows,) else "negative or non-finite values",
                expected=f"{rows} finite non-negative variances, one per row",
                do="pass the variance of each run, not its standard deviation",
            )
        return known

    def _fit_levels(
        self, data: Replicates, kernel: Tensor | Additive, scale: float, rng: np.random.Generator
    ) -> tuple[KrigingModel, int | AbstractGrid]:
        level = default_level(kernel, data.rows) if self.level is None else self.level
        if isinstance(level, Adaptive):
            grown = self._grow(data, kernel, level, scale, rng)
            return grown.model, grown.grid
        candidates = check_level(level, LARGEST, lambda k: level_size(kernel, k))
        fitted = [(self._fit_one(data, kernel, grid_of(kernel, k), scale, rng), k) for k in candidates]
        best = max(fitted, key=lambda pair: pair[0].log_evidence)
        if self.verbose:
            for model, level in fitted:
                print(f"level {level}: log evidence {model.log_evidence:.2f}; {model.path}")
        return best

    def _fit_one(
        self,
        data: Replicates,
        kernel: Tensor | Additive,
        grid: AbstractGrid,
        scale: float,
        rng: np.random.Generator,
    ) -> KrigingModel:
        settings = self._settings()
        start = starting_point(data, kernel, grid, settings, self._given_noise(scale))
        return fit(data, kernel, grid, start, settings, rng)

    def _grow(
        self,
        data: Replicates,
        kernel: Tensor | Additive,
        policy: Adaptive,
        scale: float,
        rng: np.random.Generator,
    ) -> Grown:
        if isinstance(kernel, Additive):
            raise InputError(
                "level",
                got="Adaptive() with an additive kernel",
                expected="a Tensor or a line kernel",
                do="leave the terms to the evidence: growth adds interactions only where they pay",
            )
        settings = self._settings()
        first = SparseGrid(kernel.dim, policy.start)
        start = starting_point(data, kernel, first, settings, self._given_noise(scale))
        most = feature_limit(data.rows) if policy.max_features is None else policy.max_features
        grown = fit_adaptive(data, kernel, policy, start, settings, rng, max_features=most)
        if self.verbose:
            for step in grown.rounds:
                print(f"{step.features:,} features: log evidence {step.log_evidence:.2f}")
        return grown

    def _settings(self) -> Settings:
        return Settings(
            mean_std=10.0 if self.linear_mean else 0.0,
            learn_kernel=self.learn_kernel,
            learn_noise=self.noise is None,
            max_evaluations=self.max_evaluations,
            effort=Effort() if self.effort is None else self.effort,
        )

    def _given_noise(self, scale: float) -> float | None:
        return None if self.noise is None else self.noise / scale**2

    # -- predictions ------------------------------------------------------------------------------------------
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
    ) -> Any:
        """Mean (n,) or (n, W); with ``return_std`` also the standard deviation, with ``return_cov`` the covariance.

        Both are those of a new run ``Y(x)``; ``include_noise=False`` gives those of the mean response. The covariance
        is (n, n), or (n, n, W) for several outputs.
        """
        if return_std and return_cov:
            raise InputError("predict", got="return_std and return_cov", expected="at most one of them")
        x = self._check(X)
        moments = [model.posterior.predict(x, with_variance=return_std) for model in self.models_]
        mean = self._shape(np.stack([m for m, _ in moments], axis=1) * self.scale_ + self.offset_)
        if return_cov:
            matrices = [model.posterior.predict_covariance(x) for model in self.models_]
            stacked = np.stack(matrices, axis=2) * self.scale_**2
            if include_noise:
                stacked[np.arange(len(x)), np.arange(len(x))] += self.noise_
            return mean, stacked[..., 0] if self._flat_output else stacked
        if not return_std:
            return mean
        variance = np.stack([v for _, v in moments], axis=1) * self.scale_**2
        return mean, self._shape(np.sqrt(variance + (self.noise_ if include_noise else 0.0)))

    def predict_quantiles(self, X: Any, q: npt.ArrayLike) -> Float[Array, "..."]:
        """Quantiles of Y(x): (n,) or (n, W) for one q, with a last axis for several."""
        found = self.predict_summary(X, q)[2]
        return found[..., 0] if np.ndim(q) == 0 else found

    def predict_summary(self, X: Any, q: npt.ArrayLike) -> tuple[Array, Array, Array]:
        """Mean, standard deviation, and quantiles at the levels q (a last axis), in one pass."""
        mean, std = self.predict(X, return_std=True)
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not ((levels > 0) & (levels < 1)).all():
            raise InputError("q", got=repr(q), expected="numbers between 0 and 1")
        return mean, std, mean[..., None] + std[..., None] * norm.ppf(np.atleast_1d(levels))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends of the central interval of Y(x) with the given coverage."""
        if not 0.0 < coverage < 1.0:
            raise InputError("coverage", got=repr(coverage), expected="a number between 0 and 1")
        ends = self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2])
        return ends[..., 0], ends[..., 1]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Float[Array, "..."]:
        """Independent draws of Y(x), noise included: (n, S) or (n, W, S)."""
        mean, std = self.predict(X, return_std=True)
        draws = as_generator(random_state).standard_normal((*mean.shape, n_samples))
        return mean[..., None] + std[..., None] * draws

    def sample_functions(
        self, X: Any, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[Array, "..."]:
        """Draws of the mean response that are one function each, consistent across X: (n, S) or (n, W, S)."""
        x = self._check(X)
        rng = as_generator(random_state)
        draws = []
        for model, scale, offset in zip(self.models_, self.scale_, self.offset_, strict=True):
            weights = model.posterior.sample_weights(n_samples, rng)
            design = model.posterior.design
            values = np.empty((len(x), n_samples))
            for part in design.chunks(len(x)):
                data, columns = design.rows(x[part])
                values[part] = np.stack([np.einsum("na,na->n", data, w[columns]) for w in weights.T], axis=1)
            draws.append(values * scale + offset)
        return draws[0] if self._flat_output else np.stack(draws, axis=1)

    def log_prob(self, X: Any, y: npt.ArrayLike) -> Float[Array, " n"]:
        """Log predictive density per row, summed over outputs."""
        mean, std = self.predict(X, return_std=True)
        values = np.asarray(norm.logpdf(self._outputs(y, mean), mean, std))
        return values if self._flat_output else values.sum(axis=1)

    def cdf(self, X: Any, y: npt.ArrayLike) -> Float[Array, "..."]:
        """Predictive distribution function at y, per row and output."""
        mean, std = self.predict(X, return_std=True)
        return np.asarray(norm.cdf(self._outputs(y, mean), mean, std))

    def _check(self, X: Any) -> Float[Array, "n d"]:
        check_is_fitted(self)
        check_columns(X)
        return self.cube_.scale(validate_data(self, X, reset=False, dtype=np.float64))

    def _shape(self, values: Float[Array, "n w"]) -> Array:
        return values[:, 0] if self._flat_output else values

    def _outputs(self, y: npt.ArrayLike, mean: Array) -> Array:
        values = np.asarray(y, dtype=np.float64)
        if values.shape != mean.shape:
            raise InputError(
                "y", got=f"shape {values.shape}", expected=f"shape {mean.shape}, one row per row of X"
            )
        return values
