"""Commands that torchrun has started several times: who prints, who writes, and what they refuse."""

from __future__ import annotations

import os
import sys

from dtmgp.errors import InputError


def rank_and_world() -> tuple[int, int]:
    """What torchrun says; (0, 1) without it."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


def only_first_prints() -> None:
    """The standard output of all processes but the first goes nowhere."""
    if rank_and_world()[0] > 0:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends


def first_of_fit(data: str, model: str) -> bool:
    """Whether this process scores and saves; the fit itself joins the others."""
    rank, world = rank_and_world()
    if world > 1 and model == "one-layer":
        raise InputError(
            "--model one-layer",
            got=f"{world} processes",
            expected="one: the exact model is not fitted in parts",
            do="run dtmgp without torchrun, or use --model deep",
        )
    if world > 1 and data == "-":
        raise InputError(
            "table -",
            got=f"{world} processes and one standard input",
            expected="a file that every process can read",
        )
    return rank == 0


def report_refusal(error: InputError) -> None:
    """One line on the standard error. Of several processes the first speaks for all, where all have met the error.

    Before they have joined one process of every machine speaks, since they read the same files.
    """
    rank, world = rank_and_world()
    speaks = True
    if world > 1:
        from dtmgp.inference.distributed import is_shared, joined, part_at_once

        if is_shared(error):
            speaks = rank == 0
        elif not joined():
            speaks = os.environ.get("LOCAL_RANK", "0") == "0"
        else:
            part_at_once()
    if speaks:
        print(f"dtmgp, process {rank}: {error}" if rank else f"dtmgp: {error}", file=sys.stderr)
