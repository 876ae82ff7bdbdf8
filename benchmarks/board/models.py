"""The models of the board: a factory that makes an unfitted estimator from a seed, for every name."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import Any

from dtmgp.errors import InputError

Factory = Callable[[int], Any]
TRIVIAL = ("quadratic-bootstrap", "ignores-x")  # always on the board, with the truth

# name -> (module, class, whether it takes random_state); imported when first used
CLASSES: dict[str, tuple[str, str, bool]] = {
    "default": ("dtmgp", "DTMGPRegressor", True),
    "tmgp": ("dtmgp", "TMGPRegressor", True),
    "quadratic-bootstrap": ("dtmgp.baselines", "QuadraticBootstrap", False),
    "ignores-x": ("dtmgp.baselines", "InputIgnoringKDE", False),
    "exact-gp": ("dtmgp.baselines", "ExactGP", False),
    "bnn-relu": ("dtmgp.baselines", "BNNReLU", True),
    "random-feature-dgp": ("dtmgp.baselines", "RandomFeatureDGP", True),
    "vecchia-dgp": ("dtmgp.baselines", "VecchiaDGP", True),
}


def factory(text: str) -> Factory:
    """The factory of a name, with arguments if some are given; ``module:name`` is a factory of your own.

    ``default``, ``default(max_epochs=20)``, ``mymodule:make`` with ``make(random_state=seed, ...)``. Values are
    Python literals. ``peers:Name`` stands for the wrappers of ``benchmarks/peers``, which run in ``.venv-peers``.

    >>> factory("ignores-x(bandwidth=0.5)")(0)
    InputIgnoringKDE(not fitted)
    """
    name, options = _parse(text)
    if ":" in name:
        module, attribute = name.split(":", 1)
        seeded = True
    elif name in CLASSES:
        module, attribute, seeded = CLASSES[name]
    else:
        raise InputError(
            f"model {text!r}",
            got="no such model",
            expected=f"one of {', '.join(CLASSES)}, or module:factory",
        )

    def make(seed: int) -> Any:
        return getattr(importlib.import_module(module), attribute)(
            **({"random_state": seed} if seeded else {}), **options
        )

    return make


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    name, bracket, arguments = text.partition("(")
    if not bracket:
        return text, {}
    try:
        call = ast.parse(f"f({arguments}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        return name, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError):
        raise InputError(
            f"model {text!r}",
            got="arguments that cannot be read",
            expected="name(option=literal, ...), e.g. default(max_epochs=20)",
        ) from None
