"""What the checks are written with: requirements that hold also under ``python -O`` and say what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def require(condition: object, message: str) -> None:
    """Raise AssertionError(message) unless the condition holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def require_error(call: Callable[[], Any], *words: str, what: str) -> None:
    """Require that the call raises a ValueError whose message contains all the words."""
    try:
        call()
    except ValueError as error:
        for word in words:
            require(
                word in str(error), f"{what}: the message should contain {word!r}, but it is {str(error)!r}"
            )
    else:
        raise AssertionError(f"{what}: a ValueError was expected, nothing was raised")


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in dtype, shape and every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
