"""What the analyses need of a model, the box they work in, and the functionals of the law of Y(x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.stats import qmc

from dtmgp.errors import InputError
from dtmgp.random import RandomState

Array = np.ndarray
ROWS = 16384  # inputs per call of a model: bounds the memory


@runtime_checkable
class Emulator(Protocol):
    """A fitted model of the law of Y(x): the methods that the analyses call.

    A fitted one also has ``cube_``, the box of its inputs, with ``low`` (d,), ``high`` (d,) and ``names``.

    >>> from dtmgp import TMGPRegressor
    >>> isinstance(TMGPRegressor(), Emulator)
    True
    """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of Y(x), (n,) or (n, W); with ``return_std`` also its standard deviation, noise included."""
        ...

    def predict_quantiles(self, X: Any, q: npt.ArrayLike) -> Any:
        """Quantiles of Y(x): (n,) or (n, W) for one q, with a last axis for several."""
        ...

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        """Ends of the central interval of Y(x)."""
        ...

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> Any:
        """Draws of Y(x): (n, S) or (n, W, S)."""
        ...

    def cdf(self, X: Any, y: npt.ArrayLike) -> Any:
        """P(Y(x) <= y), in the shape of y."""
        ...

    def log_prob(self, X: Any, y: npt.ArrayLike) -> Any:
        """Log predictive density per row, (n,), summed over outputs."""
        ...


