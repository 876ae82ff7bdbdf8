"""Sums of gradients over processes: small tensors in one flat buffer, large tables by their touched rows.

A table (m, W) of b-byte numbers costs a ring all-reduce of N processes ``2 (N-1)/N m W b`` bytes a process. Sent as
rows, each process receives ``(N-1) U (W b + 8)`` bytes, U the most rows that any process touches. The smaller number
decides, in every step and for every table, from counts that all processes know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from dtmgp.inference.distributed import Processes, lost_processes_named

SPARSE_FROM = 1 << 15  # entries below which a table goes with the rest: counting its rows would cost more
INDEX_BYTES = 8


class Traffic(NamedTuple):
    """Bytes that a process receives in one reduction: by the ring all-reduce, and as rows."""

    dense: float = 0.0
    rows: float = 0.0


def dense_bytes(world: int, size: int, width: int, number: int) -> float:
    """Bytes that a process receives in a ring all-reduce of a table.

    >>> dense_bytes(2, 1000, 4, 4)
    16000.0
    """
    return 2.0 * (world - 1) / world * size * width * number


def row_bytes(world: int, touched: int, width: int, number: int) -> int:
    """Bytes that a process receives when each of the others sends so many rows.

    >>> row_bytes(2, 100, 4, 4)
    2400
    """
    return (world - 1) * touched * (width * number + INDEX_BYTES)


def sum_gradients(
    processes: Processes, parameters: Sequence[Tensor], numbers: Sequence[float | Tensor] = ()
) -> tuple[list[float], Traffic]:
    """Replace every gradient by its sum over the processes, the same bits in all of them; sums of numbers too.

    A parameter that has no gradient in any process has none afterwards. Sparse gradients stay sparse.
    """
    if processes.world == 1:
        return [float(number) for number in numbers], Traffic()
    large = [p for p in parameters if (p.ndim == 2 and p.numel() >= SPARSE_FROM) or _is_sparse(p)]
    by_rows = _worth_sending_as_rows(processes, large)
    chosen = {id(p) for p in by_rows}
    traffic = _sum_flat(processes, [p for p in parameters if id(p) not in chosen], numbers)
    sent = 0
    for parameter in by_rows:
        sent += _sum_rows_of(processes, parameter)
    return traffic[0], Traffic(traffic[1], sent)


def sum_rows(processes: Processes, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows (U,) and values (U, W) of every process -> their union in increasing order, values summed.

    Summed in the order of the ranks: the same bits in every process.
    """
    found_rows, found_values = _exchange(processes, rows, values)
    union, place = torch.unique(torch.cat(found_rows), return_inverse=True)
    total = values.new_zeros(len(union), values.shape[1])
    for part, own in zip(place.split([len(r) for r in found_rows]), found_values, strict=True):
        total.index_add_(0, part, own)
    return union, total


def _is_sparse(parameter: Tensor) -> bool:
    return parameter.grad is not None and parameter.grad.is_sparse


def _touched(parameter: Tensor) -> Tensor:
    """Rows whose gradient is not zero; all if it is not finite, so that everybody sees it."""
    if parameter.grad is None:
        return torch.empty(0, dtype=torch.long, device=parameter.device)
    if parameter.grad.is_sparse:
        return parameter.grad.coalesce().indices()[0]
    return torch.nonzero((parameter.grad != 0).any(1))[:, 0]


def _worth_sending_as_rows(processes: Processes, tables: list[Tensor]) -> list[Tensor]:
    """The tables for which rows are fewer bytes. Gradients that came sparse stay so."""
    if not tables:
        return []
    counts = [[len(_touched(p)), _is_sparse(p)] for p in tables]
    facts = torch.tensor(counts, dtype=torch.float64, device=tables[0].device)
    every = [torch.empty_like(facts) for _ in range(processes.world)]
    with lost_processes_named(processes.world):
        dist.all_gather(every, facts)
    most = torch.stack(every).amax(0)
    chosen = []
    for table, (count, sparse) in zip(tables, most.tolist(), strict=True):
        width, number = table.shape[1], table.element_size()
        fewer = row_bytes(processes.world, int(count), width, number) < dense_bytes(
            processes.world, len(table), width, number
        )
        if sparse or fewer:
            chosen.append(table)
    return chosen


def _sum_flat(
    processes: Processes, parameters: list[Tensor], numbers: Sequence[float | Tensor]
) -> tuple[list[float], float]:
    """One all-reduce of all gradients, of marks that say who has one, and of the numbers."""
    like = parameters[0] if parameters else torch.zeros(())
    wide = max((p.dtype for p in parameters), key=lambda kind: kind.itemsize, default=torch.float64)
    pieces = [(p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)).to(wide) for p in parameters]
    marks = [float(p.grad is not None) for p in parameters]
    extra = torch.tensor([*marks, *map(float, numbers)], dtype=wide, device=like.device)
    flat = torch.cat([*pieces, extra])
    with lost_processes_named(processes.world):
        dist.all_reduce(flat)
    end = len(flat) - len(extra)
    found = flat[end:].tolist()
    own, places = [], []
    for parameter, mark, part in zip(parameters, found, flat[:end].split([len(p) for p in pieces])):
        if mark == 0:
            continue
        if parameter.grad is None:
            parameter.grad = torch.empty_like(parameter)
        own.append(parameter.grad)
        places.append(part.view(parameter.shape).to(parameter.dtype))
    if own:
        torch._foreach_copy_(own, places)
    size = len(flat) * flat.element_size()
    return found[len(parameters) :], 2.0 * (processes.world - 1) / processes.world * size


def _sum_rows_of(processes: Processes, parameter: Tensor) -> int:
    """Sum one gradient by its rows; the bytes received."""
    rows = _touched(parameter)
    grad = parameter.grad
    if grad is None:
        values = parameter.new_zeros(0, parameter.shape[1])
    else:
        values = grad.coalesce().values() if grad.is_sparse else grad[rows]
    if grad is not None and grad.is_sparse:
        union, total = sum_rows(processes, rows, values)
        parameter.grad = torch.sparse_coo_tensor(
            union[None], total, parameter.shape, is_coalesced=True, check_invariants=False
        )
        return row_bytes(processes.world, len(rows), parameter.shape[1], parameter.element_size())
    found_rows, found_values = _exchange(processes, rows, values)
    if grad is None:
        parameter.grad = grad = torch.zeros_like(parameter)
    grad.index_fill_(0, rows, 0.0)
    for others, own in zip(found_rows, found_values, strict=True):
        grad.index_add_(0, others, own)
    most = max(len(r) for r in found_rows)
    return row_bytes(processes.world, most, parameter.shape[1], parameter.element_size())


def _exchange(processes: Processes, rows: Tensor, values: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Rows and values of all processes, in the order of their ranks."""
    if processes.world == 1:
        return [rows.long()], [values]
    device = values.device
    counts = [torch.zeros(1, dtype=torch.long, device=device) for _ in range(processes.world)]
    with lost_processes_named(processes.world):
        dist.all_gather(counts, torch.tensor([len(rows)], device=device))
        sizes = [int(count) for count in counts]
        most = max(1, *sizes)
        padded_rows = torch.zeros(most, dtype=torch.long, device=device)
        padded = values.new_zeros(most, values.shape[1])
        padded_rows[: len(rows)], padded[: len(rows)] = rows, values
        every_rows = [torch.empty_like(padded_rows) for _ in sizes]
        every = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(every_rows, padded_rows)
        dist.all_gather(every, padded)
    return (
        [part[:size] for part, size in zip(every_rows, sizes)],
        [part[:size] for part, size in zip(every, sizes)],
    )
