"""Bounded work: so many computations at a time, so many waiting, and a deadline that stops what nobody waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dtmgp.serve.faults import Busy, Overrun

Result = TypeVar("Result")


class Deadline:
    """Checked between parts of a computation; the thread that computes cannot be stopped from outside.

    >>> Deadline(-1.0).check()
    Traceback (most recent call last):
    dtmgp.serve.faults.Overrun: the computation took longer than -1 s: ask for fewer rows
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.cancelled = False

    @property
    def left(self) -> float:
        """Seconds until the end, not below 0."""
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Raise if the time is over or the client has gone."""
        if self.cancelled or time.monotonic() > self.end:
            raise Overrun(f"the computation took longer than {self.seconds:g} s: ask for fewer rows")


class Capacity:
    """Runs computations in threads; a place is given back when its thread is free, not when its client gives up."""

    def __init__(self, running: int, waiting: int, seconds: float) -> None:
        self.running, self.waiting, self.seconds = running, waiting, seconds
        self._places = asyncio.Semaphore(running)
        self._pool = ThreadPoolExecutor(running, thread_name_prefix="dtmgp-serve")
        self.queued = 0
        self.active = 0

    async def run(self, work: Callable[[Deadline], Result]) -> Result:
        """The result of ``work(deadline)``."""
        if self.queued >= self.waiting and self._places.locked():
            raise Busy(f"{self.running} computations run and {self.queued} wait: try again later")
        deadline = Deadline(self.seconds)
        self.queued += 1
        try:
            await asyncio.wait_for(self._places.acquire(), deadline.left)
        except TimeoutError:
            raise Overrun(f"no computation could start within {self.seconds:g} s: try again later") from None
        finally:
            self.queued -= 1
        self.active += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work, deadline)
        except BaseException:
            self._free(None)
            raise
        future.add_done_callback(self._free)
        try:
            return await asyncio.wait_for(asyncio.shield(future), deadline.left)
        except TimeoutError:
            raise Overrun(f"the computation took longer than {self.seconds:g} s: ask for less") from None
        finally:
            deadline.cancelled = True

    def _free(self, future: asyncio.Future[Result] | None) -> None:
        if future is not None and not future.cancelled():
            future.exception()  # seen: a client that gave up does not ask for it
        self.active -= 1
        self._places.release()

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