@dataclasses.dataclass(frozen=True)
class Box:
    """The box over which an analysis averages or searches: low < high per input, and the names of the inputs.

    >>> box = Box(np.array([0.0, 10.0]), np.array([1.0, 20.0]), ("a", "b"))
    >>> box.place(np.array([[0.5, 0.5]]))
    array([[ 0.5, 15. ]])
    """

    low: Float[Array, " d"]
    high: Float[Array, " d"]
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: object, bounds: npt.ArrayLike | None = None) -> Self:
        """The box of a fitted model, or ``bounds`` (d, 2) with the model's names."""
        cube = getattr(model, "cube_", None)
        if cube is None:
            raise InputError("model", got="no fitted model", expected="a fitted one", do="call fit(X, y)")
        names = tuple(str(name) for name in cube.names)
        if bounds is None:
            return cls(np.asarray(cube.low, dtype=float), np.asarray(cube.high, dtype=float), names)
        limits = np.asarray(bounds, dtype=np.float64)
        if limits.shape != (len(names), 2) or not (limits[:, 0] < limits[:, 1]).all():
            raise InputError(
                "bounds",
                got=repr(limits.tolist()),
                expected=f"{len(names)} pairs low < high, for {', '.join(names)}",
            )
        return cls(limits[:, 0], limits[:, 1], names)

    @property
    def dim(self) -> int:
        """Number of inputs."""
        return len(self.names)

    def place(self, unit: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Points of the unit cube in the box; rounding never leaves it."""
        return np.asarray(np.clip(self.low + unit * (self.high - self.low), self.low, self.high))

    def column(self, name: str | int) -> int:
        """Index of an input given by name or index."""
        if isinstance(name, int | np.integer) and 0 <= name < self.dim:
            return int(name)
        if name in self.names:
            return self.names.index(str(name))
        raise InputError("input", got=repr(name), expected=f"one of {', '.join(self.names)}")

    def columns(self, names: Sequence[str | int] | None) -> list[int]:
        """Indices of some inputs, or of all."""
        return list(range(self.dim)) if names is None else [self.column(name) for name in names]


def rows_for(model: object, x: Float[Array, "n d"]) -> Any:
    """Inputs in the form that the model was fitted on: a DataFrame if it knows column names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return x
    try:
        import pandas as pd
    except ModuleNotFoundError:
        return x
    return pd.DataFrame(x, columns=list(names))


def inputs_of(model: object, X: Any) -> Float[Array, "n d"]:
    """User inputs as an array in the model's column order; a DataFrame may hold more columns."""
    names = Box.of(model).names
    columns = getattr(X, "columns", None)
    if columns is not None and getattr(model, "feature_names_in_", None) is not None:
        missing = [name for name in names if name not in columns]
        if missing:
            raise InputError(
                "inputs X",
                got=f"no column {missing[0]!r}",
                expected=f"the columns {', '.join(names)}",
                do="rename the columns as they were in fit",
            )
        X = X[list(names)]
    x = np.asarray(X, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != len(names):
        raise InputError("inputs X", got=f"shape {x.shape}", expected=f"(n, {len(names)})")
    return x


def one_output(values: Any, output: int | None) -> Float[Array, "n ..."]:
    """The column of one output: the only one, or ``output``. Axis 1 of (n, W, ...), where ``flat`` has none."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape[1] == 1 and output in (None, 0):
        return array[:, 0]
    if output is None or not 0 <= output < array.shape[1]:
        raise InputError(
            "output",
            got=repr(output),
            expected=f"0 to {array.shape[1] - 1}, since the model has {array.shape[1]} outputs",
            do="name one, for instance Mean(output=0)",
        )
    return array[:, output]


Functional = Callable[[Any, Float[Array, "n d"]], Float[Array, " n"]]


@dataclasses.dataclass(frozen=True)
class Mean:
    """``E Y(x)``.

    >>> Mean().label
    'mean'
    """

    output: int | None = None
    label: str = dataclasses.field(default="mean", init=False)

    def __call__(self, model: Emulator, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        mean = np.asarray(model.predict(rows_for(model, x)), dtype=np.float64)
        return mean if mean.ndim == 1 else one_output(mean, self.output)


@dataclasses.dataclass(frozen=True)
class StandardDeviation:
    """Standard deviation of Y(x), noise included.

    >>> StandardDeviation().label
    'standard deviation'
    """

    output: int | None = None
    label: str = dataclasses.field(default="standard deviation", init=False)

    def __call__(self, model: Emulator, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        std = np.asarray(model.predict(rows_for(model, x), return_std=True)[1], dtype=np.float64)
        return std if std.ndim == 1 else one_output(std, self.output)


@dataclasses.dataclass(frozen=True)
class Variance:
    """``Var Y(x)``, noise included.

    >>> Variance().label
    'variance'
    """

    output: int | None = None
    label: str = dataclasses.field(default="variance", init=False)

    def __call__(self, model: Emulator, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        return np.asarray(StandardDeviation(self.output)(model, x) ** 2)


@dataclasses.dataclass(frozen=True)
class Quantile:
    """The quantile of Y(x) at ``level``.

    >>> Quantile(0.9).label
    '90% quantile'
    """

    level: float
    output: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError("level of the quantile", got=repr(self.level), expected="between 0 and 1")

    @property
    def label(self) -> str:
        """Name for axes."""
        return f"{100 * self.level:g}% quantile"

    def __call__(self, model: Emulator, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        values = np.asarray(model.predict_quantiles(rows_for(model, x), self.level), dtype=np.float64)
        return values if values.ndim == 1 else one_output(values, self.output)


@dataclasses.dataclass(frozen=True)
class TailProbability:
    """``P(Y(x) > threshold)``, or with ``above=False`` ``P(Y(x) <= threshold)``.

    >>> TailProbability(3.0).label
    'P(Y > 3)'
    """

    threshold: float
    above: bool = True
    output: int | None = None

    @property
    def label(self) -> str:
        """Name for axes."""
        return f"P(Y {'>' if self.above else '<='} {self.threshold:g})"

    def __call__(self, model: Emulator, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Values at the rows of x."""
        rows = rows_for(model, x)
        shape = np.shape(model.predict(rows))
        below = np.asarray(model.cdf(rows, np.full(shape, float(self.threshold))), dtype=np.float64)
        below = below if below.ndim == 1 else one_output(below, self.output)
        return 1.0 - below if self.above else below


def label_of(functional: object) -> str:
    """Name of a functional for axes: its ``label``, or the name of a function."""
    return str(getattr(functional, "label", getattr(functional, "__name__", "functional")))


def evaluate(functional: Functional, model: object, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """A functional at many inputs, in parts of bounded size; values that are not finite are refused."""
    parts = [np.asarray(functional(model, x[k : k + ROWS]), dtype=float) for k in range(0, len(x), ROWS)]
    values = np.concatenate(parts) if parts else np.empty(0)
    if values.shape != (len(x),):
        raise InputError(
            f"functional {label_of(functional)!r}",
            got=f"shape {values.shape}",
            expected=f"({len(x)},), one number per input",
            do="choose one output",
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(
            f"functional {label_of(functional)!r}",
            got=f"{values[row]} at x = {x[row].tolist()}",
            expected="finite values in the whole box",
        )
    return values


def space_filling(n: int, dim: int, rng: np.random.Generator) -> Float[Array, "n dim"]:
    """The first n of 2^k scrambled Sobol' points of the unit cube: each is uniform, so averages are unbiased."""
    try:
        sequence = qmc.Sobol(dim, rng=rng)
    except TypeError:  # SciPy before 1.15
        sequence = qmc.Sobol(dim, seed=rng)
    # A power of two: SciPy warns of other lengths, which are unbalanced.
    return np.asarray(sequence.random_base2(max(0, int(np.ceil(np.log2(max(1, n))))))[:n])
