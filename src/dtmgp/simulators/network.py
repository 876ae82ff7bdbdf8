"""Project networks: the order in which to walk the arcs, and the longest path from source to sink.

Arcs carry the activities; a node is reached when all the activities into it are done.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np
from jaxtyping import Float

from dtmgp.errors import InputError

Arc = tuple[Hashable, Hashable]


def arc_name(arc: Arc) -> str:
    """Return ``tail-head``.

    >>> arc_name((1, 2))
    '1-2'
    """
    return f"{arc[0]}-{arc[1]}"


def topological_order(arcs: Sequence[Arc]) -> tuple[Hashable, ...]:
    """Order the nodes so that every arc points forward; refuses a cycle and names it."""
    sorter: TopologicalSorter[Hashable] = TopologicalSorter()
    for tail, head in arcs:
        sorter.add(head, tail)
    try:
        return tuple(sorter.static_order())
    except CycleError as error:
        cycle = " -> ".join(str(node) for node in error.args[1])
        raise InputError(
            "arcs of the network",
            got=f"the cycle {cycle}",
            expected="a network without cycles",
            cause="an arc with tail and head swapped",
            do="turn or drop one arc of the cycle",
        ) from None


def check_arcs(arcs: Sequence[Sequence[Hashable]]) -> tuple[Arc, ...]:
    """Return the arcs as pairs (tail, head), none of them twice."""
    pairs = tuple(tuple(arc) for arc in arcs)
    if not pairs:
        raise InputError("arcs of the network", got="no arcs", expected="at least one pair (tail, head)")
    for position, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(f"arc {position}", got=repr(pair), expected="a pair (tail, head)")
        first = pairs.index(pair)
        if first != position:
            raise InputError(
                f"arc {position}",
                got=f"{arc_name((pair[0], pair[1]))} again (it is arc {first} already)",
                expected="each pair (tail, head) once",
                do="for two activities in parallel, give one of them a node of its own",
            )
    return tuple((pair[0], pair[1]) for pair in pairs)


def find_ends(
    arcs: Sequence[Arc], source: Hashable | None, sink: Hashable | None
) -> tuple[Hashable, Hashable]:
    """Return source and sink; those not given are the only node nothing leads to, and from."""
    tails = list(dict.fromkeys(tail for tail, _ in arcs))
    heads = list(dict.fromkeys(head for _, head in arcs))
    nodes = set(tails) | set(heads)
    found = []
    for role, given, candidates in (
        ("source", source, [node for node in tails if node not in heads]),
        ("sink", sink, [node for node in heads if node not in tails]),
    ):
        if given is None and len(candidates) != 1:
            raise InputError(
                f"{role} of the network",
                got=f"{len(candidates)} candidates: {', '.join(map(str, candidates))}",
                expected="exactly one",
                do=f"pass {role}=..., or check the arcs",
            )
        if given is not None and given not in nodes:
            raise InputError(f"{role} of the network", got=repr(given), expected="a node of some arc")
        found.append(candidates[0] if given is None else given)
    return found[0], found[1]


def check_paths(arcs: Sequence[Arc], source: Hashable, sink: Hashable) -> None:
    """Refuse an unreachable sink, and an arc that lies on no path from source to sink."""
    order = topological_order(arcs)
    after, before = {source}, {sink}
    for node in order:
        after.update(head for tail, head in arcs if tail == node and node in after)
    for node in reversed(order):
        before.update(tail for tail, head in arcs if head == node and node in before)
    if source == sink or sink not in after:
        raise InputError(
            "sink of the network",
            got=f"{sink!r}, which cannot be reached from the source {source!r}",
            expected="a path of arcs from source to sink",
            do="check the direction of the arcs",
        )
    for arc in arcs:
        if arc[0] not in after or arc[1] not in before:
            raise InputError(
                f"arc {arc_name(arc)}",
                got=f"an arc on no path from {source!r} to {sink!r}",
                expected="arcs that can matter for the completion time",
                do="drop the arc, or pass another source or sink",
            )


def longest_path(
    durations: Float[np.ndarray, "arcs runs"], arcs: Sequence[Arc], source: Hashable, sink: Hashable
) -> Float[np.ndarray, " runs"]:
    """Length of the longest path from source to sink in each run: max over arcs into a node, in order.

    ``durations`` (arcs, runs) is overwritten. Work is one addition and at most one maximum per arc and run.

    >>> longest_path(np.array([[1.0], [2.0], [4.0]]), [(1, 2), (2, 3), (1, 3)], 1, 3)
    array([4.])
    """
    reached: dict[Hashable, Float[np.ndarray, " runs"]] = {}
    for node in topological_order(arcs):
        for position, (tail, head) in enumerate(arcs):
            if head != node:
                continue
            finish = durations[position]
            if tail != source:
                finish += reached[tail]
            if node in reached:
                # The row belongs to one arc and is not read again, so it can hold the maximum.
                np.maximum(finish, reached[node], out=finish)
            reached[node] = finish
    return reached[sink]
