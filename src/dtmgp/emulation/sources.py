"""What counts as a simulator: a function, an object with ``sample``, ``module:function``, or a shell command."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dtmgp.emulation.shell import ShellCommand
from dtmgp.errors import InputError

Number = float | np.floating | np.ndarray
PATH = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")


@runtime_checkable
class Source(Protocol):
    """One run at a time: ``source(x, seed)`` returns the output at inputs ``x`` (d,), and the same for the same seed.

    Sources travel to worker processes, so they must be picklable (by cloudpickle).
    """

    def __call__(self, x: Sequence[float], seed: int, timeout: float | None = None) -> Any:
        """The output of one run: a number."""
        ...


@dataclasses.dataclass(frozen=True)
class FunctionSource:
    """``function(x)`` or ``function(x, random_state)``: inputs as an array (d,); the second gets the seed of the run.

    A second parameter called ``rng`` or ``generator`` gets a NumPy Generator instead. A function without a second
    parameter is called as it is, and cannot be repeated unless it is deterministic.

    >>> FunctionSource(lambda x, rng: x.sum() + 0 * rng.normal())([1.0, 2.0], seed=0)
    3.0
    """

    function: Callable[..., Any]

    def __call__(self, x: Sequence[float], seed: int, timeout: float | None = None) -> float:
        """One run."""
        inputs = np.asarray(x, dtype=np.float64)
        name = seed_parameter(self.function)
        if name is None:
            return as_output(self.function(inputs))
        state: Any = np.random.default_rng(seed) if name in ("rng", "generator") else seed
        return as_output(self.function(inputs, state))


@dataclasses.dataclass(frozen=True)
class ProtocolSource:
    """A simulator of `dtmgp.simulators`: ``sample(X, n_replicates, random_state)``.

    >>> from dtmgp.simulators import MM1Queue
    >>> ProtocolSource(MM1Queue())([0.6, 2.0], seed=0) > 0
    True
    """

    simulator: Any

    def __call__(self, x: Sequence[float], seed: int, timeout: float | None = None) -> float:
        """One run."""
        return as_output(
            self.simulator.sample(np.asarray(x, dtype=np.float64)[None, :], 1, random_state=seed)
        )


@dataclasses.dataclass(frozen=True)
class ImportedSource:
    """``module:function`` or ``module:Class``, imported where the run is made; a class is called without arguments.

    >>> ImportedSource("dtmgp.simulators:MM1Queue")([0.6, 2.0], seed=0) > 0
    True
    """

    path: str

    def __call__(self, x: Sequence[float], seed: int, timeout: float | None = None) -> float:
        """One run."""
        source = _loaded.get(self.path)
        if source is None:
            source = _loaded[self.path] = _wrap(import_object(self.path))
        return source(x, seed, timeout)


_loaded: dict[str, Any] = {}


def seed_parameter(function: Callable[..., Any]) -> str | None:
    """Name of the second positional parameter, or None."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # compiled functions without a signature
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in parameters if parameter.kind in kinds]
    if len(positional) < 2:
        return None
    second = positional[1]
    seeds = ("seed", "random_state", "rng", "generator")
    if second.default is not inspect.Parameter.empty and second.name not in seeds:
        return None  # f(x, steps=100): an option of the simulator, not its seed
    return second.name


def as_output(value: Any) -> float:
    """One finite or infinite number; anything else is an error of the run."""
    array = np.asarray(value)
    if array.size != 1:
        raise ValueError(
            f"an output of shape {array.shape} where one number was expected; return one of them"
        )
    return float(array.reshape(-1)[0])


def import_object(path: str) -> Any:
    """The object of ``module:name``; modules of the current folder are found too."""
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"simulator {path!r}",
            got=str(error),
            expected="module:function, importable from the current folder",
            do="check both names, or give a shell command",
        ) from None
    return found


def _wrap(found: Any) -> Source:
    """A source around an object: an instance with ``sample``, a class of such, or a function."""
    if inspect.isclass(found):
        found = found()
    if isinstance(found, FunctionSource | ProtocolSource | ImportedSource | ShellCommand):
        return found
    if callable(getattr(found, "sample", None)):
        return ProtocolSource(found)
    if callable(found):
        return FunctionSource(found)
    raise InputError(
        "simulator",
        got=f"a {type(found).__name__}",
        expected="a function of x, an object with sample(X, n_replicates, random_state), 'module:function', "
        "or a shell command",
    )


def as_source(simulator: Any) -> tuple[Source, Any]:
    """A source, and the object behind it (for its ``bounds`` and ``input_names``), from whatever a user passes.

    >>> source, _ = as_source("dtmgp.simulators:ActivityNetwork")
    >>> source
    ImportedSource(path='dtmgp.simulators:ActivityNetwork')
    >>> as_source("./model --fast")[0]
    ShellCommand(command='./model --fast', form=<Form.CSV: 'csv'>, output=None)
    """
    if not isinstance(simulator, str):
        source = _wrap(simulator)
        return source, getattr(source, "simulator", simulator)
    text = simulator.strip()
    if not text:
        raise InputError("simulator", got="an empty text", expected="module:function or a shell command")
    if PATH.match(text):
        source = _wrap(import_object(text))
        _loaded[text] = source
        return ImportedSource(text), getattr(source, "simulator", source)
    return ShellCommand(text), None
