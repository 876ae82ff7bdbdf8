"""The extents of the studies, and the cells that follow from them and from what the caller chose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from dtmgp.errors import InputError
from dtmgp.experiments.studies.contestants import contestants_of
from dtmgp.experiments.studies.problems import AbstractProblem, NetworkStudy, RandomField
from dtmgp.experiments.studies.runner import Cell, Protocol
from dtmgp.experiments.study_options import StudyOptions

PROBLEMS: Mapping[str, Callable[[str], AbstractProblem]] = {
    RandomField.name: RandomField,
    NetworkStudy.name: NetworkStudy,
}
VARIANTS = {RandomField.name: RandomField.variants, NetworkStudy.name: NetworkStudy.variants}
SIZES = {RandomField.name: RandomField.paper_sizes, NetworkStudy.name: NetworkStudy.paper_sizes}


@dataclasses.dataclass(frozen=True)
class Extent:
    """Sizes, macro-replications, limit of one fit in seconds, variants, and inputs of the network's design."""

    sizes: Mapping[str, Sequence[int]]
    replications: Mapping[str, int]
    limit: float
    variants: int
    design: int


FULL = Extent(SIZES, {RandomField.name: 20, NetworkStudy.name: 20}, 14_400.0, 2, 5000)
QUICK = Extent(
    {RandomField.name: (40, 200), NetworkStudy.name: (4,)},
    {RandomField.name: 1, NetworkStudy.name: 1},
    3.0,
    1,
    300,
)


def plan(study: str, full: bool, options: StudyOptions) -> tuple[list[Cell], list[str], Protocol]:
    """Cells in the order of work (all sizes of a replication before the next one), models, and the protocol."""
    extent = FULL if full else QUICK
    names = list(VARIANTS[study])[: extent.variants] if options.variants is None else options.variants
    sizes = extent.sizes[study] if options.sizes is None else options.sizes
    count = extent.replications[study] if options.replications is None else options.replications
    if not sizes or min(sizes) < 2 or count < 1 or options.jobs < -1 or not options.jobs:
        raise InputError(
            "options of the study",
            got=f"sizes {list(sizes)}, {count} replications, {options.jobs} jobs",
            expected="sizes of at least 2, at least one replication and one job (or -1 jobs: one per core)",
        )
    problems: list[AbstractProblem] = []
    for name in names:
        problem = PROBLEMS[study](name)
        if isinstance(problem, NetworkStudy):
            problem.design = extent.design
        problems.append(problem)
    known = contestants_of(problems[0])
    models = known if options.models is None else [name for name in known if name in options.models]
    unknown = set(options.models or ()) - set(known)
    if unknown or not models:
        raise InputError(
            "--models", got=", ".join(sorted(unknown)) or "none", expected=f"some of {', '.join(known)}"
        )
    limit = extent.limit if options.time_limit is None else options.time_limit
    cells = [
        Cell(problem, int(size), replication)
        for problem in problems
        for replication in range(count)
        for size in sorted(sizes)
    ]
    return cells, models, Protocol(limit=limit)
