"""Run-time checks of types and shapes for the tests: which modules, and by which checker."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Self, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook
from numpy.typing import ArrayLike

CHECKED = [
    "dtmgp.kernels",
    "dtmgp.grids",
    "dtmgp.expansion",
    "dtmgp.kriging",
    "dtmgp.estimators",
    "dtmgp.simulators",
    "dtmgp.baselines",
    "dtmgp.metrics",
]

# an int is a float to users, as it is to type checkers
NUMERIC = beartype(conf=BeartypeConf(is_pep484_tower=True))


def is_uncheckable(hint: Any) -> bool:
    """``Self`` is known to beartype on whole classes only; ``ArrayLike`` says no to tuples at run time."""
    if isinstance(hint, str):
        return re.search(r"\b(Self|ArrayLike)\b", hint) is not None
    return hint is Self or all(part in get_args(hint) for part in get_args(ArrayLike))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype, without the hints that it cannot check.

    Constructors of estimators are left alone: scikit-learn's rule is that they take anything and ``fit`` complains.
    """
    if function.__module__.startswith("dtmgp.estimators") and function.__name__ == "__init__":
        return function
    hints = getattr(function, "__annotations__", {})
    function.__annotations__ = {n: object if is_uncheckable(hint) else hint for n, hint in hints.items()}
    return NUMERIC(function)


class PlainJitFinder(MetaPathFinder):
    """Imports `dtmgp.<...>._jit` without the hook: numba code cannot be decorated a second time."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("dtmgp.") and fullname.endswith("._jit"):
            return PathFinder.find_spec(fullname, path, target)
        return None


def install() -> None:
    """Check every annotated function and dataclass of the packages in ``CHECKED``."""
    install_import_hook(CHECKED, "runtime_checks.check")
    sys.meta_path.insert(0, PlainJitFinder())
