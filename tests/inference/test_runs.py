"""Oracles: dictionaries of runs by input, naive loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.inference import Batch, Runs


def data(seed=0):
    """Unequal numbers of replicates in random order."""
    rng = np.random.default_rng(seed)
    distinct = rng.uniform(size=(7, 2))
    number = rng.permutation(np.repeat(np.arange(7), [1, 4, 2, 1, 3, 6, 2]))
    return distinct[number], rng.normal(size=(len(number), 3))


def test_group_keeps_every_run_with_its_input_in_order_of_appearance():
    x, y = data()
    runs = Runs.group(x, y, dtype=torch.float64)
    expected: dict[tuple[float, ...], list[np.ndarray]] = {}
    for point, value in zip(x, y):
        expected.setdefault(tuple(point), []).append(value)
    assert [tuple(p) for p in runs.x.tolist()] == list(expected)
    for i, values in enumerate(expected.values()):
        np.testing.assert_array_equal(runs.y[runs.start[i] : runs.start[i + 1]], values)
    assert runs.counts.tolist() == [len(v) for v in expected.values()]


@pytest.mark.parametrize("chosen", [[3], [6, 0, 2], [1, 1], list(range(7))])
def test_batch_and_take_hold_all_runs_of_the_inputs_asked_for(chosen):
    runs = Runs.group(*data(), dtype=torch.float64)
    batch, part = runs.batch(torch.tensor(chosen)), runs.take(torch.tensor(chosen))
    rows, group = [], []
    for place, i in enumerate(chosen):
        for row in range(int(runs.start[i]), int(runs.start[i + 1])):
            rows.append(row)
            group.append(place)
    assert torch.equal(batch.x, runs.x[chosen])
    assert torch.equal(batch.y, runs.y[rows])
    assert batch.group.tolist() == group
    assert batch.total == len(runs.y)
    assert torch.equal(part.y, batch.y)
    assert part.counts.tolist() == runs.counts[chosen].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_batches_pass_once_over_everything(size):
    runs = Runs.group(*data(), dtype=torch.float64)
    batches = list(runs.batches(size, torch.Generator().manual_seed(0)))
    assert len(batches) == -(-7 // size)
    assert max(len(b.x) for b in batches) <= size
    assert max(len(b.x) for b in batches) - min(len(b.x) for b in batches) <= 1
    for seen, everything in [
        (torch.cat([b.x for b in batches]), runs.x),
        (torch.cat([b.y for b in batches]), runs.y),
    ]:
        assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, everything.tolist()))


def test_batches_repeat_with_the_generator_and_differ_between_passes():
    runs, generator = Runs.group(*data()), torch.Generator().manual_seed(0)
    first, second = (next(iter(runs.batches(7, generator))).x for _ in range(2))
    again = next(iter(runs.batches(7, torch.Generator().manual_seed(0)))).x
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_weighted_batch_means_are_unbiased_with_unequal_replicates(size):
    """Over all pairs of batch members, the weighted means average to the mean over all runs."""
    runs = Runs.group(*data(), dtype=torch.float64)
    found = []
    for chosen in np.ndindex(*[7] * size):
        batch = runs.batch(torch.tensor(chosen))
        found.append(batch.weight * batch.y.mean(0))
    torch.testing.assert_close(torch.stack(found).mean(0), runs.y.mean(0))


def test_weights_are_exactly_one_with_equal_replicates():
    x, y = np.random.default_rng(0).uniform(size=(30, 2)).repeat(7, 0), np.zeros((210, 1))
    runs = Runs.group(x, y)
    assert all(batch.weight == 1.0 for batch in runs.batches(4))
    assert Batch.of(runs.x, runs.y[:30]).weight == 1.0


@pytest.mark.parametrize(("n", "d", "w"), [(1, 1, 1), (1, 3, 2), (2, 1, 1)])
def test_one_row(n, d, w):
    runs = Runs.group(np.zeros((n, d)), np.arange(float(n * w)).reshape(n, w))
    assert len(runs.x) == 1
    assert runs.counts.tolist() == [n]
    (batch,) = runs.batches(10)
    assert batch.y.shape == (n, w)


def test_minus_zero_is_zero():
    assert len(Runs.group(np.array([[0.0], [-0.0]]), np.zeros((2, 1))).x) == 1


@pytest.mark.parametrize(("x", "y"), [((3,), (3, 1)), ((3, 1), (3,)), ((3, 1), (2, 1)), ((0, 1), (0, 1))])
def test_shapes_that_are_no_runs_are_refused(x, y):
    with pytest.raises(InputError, match="shapes"):
        Runs.group(np.zeros(x), np.zeros(y))


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize("size", [2, 4, 7])
def test_parts_of_a_global_batch_make_it_up_again(world, size):
    runs = Runs.group(*data(), dtype=torch.float64)
    passes = [
        list(runs.batches(size, torch.Generator().manual_seed(1), (rank, world))) for rank in range(world)
    ]
    whole = list(runs.batches(size, torch.Generator().manual_seed(1)))
    assert {len(part) for part in passes} == {len(whole)} == {runs.steps(size)}
    for batch, parts in zip(whole, zip(*passes)):
        used = [part for part in parts if part.weight > 0]
        assert torch.equal(torch.cat([part.x for part in used]), batch.x)
        assert torch.equal(torch.cat([part.y for part in used]), batch.y)
        assert [part.place[0] for part in used] == np.cumsum([0, *[len(p.x) for p in used]])[:-1].tolist()
        assert all(part.place[1] == len(batch.x) and len(part.x) for part in parts)
        # the mean over processes of weight * mean is that of the whole: any number a run will do
        mean = sum(part.weight * part.y.mean() for part in parts) / world
        torch.testing.assert_close(mean, batch.weight * batch.y.mean(), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("share", [(2, 2), (-1, 2), (0, 0)])
def test_impossible_shares_are_refused(share):
    runs = Runs.group(*data(), dtype=torch.float64)
    with pytest.raises(InputError, match="share"):
        next(runs.batches(3, share=share))
