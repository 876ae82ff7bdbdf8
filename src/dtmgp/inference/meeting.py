"""A name for one attempt of several processes to find one another.

torchrun keeps one store for all its attempts (torch 2.13), and gloo writes the addresses of processes there: after a
restart it finds those of the dead and waits for them for ever. So every attempt gets a name of its own, under which
nothing has been written before.
"""

from __future__ import annotations

import secrets
import time
from datetime import timedelta

import torch.distributed as dist

LONGEST_PAUSE = 0.2  # seconds between two looks of the first process


def attempt_name(store: dist.Store, rank: int, world: int, patience: timedelta) -> str:
    """The same name in all processes of this attempt, and in no others; raises RuntimeError when patience ends.

    Every process but the first says a number that nobody has said before, and waits for the answer to it. The first one
    answers whatever it finds, also what the dead have said, until all have taken its own number for the name.
    """
    number = secrets.token_hex(8)
    if rank > 0:
        store.set(f"hello/{rank}", number)
        answer = f"welcome/{number}"
        store.wait([answer], patience)
        name = store.get(answer).decode()
        store.set(f"here/{name}/{rank}", "yes")
        return name
    missing, answered = set(range(1, world)), set()
    pause, end = 0.005, time.monotonic() + patience.total_seconds()
    while missing:
        for other in sorted(missing):
            if store.check([f"here/{number}/{other}"]):
                missing.discard(other)
            elif store.check([f"hello/{other}"]):
                said = store.get(f"hello/{other}").decode()
                if said not in answered:
                    store.set(f"welcome/{said}", number)
                    answered.add(said)
        if missing and time.monotonic() > end:
            raise RuntimeError(f"process {min(missing)} of {world} has not come in {patience}")
        time.sleep(pause if missing else 0.0)
        pause = min(2 * pause, LONGEST_PAUSE)
    return number
