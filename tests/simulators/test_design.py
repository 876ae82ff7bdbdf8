"""Oracles: the definition of a Latin hypercube, all pairwise distances, the uniform margins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dtmgp.errors import InputError
from dtmgp.simulators import latin_hypercube, maximin_latin_hypercube
from dtmgp.simulators.design import _exchange, _nearest, _unit_latin_hypercube

BOUNDS = np.array([[0.5, 5.0], [-1.0, 1.0], [10.0, 30.0]])


def unit(design):
    return (design - BOUNDS[:, 0]) / (BOUNDS[:, 1] - BOUNDS[:, 0])


@pytest.mark.parametrize("make", [latin_hypercube, maximin_latin_hypercube])
@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_every_slice_of_every_input_holds_one_point(make, n):
    design = make(n, BOUNDS, 3)
    assert design.shape == (n, 3)
    slices = np.sort(np.floor(unit(design) * n), axis=0)
    np.testing.assert_array_equal(slices, np.tile(np.arange(n)[:, None], (1, 3)))
    assert (design >= BOUNDS[:, 0]).all()
    assert (design <= BOUNDS[:, 1]).all()
    assert design.tobytes() == make(n, BOUNDS, 3).tobytes()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_more_exchanges_never_bring_points_closer(seed):
    distances = [
        pdist(unit(maximin_latin_hypercube(60, BOUNDS, seed, n_exchanges=k))).min() for k in (0, 100, 1000)
    ]
    assert distances[0] <= distances[1] <= distances[2]
    assert distances[2] > 1.5 * distances[0]


def test_exchange_keeps_track_of_nearest_neighbours():
    # A wrong update of the neighbours would stop the search early or undo its gain: compare with a search
    # that recomputes all of them after every exchange, from the same random numbers.
    points = _unit_latin_hypercube(40, 2, np.random.default_rng(0))
    slow = points.copy()
    _exchange(points, 300, np.random.default_rng(5))
    generator = np.random.default_rng(5)
    for _ in range(300):
        nearest, _ = _nearest(slow)
        closest = int(nearest.argmin())
        other, column = int(generator.integers(40)), int(generator.integers(2))
        if other == closest:
            continue
        trial = slow.copy()
        trial[[closest, other], column] = slow[[other, closest], column]
        if min(_nearest(trial)[0][[closest, other]]) > nearest[closest]:
            slow = trial
    # Both ends of the closest pair are at the same distance, so the two searches may start from different ends;
    # argmin breaks that tie in the same way.
    np.testing.assert_array_equal(points, slow)


def test_bounds_are_checked():
    with pytest.raises(InputError, match="bounds of input 1"):
        latin_hypercube(5, [(0, 1), (1, 1)])
    with pytest.raises(InputError, match="shape"):
        maximin_latin_hypercube(5, [0, 1])
    with pytest.raises(InputError, match="n: got 0"):
        latin_hypercube(0, BOUNDS)
