"""Oracle: every attempt has one name, which no other has; stores are torch's own, processes are threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from dtmgp.inference.meeting import attempt_name

PATIENCE = timedelta(seconds=300)


def attempt(store, world, delays):
    """The names that the processes of one attempt get."""

    def come(rank):
        time.sleep(delays[rank])
        return attempt_name(store, rank, world, PATIENCE)

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(come, range(world)))


@pytest.mark.parametrize("delays", [(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0.02)])
def test_each_attempt_has_a_name_of_its_own(delays):
    store = dist.HashStore()
    names = [attempt(store, 3, delays) for _ in range(5)]
    assert all(len(set(found)) == 1 for found in names)
    assert len({found[0] for found in names}) == 5


@pytest.mark.parametrize("first_dies", [False, True])
def test_what_the_dead_have_written_misleads_nobody(first_dies):
    store = dist.HashStore()
    for number in range(3):  # attempts in which somebody came and the others did not
        store.set("hello/1", f"dead{number}")
        if first_dies:
            store.set(f"welcome/dead{number}", f"old{number}")
            store.set(f"here/old{number}/1", "yes")
        names = attempt(store, 2, (0, 0.05))
        assert names[0] == names[1] != f"old{number}"


def test_who_does_not_come_is_named():
    with pytest.raises(RuntimeError, match="process 1 of 3 has not come"):
        attempt_name(dist.HashStore(), 0, 3, timedelta(seconds=0.1))


def test_waiting_for_the_first_ends():
    store = dist.HashStore()
    failed = []

    def come():
        try:
            attempt_name(store, 1, 2, timedelta(seconds=0.2))
        except RuntimeError as error:
            failed.append(error)

    thread = threading.Thread(target=come)
    thread.start()
    thread.join(60)
    assert failed
