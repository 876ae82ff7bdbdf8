"""Oracle: the definition of Appendix A in plain loops; neighbours by searching all earlier points."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtmgp.errors import InputError
from dtmgp.grids import Dyadic, Nested, dyadic_points, paired_points

SEQUENCES = [
    Dyadic(),
    Nested([[0.5], [0.0, 1.0], [0.2, 0.7], [0.1, 0.3, 0.6, 0.9], [0.55]]),
    paired_points(10),
]


def test_the_papers_third_set():
    assert dyadic_points(3).tolist() == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 3 / 8, 5 / 8, 7 / 8]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_increments_counts_and_starts(sequence):
    top = min(8, sequence.max_level)
    lines = [sequence.increment(level).tolist() for level in range(1, top + 1)]
    listed = list(itertools.chain.from_iterable(lines))
    assert sequence.points(top).tolist() == listed
    assert all(line == sorted(line) for line in lines)
    for level, line in enumerate(lines, start=1):
        assert sequence.count(level) == len(line)
        assert sequence.start(level) == sum(map(len, lines[: level - 1]))
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_neighbours_by_search(sequence):
    top = min(8, sequence.max_level)
    for level in range(1, top + 1):
        earlier = sequence.points(level)[: sequence.start(level)]
        left, right = sequence.neighbours(level)
        for place, x in enumerate(sequence.increment(level)):
            below = [i for i, y in enumerate(earlier) if y < x]
            above = [i for i, y in enumerate(earlier) if y > x]
            assert left[place] == max(below, key=lambda i: earlier[i], default=-1)
            assert right[place] == min(above, key=lambda i: earlier[i], default=-1)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_locate_finds_the_support_that_holds_x(sequence):
    top = min(7, sequence.max_level)
    x = np.concatenate([np.linspace(-0.4, 1.4, 200), sequence.points(top), [-1e300, 1e300, 5e-324, -0.0]])
    for level in range(1, top + 1):
        points = sequence.points(level)
        left, right = sequence.neighbours(level)
        low = [points[i] if i >= 0 else -math.inf for i in left]
        high = [points[i] if i >= 0 else math.inf for i in right]
        place = sequence.locate(x, level)
        assert place.min() >= 0
        assert place.max() < sequence.count(level)
        for value, found in zip(x, place):
            holding = [i for i in range(len(low)) if low[i] < value < high[i]]
            assert holding in ([], [found])  # supports of one increment are disjoint
            if isinstance(sequence, Dyadic) and value not in points:
                assert holding == [found]


@given(st.lists(st.sets(st.integers(1, 63), min_size=1, max_size=3), min_size=1, max_size=6))
def test_nested_takes_a_sequence_exactly_if_supports_are_disjoint(levels):
    increments = [[0.5], *([i / 64 for i in sorted(level)] for level in levels)]
    known, legal = [], True
    for points in increments:
        gaps = [sum(y < x for y in known) for x in points]
        legal &= not set(points) & set(known) and len(set(gaps)) == len(gaps)
        known += points
    if legal:
        assert Nested(increments).points(len(increments)).tolist() == known
    else:
        with pytest.raises(InputError, match="Nested sequence, level"):
            Nested(increments)


@pytest.mark.parametrize(
    ("increments", "words"),
    [
        ([], "0 points in level 1"),
        ([[0.2, 0.8]], "2 points in level 1"),
        ([[0.5], [0.5]], "level 2: got 0.5 again"),
        ([[0.5], [0.1, 0.2]], "0.1 and 0.2 in one gap"),
        ([[0.5], [np.nan]], "finite"),
        ([[0.5], []], "finite"),
    ],
)
def test_nested_refusals(increments, words):
    with pytest.raises(InputError, match=words):
        Nested(increments)


def test_levels_beyond_the_sequence():
    for sequence, level in ((Nested([[0.5]]), 2), (Dyadic(), 51), (Dyadic(), 0)):
        with pytest.raises(
            InputError, match=f"got {level}; expected an integer from 1 to {sequence.max_level}"
        ):
            sequence.points(level)
    with pytest.raises(InputError, match="1 to 10"):
        paired_points(11)


def test_dyadic_is_exact_to_its_last_level():
    points = Dyadic().neighbours(16)
    assert points.left[0] == points.right[-1] == -1
    assert 1.0 - 2.0**-50 == (2**50 - 1) / 2**50 < 1.0


def test_nested_is_a_value():
    one, two = Nested([[0.5], [0.25]]), Nested([(0.5,), (0.25,)])
    assert one == two
    assert hash(one) == hash(two)
    assert one != Nested([[0.5], [0.75]])
    assert one != Dyadic()
    assert repr(one) == "Nested(2 levels, 2 points)"
