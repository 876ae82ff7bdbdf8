"""Oracles: simulators broken on purpose in one way each, which the check must name."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.random import as_generator
from dtmgp.simulators.base import Simulator, check_count, check_inputs
from dtmgp.testing import check_simulator


class Noise:
    """x_1 + x_2 plus a uniform number; the smallest right simulator."""

    draws_row_by_row = True
    input_names = ("x1", "x2")

    @property
    def bounds(self):
        return np.array([[0.0, 1.0], [2.0, 4.0]])

    def sample(self, X, n_replicates=1, random_state=None):
        inputs = check_inputs(X, self.bounds, self.input_names)
        shape = (len(inputs), check_count("n_replicates", n_replicates))
        return inputs.sum(axis=1)[:, None] + as_generator(random_state).random(shape)


class IgnoresSeed(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        return super().sample(X, n_replicates, None)


class AlwaysTheSameSeed(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        return super().sample(X, n_replicates, 0)


class OneDrawPerRow(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        check_count("n_replicates", n_replicates)
        return np.repeat(super().sample(X, 1, random_state), n_replicates, axis=1)


class Transposed(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        return super().sample(X, n_replicates, random_state).T


class ColumnsFirst(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        inputs = check_inputs(X, self.bounds, self.input_names)
        shape = (check_count("n_replicates", n_replicates), len(inputs))
        return inputs.sum(axis=1)[:, None] + as_generator(random_state).random(shape).T


class NoBoundsCheck(Noise):
    def sample(self, X, n_replicates=1, random_state=None):
        return super().sample(np.clip(X, *self.bounds.T), n_replicates, random_state)


class SharedBounds(Noise):
    _bounds = np.array([[0.0, 1.0], [2.0, 4.0]])

    @property
    def bounds(self):
        return self._bounds


class SameNames(Noise):
    input_names = ("x", "x")


def test_a_right_simulator_passes():
    assert isinstance(Noise(), Simulator)
    check_simulator(Noise())


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (IgnoresSeed, "same seed"),
        (AlwaysTheSameSeed, "another seed"),
        (OneDrawPerRow, "replicates of one input"),
        (Transposed, r"\(n, r\)"),
        (ColumnsFirst, "draws_row_by_row"),
        (NoBoundsCheck, "outside the bounds"),
        (SharedBounds, "copy"),
        (SameNames, "differ"),
    ],
)
def test_a_broken_simulator_is_named(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_simulator(broken())
