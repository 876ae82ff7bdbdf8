"""Oracles: NumPy on all rows at once; for samples the hypergeometric law (fixed seeds)."""

from __future__ import annotations

import numpy as np
import pytest
from tables import arrays, table, write

from dtmgp.errors import InputError
from dtmgp.streams import ArrayRows, BatchRows, ParquetRows, Streaming, survey
from dtmgp.streams.hashing import HELD_OUT, input_hash, mixed, row_hash, row_keys, row_uniforms
from dtmgp.streams.pieces import MOST_RUNS, grouped


def test_totals_are_those_of_all_rows(tmp_path):
    columns = table(5000, replicates=3)
    x, y = arrays(columns)
    found = survey(ParquetRows(write(tmp_path / "runs", columns), "y"))
    np.testing.assert_array_equal(found.low, x.min(axis=0))
    np.testing.assert_array_equal(found.high, x.max(axis=0))
    np.testing.assert_allclose(found.y_mean[0], y.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.y_std[0], y.std(), rtol=1e-12)
    assert (found.y_low[0], found.y_high[0]) == (y.min(), y.max())
    assert found.rows == 5000
    assert not found.whole
    assert survey(ArrayRows(x, np.round(y))).whole


def test_moments_keep_their_digits_beside_a_large_constant():
    y = 1e6 + np.random.default_rng(0).normal(size=100_000)
    found = survey(ArrayRows(np.arange(100_000.0)[:, None], y))
    np.testing.assert_allclose(found.y_std[0], y.std(), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_adjacent_equal_inputs_are_one_group_wherever_blocks_end(size):
    x, y = arrays(table(2000, replicates=4))
    pairs = [(x[k : k + size], y[k : k + size]) for k in range(0, len(x), size)]
    pieces = list(grouped(BatchRows(pairs).blocks(), 0))
    starts = np.flatnonzero(np.append(True, (x[1:] != x[:-1]).any(axis=1)))
    np.testing.assert_array_equal(np.concatenate([p.x for p in pieces]), x[starts])
    np.testing.assert_array_equal(np.concatenate([p.y for p in pieces])[:, 0], y)
    counts = np.concatenate([p.counts for p in pieces])
    np.testing.assert_array_equal(counts, np.diff(starts, append=len(x)))
    np.testing.assert_array_equal(np.concatenate([p.key for p in pieces]), np.arange(len(x)))


@pytest.mark.parametrize("size", [1000, 4096, 100_000])
def test_a_group_without_end_is_cut_in_the_same_places(size):
    rows = 2 * MOST_RUNS + 5
    x, y = np.append(np.zeros(rows), [1.0])[:, None], np.arange(rows + 1.0)
    pairs = [(x[k : k + size], y[k : k + size]) for k in range(0, len(x), size)]
    counts = np.concatenate([p.counts for p in grouped(BatchRows(pairs).blocks(), 0)])
    assert counts.tolist() == [MOST_RUNS, MOST_RUNS, 5, 1]


def test_pieces_give_inputs_with_their_runs():
    x, y = arrays(table(300, replicates=4))
    piece, _ = grouped(BatchRows([(x, y)]).blocks(), 0)
    chosen = np.array([5, 0, 5, 17])
    part = piece.take(chosen)
    expected = np.concatenate([y[(x == piece.x[k]).all(axis=1)] for k in chosen])
    np.testing.assert_array_equal(part.y[:, 0], expected)
    np.testing.assert_array_equal(part.every[:, 0], np.repeat(piece.x[chosen, 0], piece.counts[chosen]))


def test_a_small_table_is_its_own_sample():
    x, y = arrays(table(500, replicates=2))
    found = survey(ArrayRows(x, y))
    np.testing.assert_array_equal(found.start.every, x)
    np.testing.assert_array_equal(found.start.y[:, 0], y)


def test_samples_do_not_depend_on_the_order_of_reading_and_respect_their_bounds(tmp_path):
    columns = table(4000, replicates=3)
    streaming = Streaming(start=300, held_out=100)
    rows = ParquetRows(write(tmp_path / "runs", columns), "y", streaming=streaming)
    found = survey(rows, seed=5)
    assert 290 < len(found.start.y) <= 300
    assert 90 < len(found.held_out.y) <= 100
    # the rule: all inputs whose first row has a hash of at most the limit, and no others
    keys, inputs, counts = [], [], []
    for k in reversed(range(rows.row_groups)):
        for piece in grouped(rows.blocks(k), k):
            keys.append(piece.key[piece.first])
            inputs.append(piece.x)
            counts.append(piece.counts)
    below = row_hash(np.concatenate(keys), 5, HELD_OUT) <= found.limit
    assert below.sum() == len(found.held_out.x)
    assert np.concatenate(counts)[below].sum() == len(found.held_out.y)
    assert set(map(tuple, np.concatenate(inputs)[below])) == set(map(tuple, found.held_out.x))
    assert found.learn_inputs.sum() == found.inputs - len(found.held_out.x)
    assert found.learn_rows.sum() == found.rows - len(found.held_out.y)
    assert survey(rows, seed=6).limit != found.limit


def test_the_start_has_many_inputs_where_each_has_many_runs():
    x, y = arrays(table(500))
    x, y = x.repeat(60, axis=0), y.repeat(60) + np.arange(30_000) % 60
    found = survey(ArrayRows(x, y, streaming=Streaming(start=400)))
    assert len(found.start.x) == 100
    assert (found.start.counts == 4).all()
    assert (found.start.y[:4] - found.start.y[0]).ravel().tolist() == [0.0, 1.0, 2.0, 3.0]
    few = survey(ArrayRows(x[:360], y[:360], streaming=Streaming(start=400)))
    np.testing.assert_array_equal(few.start.every, x[:360])
    np.testing.assert_array_equal(few.start.y[:, 0], y[:360])


def test_samples_are_uniform():
    """Mean of 400 of 20,000 row numbers: 4.9 standard errors, false alarm 1e-6."""
    x = np.arange(20_000.0)[:, None]
    for seed in range(5):
        sample = survey(ArrayRows(x, x[:, 0], streaming=Streaming(start=400)), seed=seed).start
        error = (sample.x.mean() - 9999.5) / np.sqrt(20_000**2 / 12 / 400)
        assert len(sample.x) == 400
        assert abs(error) < 4.9


@pytest.mark.parametrize(("fraction", "rows", "expected"), [(0.1, 200, 20), (0.0, 200, 0), (0.5, 29, 0)])
def test_held_out_numbers_are_those_of_a_fit_in_memory(fraction, rows, expected):
    x, y = arrays(table(rows))
    held = survey(ArrayRows(x, y), validation_fraction=fraction).held_out
    assert (0 if held is None else len(held.x)) == expected


def test_order_and_scattered_replicates_are_seen():
    x = np.random.default_rng(0).uniform(size=(300, 2)).round(3).repeat(20, axis=0)
    y = np.zeros(len(x))
    adjacent = survey(ArrayRows(x, y))
    assert (adjacent.is_sorted, adjacent.scattered, adjacent.inputs) == (False, False, 300)
    ordered = survey(ArrayRows(x[np.lexsort(x.T[::-1])], y))
    assert (ordered.is_sorted, ordered.scattered) == (True, False)
    mixed_up = survey(ArrayRows(x[np.random.default_rng(1).permutation(len(x))], y))
    assert (mixed_up.is_sorted, mixed_up.scattered, mixed_up.distinct) == (False, True, 300.0)
    assert "About 300 inputs are distinct" in str(mixed_up)
    assert "Sort the rows" not in str(adjacent)


def test_distinct_inputs_are_estimated():
    """Relative error of 4096 smallest hashes 1.6%; 4.9 of them."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40_000, size=(200_000, 1)) / 40_000
    expected = len(np.unique(x))
    found = survey(ArrayRows(x, np.zeros(200_000)))
    assert abs(found.distinct / expected - 1) < 4.9 * 0.016
    assert found.scattered


def test_hashes_tell_rows_and_inputs_apart():
    keys = np.concatenate([row_keys(k, np.arange(1000)) for k in range(50)])
    assert len(np.unique(row_hash(keys, 0, HELD_OUT))) == len(keys)
    assert len(np.unique(mixed(keys, 3))) == len(keys)
    x = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    found = input_hash(x)
    assert found[0] == found[1]
    assert len(set(found.tolist())) == 3
    grid = np.stack([part.ravel() for part in np.meshgrid(*[np.arange(30.0)] * 3)], axis=1)
    assert len(np.unique(input_hash(grid))) == len(grid)


def test_uniform_numbers_of_rows():
    """Mean and variance of 200,000: 4.9 standard errors."""
    u = row_uniforms(row_keys(3, np.arange(100_000)), 2, seed=1)
    assert ((u >= 0) & (u < 1)).all()
    assert abs(u.mean() - 0.5) < 4.9 * np.sqrt(1 / 12 / u.size)
    assert abs(u.var() - 1 / 12) < 4.9 * np.sqrt(1 / 180 / u.size)
    assert abs(np.corrcoef(u.T)[0, 1]) < 4.9 / np.sqrt(len(u))
    np.testing.assert_array_equal(u[7:9], row_uniforms(row_keys(3, np.arange(7, 9)), 2, seed=1))


@pytest.mark.parametrize(
    "options", [{"buffer": 1}, {"start": 0}, {"lanes": 0}, {"ahead": 0.5}, {"held_out": True}]
)
def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(InputError, match=f"Streaming {next(iter(options))}"):
        Streaming(**options)


def test_fewer_than_two_rows_are_refused():
    with pytest.raises(InputError, match="expected at least 2"):
        survey(ArrayRows(np.zeros((1, 1)), np.zeros(1)))
