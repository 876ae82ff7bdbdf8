"""Random states: every random call of the library takes an int, a Generator or None."""

from __future__ import annotations

import numpy as np

from dtmgp.errors import InputError

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a NumPy generator: the same int gives the same draws, a Generator is used as it is.

    A legacy ``RandomState`` (scikit-learn passes these) seeds a new generator from its stream.

    >>> float(as_generator(3).random()) == float(as_generator(3).random())
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None or (
        isinstance(random_state, int | np.integer)
        and not isinstance(random_state, bool)
        and random_state >= 0
    ):
        return np.random.default_rng(random_state)
    raise InputError(
        "random_state",
        got=repr(random_state),
        expected="a non-negative int, a numpy Generator or None",
        do="pass an int for repeatable draws",
    )
