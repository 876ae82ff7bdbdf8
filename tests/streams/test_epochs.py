"""Oracles: sets of rows, the same rows in memory, the global batch of one process."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from tables import arrays, table, write

from dtmgp.errors import InputError
from dtmgp.inference import Runs
from dtmgp.streams import ArrayRows, BatchRows, ParquetRows, Streaming, survey
from dtmgp.streams.epochs import RunStream
from dtmgp.streams.prefetch import prefetched
from dtmgp.streams.shuffle import Lane

LANES = [1, 2, 4]


def same(x):
    return x


def stream(rows, fraction=0.1, seed=0):
    return RunStream(rows, survey(rows, seed, fraction), same, dtype=torch.float64)


def folder(tmp_path, replicates=3, lanes=None, buffer=500, rows=1500):
    columns = table(rows, replicates)
    streaming = Streaming(buffer=buffer, held_out=60, lanes=lanes)
    return columns, ParquetRows(write(tmp_path / "runs", columns), "y", streaming=streaming)


def one_pass(source, size, share=(0, 1), seed=0):
    return list(source.batches(size, torch.Generator().manual_seed(seed), share))


def rows_of(batches):
    """All runs with their inputs, in order."""
    return np.concatenate([torch.cat([b.x[b.group], b.y], dim=1).numpy() for b in batches])


def ordered(rows):
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [40, 5000])
def test_every_input_is_used_once_whatever_the_number_of_processes(tmp_path, lanes, world, size):
    columns, rows = folder(tmp_path, lanes=lanes)
    source = stream(rows)
    passes = [one_pass(source, size, (rank, world)) for rank in range(world)]
    whole = one_pass(source, size)
    assert {len(part) for part in passes} == {len(whole)} == {source.steps(size)}
    used = ordered(rows_of([b for part in passes for b in part if b.weight > 0]))
    np.testing.assert_array_equal(used, ordered(rows_of(whole)))
    held = np.concatenate([source.found.held_out.every, source.found.held_out.y], axis=1)
    everything = np.stack([*columns.values()], axis=1)
    np.testing.assert_array_equal(ordered(np.concatenate([used, held])), ordered(everything))
    assert source.inputs == sum(len(b.x) for b in whole)
    assert source.total == len(used) == whole[0].total
    sizes = [len(b.x) for b in whole]
    assert max(sizes) - min(sizes) <= lanes
    for batch, parts in zip(whole, zip(*passes)):  # the parts make up the batch, and their losses its loss
        some = [part for part in parts if part.weight > 0]
        np.testing.assert_array_equal(ordered(rows_of(some)), ordered(rows_of([batch])))
        mean = sum(part.weight * part.y.mean() for part in parts) / world
        torch.testing.assert_close(mean, batch.weight * batch.y.mean(), rtol=1e-12, atol=0.0)
        if world > 1:
            assert [p.place[0] for p in some] == np.cumsum([0, *[len(p.x) for p in some]])[:-1].tolist()
            assert {p.place[1] for p in parts} == {len(batch.x)}


@pytest.mark.parametrize("replicates", [1, 4])
def test_batches_are_random_batches_of_the_runs_in_memory(tmp_path, replicates):
    """Weights included: their mean over an epoch gives the mean over all runs where batches have equal sizes."""
    columns, rows = folder(tmp_path, replicates, rows=1000)
    source = stream(rows, fraction=0.0)
    batches = one_pass(source, source.inputs // 10)
    runs = Runs.group(*(part.reshape(1000, -1) for part in arrays(columns)), dtype=torch.float64)
    found = {
        tuple(x): y
        for b in batches
        for x, y in zip(b.x.tolist(), [b.y[b.group == k] for k in range(len(b.x))])
    }
    if replicates == 1:
        assert len(found) == len(runs.x)
        assert all(b.weight == 1.0 for b in batches)
    mean = sum(len(b.x) * b.weight * float(b.y.mean()) for b in batches) / source.inputs
    np.testing.assert_allclose(mean, columns["y"].mean(), rtol=1e-12)
    assert all(b.group.diff().min() >= 0 for b in batches)


def test_passes_differ_and_repeat_from_the_generator(tmp_path):
    source = stream(folder(tmp_path)[1])
    first, again, other = (rows_of(one_pass(source, 100, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    generator = torch.Generator().manual_seed(1)
    state = []
    for _ in source.batches(100, generator):
        state.append(generator.get_state())
    assert all(torch.equal(part, state[0]) for part in state)


def test_a_buffer_as_large_as_the_data_shuffles_evenly():
    """Rank correlation of place and row over 2,000 rows: 4.9 standard errors; first places come from everywhere."""
    x = np.arange(2000.0)[:, None]
    rows = ArrayRows(x, x[:, 0], streaming=Streaming(buffer=4000))
    places = np.concatenate([b.x[:, 0].numpy() for b in one_pass(stream(rows, 0.0), 100)])
    assert abs(np.corrcoef(places, np.arange(2000))[0, 1]) < 4.9 / np.sqrt(2000)
    assert places[:100].max() > 1500


def test_a_small_buffer_mixes_within_it_and_row_groups_come_in_random_order(tmp_path):
    columns = {"x0": np.arange(6400.0), "y": np.zeros(6400)}
    rows = ParquetRows(
        write(tmp_path / "runs", columns, files=1, rows=100), "y", streaming=Streaming(buffer=400, lanes=1)
    )
    places = rows_of(one_pass(stream(rows, 0.0), 50))[:, 0]
    groups = places[:200] // 100
    assert 2 <= len(set(groups)) <= 4  # the first half of the first buffer
    assert abs(np.corrcoef(places, np.arange(6400))[0, 1]) < 0.35  # 64 row groups in random order
    assert (np.diff(places) == 1).mean() < 0.05


def test_memory_is_bounded_by_the_buffer():
    """Rows that a lane has read and not yet handed out."""
    read = given = most = 0
    x, y = arrays(table(20_000))
    inner = stream(ArrayRows(x, y), 0.0)

    def counted():
        nonlocal read
        for piece in inner._pieces(np.arange(1)):
            for k in range(0, len(piece.x), 100):
                part = piece.take(np.arange(k, min(k + 100, len(piece.x))))
                read += len(part.y)
                yield part

    lane = Lane(counted(), 1000, np.random.default_rng(0))
    for _ in range(200):
        given += sum(len(part.y) for part in lane.take(100))
        most = max(most, read - given)
    lane.finish()
    assert given == 20_000
    assert 500 <= most <= 1100


def test_row_groups_that_are_empty_or_of_any_size_do_no_harm(tmp_path):
    columns = table(100)
    columns["x0"][:40] = np.nan
    rows = ParquetRows(write(tmp_path / "runs", columns, rows=10), "y", drop_missing=True)
    source = stream(rows, 0.3)
    assert len(rows_of(one_pass(source, 8))) == 42
    assert source.steps(1) == source.inputs == len(one_pass(source, 1))


def test_numbers_are_scaled_and_given_the_precision_of_the_training():
    x, y = arrays(table(100))
    rows = ArrayRows(x, y)
    source = RunStream(
        rows,
        survey(rows, validation_fraction=0.1),
        lambda part: part / 2,
        lambda part, key: part + 1,
        dtype=torch.float32,
    )
    (batch,) = one_pass(source, 1000)
    assert batch.x.dtype == batch.y.dtype == torch.float32
    found = ordered(np.concatenate([batch.x.numpy(), batch.y.numpy()], axis=1))
    held = source.found.held_out
    kept = [k for k in range(100) if not (held.x == x[k]).all(axis=1).any()]
    expected = np.concatenate([x[kept] / 2, y[kept, None] + 1], axis=1).astype(np.float32)
    np.testing.assert_array_equal(found, ordered(expected))


def test_data_that_change_between_passes_are_refused():
    x, y = arrays(table(1000))
    batches = [(x, y)]
    source = stream(BatchRows(batches))
    batches[0] = (x[:900], y[:900])
    with pytest.raises(InputError, match="fewer rows than in the pass before"):
        one_pass(source, 100)
    batches[0] = (np.concatenate([x, x + 1]), np.concatenate([y, y]))
    with pytest.raises(InputError, match="more rows than in the pass before"):
        one_pass(source, 100)
    used = [iter([(x, y)]), iter([(x, y)])]
    rows = BatchRows(lambda: used.pop())
    with pytest.raises(IndexError):  # of the function itself: told in the thread that asked
        one_pass(stream(rows), 10)


def test_fingerprints_change_with_the_data():
    x, y = arrays(table(1000))
    marks = [stream(ArrayRows(x, y + change)).fingerprint()[0] for change in (0.0, 0.0, 1e-12)]
    assert marks[0] == marks[1] != marks[2]


def test_a_pass_that_is_left_stops_its_thread(tmp_path):
    before = threading.active_count()
    batches = stream(folder(tmp_path)[1]).batches(10, torch.Generator())
    next(batches)
    assert threading.active_count() == before + 1
    batches.close()
    assert threading.active_count() == before


def test_errors_of_the_reading_thread_come_in_their_place():
    def items():
        yield 1
        raise InputError("disk", got="nothing", expected="rows")

    with prefetched(items(), 3) as ready:
        assert next(ready) == 1
        with pytest.raises(InputError, match="disk"):
            next(ready)


def test_impossible_shares_are_refused(tmp_path):
    with pytest.raises(InputError, match="share"):
        one_pass(stream(folder(tmp_path)[1]), 10, (2, 2))
