"""What may be chosen about a run of a simulation study; needs nothing, so that the command line can name it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """None asks for what the extent says: the paper's protocol, or a small part of it."""

    sizes: Sequence[int] | None = None
    replications: int | None = None
    models: Sequence[str] | None = None
    variants: Sequence[str] | None = None
    time_limit: float | None = None
    jobs: int = 1
    executor: str = "joblib"  # by the name that `dtmgp.executors.executor_named` knows
    address: str | None = None

    @property
    def given(self) -> list[str]:
        """Options that are not at their defaults, as the command line calls them."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
