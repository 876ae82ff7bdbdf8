"""Several processes that train one model: who they are, what is decided once, and how they start and end.

Every process holds the whole model and makes the same step from the sum of all gradients (`inference.reduction`). What
must not differ is decided by the first process and sent to the others. ``torchrun`` starts the processes and tells
each its place in environment variables; without them there is one process, and everything here does nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import importlib
import os
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist

from dtmgp.errors import InputError
from dtmgp.inference.meeting import attempt_name

T = TypeVar("T")
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun and its like set
LONGEST = dt.timedelta(hours=2)  # that a process waits for another: for the start, which one makes for all
FAREWELL = dt.timedelta(seconds=30)  # that a process which is done waits for the others


@dataclass(frozen=True)
class Processes:
    """Process ``rank`` of ``world`` that train one model; alone unless `join` says otherwise.

    >>> alone = Processes()
    >>> alone.first, alone.once(lambda: 7), alone.gather(7)
    (True, 7, [7])
    """

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process decides, writes and prints."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        """What `RunSource.batches` asks for."""
        return self.rank, self.world

    def once(self, action: Callable[[], T]) -> T:
        """``action()`` of the first process, in all of them; an `InputError` of its is everybody's.

        Ctrl-C is the first process's to handle: the others wait for what it makes of it.
        """
        if self.world == 1:
            return action()
        box: list[Any] = [None, None]
        if self.first:
            try:
                box[0] = action()
            except InputError as error:
                box[1] = str(error)
            self._broadcast(box)
        else:
            with _ignored_interrupts():
                self._broadcast(box)
        if box[1] is not None:
            raise _input_error(box[1])
        return box[0]

    def gather(self, value: T) -> list[T]:
        """One value of every process, in the order of their ranks."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        with lost_processes_named(self.world):
            dist.all_gather_object(values, value)
        return values

    def together(self, action: Callable[[], T]) -> T:
        """``action()`` in every process; if it is refused in one of them, all raise that `InputError`."""
        if self.world == 1:
            return action()
        result, problem = None, None
        try:
            result = action()
        except InputError as error:
            problem = str(error)
        problems = self.gather(problem)
        refused = [rank for rank, found in enumerate(problems) if found is not None]
        if not refused:
            return result  # type: ignore[return-value]
        where = "" if len(refused) == self.world else f"process {refused[0]} of {self.world}: "
        raise _input_error(f"{where}{problems[refused[0]]}")

    def check_same(self, what: str, value: object, *, cause: str, do: str) -> None:
        """Refuse to go on where the processes hold different things."""
        values = self.gather(value)
        other = next((rank for rank, found in enumerate(values) if found != values[0]), None)
        if other is not None:
            raise InputError(
                f"training on {self.world} processes",
                got=f"{what} of process {other} unlike those of process 0",
                expected="the same in all of them",
                cause=cause,
                do=do,
            )

    def check_in_step(self, generator: torch.Generator, parameters: Sequence[torch.Tensor]) -> None:
        """Refuse to go on where random numbers or parameters have drifted apart."""
        if self.world == 1:
            return
        for what, tensors in (
            ("the random numbers", [generator.get_state()]),
            ("the parameters", parameters),
        ):
            total = 0
            for tensor in tensors:
                total = zlib.crc32(tensor.detach().cpu().numpy().tobytes(), total)
            self.check_same(
                what,
                total,
                cause="an objective or model that draws for its own inputs only (see Batch.place), or machines "
                "of different kinds",
                do="draw for the global batch as dtmgp.inference.objectives does, and use equal machines",
            )

    def _broadcast(self, box: list[Any]) -> None:
        with lost_processes_named(self.world):
            dist.broadcast_object_list(box, src=0)


def join(device: torch.device | None = None) -> Processes:
    """The processes that torchrun has started, or one alone. Joins them on the first call; they part at exit.

    Gradients on the CPU go through gloo, on a GPU through nccl. A process group that exists already is used.
    """
    if not dist.is_available():
        return Processes()
    if not dist.is_initialized():
        if not all(name in os.environ for name in LAUNCHED) or int(os.environ["WORLD_SIZE"]) == 1:
            return Processes()
        # its default arguments keep the group of the moment when an optimiser imports it: the threads of that group
        # would outlive `_part` and abort the interpreter at exit, in one run of four (torch 2.13)
        importlib.import_module("torch.distributed.nn.functional")
        if os.environ["MASTER_ADDR"] in ("127.0.0.1", "localhost"):
            _use_loopback()
        on_gpu = device is not None and device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        with lost_processes_named(world):
            store, _, _ = next(dist.rendezvous("env://", rank, world, timeout=LONGEST))
            own = dist.PrefixStore(attempt_name(store, rank, world, LONGEST), store)
            kind = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
            dist.init_process_group(kind, store=own, rank=rank, world_size=world, timeout=LONGEST)
        atexit.register(_part)
    return Processes(dist.get_rank(), dist.get_world_size())


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process: the one that torchrun counts for it, where the user has named none.

    >>> own_device(torch.device("cpu"))
    device(type='cpu')
    """
    if str(device) == "cuda" and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


class Interrupts:
    """Inside, Ctrl-C is a wish that all processes hear of in the same step; a second one ends this process.

    Alone, and in threads, Ctrl-C stays what it is.

    >>> with Interrupts(Processes()) as interrupts:
    ...     interrupts.asked
    False
    """

    def __init__(self, processes: Processes) -> None:
        self.asked = False
        self._use = processes.world > 1 and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._use:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._use:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextlib.contextmanager
def lost_processes_named(world: int) -> Iterator[None]:
    """What the communication library says when another process has ended, in words of one kind."""
    try:
        yield
    except RuntimeError as error:  # of gloo, nccl and the store alike
        global _lost
        _lost = True
        raise InputError(
            f"training on {world} processes",
            got=f"no answer from another process ({str(error).splitlines()[0][:120]})",
            expected=f"{world} processes at work",
            cause="a process that was killed or has failed: its own message, if any, stands above",
            do="with torchrun --max-restarts 8 and a checkpoint the run goes on where it was",
        ) from error


_lost = False


def _part() -> None:
    """Wait for the others, then leave the group: a process that closes its connections early breaks theirs."""
    if not dist.is_initialized():
        return
    if not _lost and getattr(sys, "last_value", None) is None:
        with contextlib.suppress(RuntimeError):
            work = dist.all_reduce(torch.zeros(1), async_op=True)
            if work is not None:
                work.wait(FAREWELL)
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def part_at_once() -> None:
    """This process ends because of an error: at exit it does not wait for the others."""
    global _lost
    _lost = True


def joined() -> bool:
    """Whether this process has joined others."""
    return dist.is_available() and dist.is_initialized()


def is_shared(error: InputError) -> bool:
    """Whether all processes have raised this error: then one of them need say so."""
    return bool(getattr(error, "shared", False))


def _use_loopback() -> None:
    """On one machine gloo need not look up the machine's own name, which containers often cannot resolve."""
    names = {name for _, name in socket.if_nameindex()}
    for name in ("lo", "lo0"):
        if name in names:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


@contextlib.contextmanager
def _ignored_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _input_error(text: str) -> InputError:
    """An error whose message has already its form."""
    error = InputError.__new__(InputError)
    ValueError.__init__(error, text)
    error.__dict__["shared"] = True
    return error
