"""What a campaign is about: the box, the budget, and how it is divided."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.errors import InputError
from dtmgp.simulators.base import check_bounds, check_count

Array = np.ndarray
RESERVED = ("run", "attempt", "round", "purpose", "error", "seconds", "seed")
VALIDATION_SHARE = 0.2  # of the budget
INITIAL_SHARE = 0.4  # of the rest
ROUNDS = 8  # in which what is then left is spent


@dataclasses.dataclass(frozen=True)
class Settings:
    """All numbers of a campaign. ``fixed`` are those that may not change when it is resumed.

    >>> Settings.make([(0, 1), (2, 3)], budget=200, replicates=5)
    Settings(inputs=2, budget=200, replicates=5, initial=12 inputs, validation=8 inputs, batch=10, seed=0)
    """

    bounds: Float[Array, "d 2"]
    names: tuple[str, ...]
    output: str
    budget: int
    replicates: int
    initial: int
    validation: int
    batch: int
    retries: int
    seed: int

    def __repr__(self) -> str:
        return (
            f"Settings(inputs={len(self.names)}, budget={self.budget}, replicates={self.replicates}, "
            f"initial={self.initial} inputs, validation={self.validation} inputs, batch={self.batch}, "
            f"seed={self.seed})"
        )

    @classmethod
    def make(
        cls,
        bounds: npt.ArrayLike,
        *,
        budget: int,
        replicates: int = 5,
        names: Sequence[str] | None = None,
        output: str = "y",
        initial: int | None = None,
        validation: int | None = None,
        batch: int | None = None,
        retries: int = 1,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Checked settings; what is None is derived from the budget, or taken from a campaign in ``folder``."""
        box = check_bounds(bounds)
        if not np.isfinite(box).all():
            raise InputError("bounds", got=repr(box.tolist()), expected="finite bounds")
        named = _names(names, len(box), output)
        total, repeats = check_count("budget", budget), check_count("replicates", replicates)
        stored = _stored(folder)
        if validation is None:
            validation = stored.get("validation", round(VALIDATION_SHARE * total / repeats))
        checked = check_count("validation", validation, smallest=0)
        rest = total - checked * repeats
        if initial is None:
            initial = stored.get("initial", max(len(box) + 2, int(INITIAL_SHARE * rest / repeats)))
        first = check_count("initial", initial, smallest=3)
        if first * repeats > rest:
            raise InputError(
                "budget",
                got=f"{total} runs",
                expected=f"at least {(first + checked) * repeats}: {first} initial and {checked} validation inputs "
                f"with {repeats} replicates each",
                do="raise the budget, or lower replicates, initial or validation",
            )
        if batch is None:
            steps = max(1, round((rest - first * repeats) / ROUNDS / repeats))
            batch = steps * repeats
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InputError(
                "random_state", got=repr(seed), expected="a non-negative int, stored with the runs"
            )
        return cls(
            box,
            named,
            output,
            total,
            repeats,
            first,
            checked,
            check_count("batch", batch),
            check_count("retries", retries, smallest=0),
            int(seed),
        )

    @property
    def fixed(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "bounds": self.bounds.tolist(),
            "names": list(self.names),
            "output": self.output,
            "replicates": self.replicates,
            "initial": self.initial,
            "validation": self.validation,
            "seed": self.seed,
        }

    def generator(self, *key: int) -> np.random.Generator:
        """A stream of its own for every purpose and round: none depends on how often another was used."""
        return np.random.default_rng([self.seed, *key])


def _names(names: Sequence[str] | None, dim: int, output: str) -> tuple[str, ...]:
    given = tuple(f"x{j}" for j in range(dim)) if names is None else tuple(str(name) for name in names)
    clash = [name for name in given if name in (*RESERVED, output)]
    if len(given) != dim or len(set(given)) < dim or clash or output in RESERVED:
        raise InputError(
            "names of the inputs",
            got=", ".join(given),
            expected=f"{dim} different names, none of {', '.join((*RESERVED, output))}",
            do="rename the inputs, or choose another name for the output",
        )
    return given


def _stored(folder: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Settings of the campaign in a folder, as far as they can be read; the log complains of what is wrong."""
    if folder is None:
        return {}
    try:
        found = json.loads((Path(folder) / "campaign.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
