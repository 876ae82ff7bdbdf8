"""Read ahead in a thread of its own: what an iterator makes is ready when it is asked for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
END = object()


@contextmanager
def prefetched(items: Iterator[Item], ahead: int) -> Iterator[Iterator[Item]]:
    """The same items in the same order, at most ``ahead`` of them waiting; an error comes where its item would.

    Leaving the block stops the thread and closes the iterator, also when items are left.

    >>> with prefetched(iter(range(3)), ahead=2) as ready:
    ...     list(ready)
    [0, 1, 2]
    """
    line: queue.Queue[Any] = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                line.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((END, None))
        except BaseException as error:  # handed over, not hidden
            put((END, error))
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def ready() -> Iterator[Item]:
        while True:
            item, error = line.get()
            if error is not None:
                raise error
            if item is END:
                return
            yield item

    thread = threading.Thread(target=read, name="dtmgp rows", daemon=True)
    thread.start()
    try:
        yield ready()
    finally:
        stop.set()
        thread.join()
