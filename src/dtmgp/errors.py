"""The one kind of error that a user can cause, and the one form its message takes."""

from __future__ import annotations


class InputError(ValueError):
    """Input that this library cannot work with.

    The message always answers four questions: what came, what was expected, why that is
    likely to have happened, and what to do about it.

    >>> raise InputError("two-column inputs", got="3 columns", expected="2 columns", do="drop one")
    Traceback (most recent call last):
    dtmgp.errors.InputError: two-column inputs: got 3 columns; expected 2 columns. What to do: drop one.
    """

    def __init__(self, what: str, *, got: str, expected: str, cause: str = "", do: str = "") -> None:
        parts = [f"{what}: got {got}; expected {expected}."]
        if cause:
            parts.append(f"Likely cause: {cause}.")
        if do:
            parts.append(f"What to do: {do}.")
        super().__init__(" ".join(parts))
