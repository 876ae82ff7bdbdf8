"""The data of the two studies (paper, section 5), and the architectures that the paper gives its deep models."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from dtmgp.errors import InputError
from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.grids.sequences import paired_points
from dtmgp.simulators import ActivityNetwork, BrownianField, maximin_latin_hypercube

SEED = 0
SITES = 100  # test inputs


class Data(NamedTuple):
    """Training inputs and replicates, test inputs, the simulator, and the seed of models and draws."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n r"]
    new: Float[np.ndarray, "sites d"]
    simulator: Any
    seeds: tuple[int, int, int, int]  # of models, their draws, the truth, the truth as a model


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What all deep models of a study share: activations per layer, width between them, prior of the weights."""

    features: tuple[int, int]
    width: int
    prior_std: float
    grids: Mapping[
        str, tuple[int | AbstractGrid, int | AbstractGrid]
    ]  # of the paper's DTMGP and its variants
    batch_size: int
    least: int  # epochs before the rule of convergence looks first: 500 steps of the optimiser


class AbstractProblem(abc.ABC):
    """One study: its sizes, and the data of one macro-replication as a function of size and replication alone."""

    name: ClassVar[str]
    size_name: ClassVar[str]
    variants: ClassVar[Mapping[str, str]]  # name in result files -> words for people
    paper_sizes: ClassVar[Sequence[int]]
    architecture: ClassVar[Architecture]

    def __init__(self, variant: str | None = None) -> None:
        self.variant = next(iter(self.variants)) if variant is None else variant
        if self.variant not in self.variants:
            raise InputError(
                f"variant of {self.name}", got=repr(variant), expected=f"one of {', '.join(self.variants)}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.variant!r})"

    @property
    @abc.abstractmethod
    def simulator(self) -> Any:
        """Where outputs come from."""

    @abc.abstractmethod
    def training_data(
        self, size: int, seeds: Sequence[np.random.SeedSequence]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n r"]]:
        """Inputs and replicates, from two seeds."""

    def data(self, size: int, replication: int) -> Data:
        """Everything random of one macro-replication; processes and the order of work do not matter."""
        place = list(self.variants).index(self.variant)
        root = np.random.SeedSequence([SEED, *self.name.encode(), place, size, replication])
        design, outputs, sites, *others = root.spawn(7)
        X, y = self.training_data(size, (design, outputs))
        low, high = self.simulator.bounds.T
        new = low + (high - low) * np.random.default_rng(sites).random((SITES, len(low)))
        seeds = tuple(int(other.generate_state(1)[0]) for other in others)
        return Data(X, y, new, self.simulator, seeds)  # type: ignore[arg-type]


class RandomField(AbstractProblem):
    """Section 5.1: ``1 / (1 + exp(B(x)))`` at n uniform inputs of the unit square.

    >>> RandomField().data(40, 0).y.shape
    (40, 1)
    """

    name = "random-field"
    size_name = "n"
    variants: ClassVar[Mapping[str, str]] = {
        "independent": "every output from a sheet of its own (the text)",
        "path": "all outputs from one sheet (the authors' script)",
    }
    paper_sizes = (40, 80, 120, 160, 200)
    architecture = Architecture(
        features=(181, 127),
        width=1,
        prior_std=1.0,
        grids={
            "dtmgp": (SparseGrid(2, 10, sequence=paired_points()), 7),
            "dtmgp-level5": (5, 7),
            "dtmgp-level6": (6, 7),
        },
        batch_size=500,
        least=500,
    )

    @property
    def simulator(self) -> BrownianField:
        """The field in two dimensions."""
        return BrownianField(2)

    def training_data(
        self, size: int, seeds: Sequence[np.random.SeedSequence]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n r"]]:
        """n inputs with one output each."""
        X = np.random.default_rng(seeds[0]).random((size, 2))
        draw = self.simulator.sample_paths if self.variant == "path" else self.simulator.sample
        return X, draw(X, 1, np.random.default_rng(seeds[1]))


class NetworkStudy(AbstractProblem):
    """Section 5.2: the activity network at a maximin Latin hypercube of 5000 inputs with m replicates.

    >>> NetworkStudy(design=20).data(2, 0).y.shape
    (20, 2)
    """

    name = "activity-network"
    size_name = "m"
    variants: ClassVar[Mapping[str, str]] = {
        "runs-1": "single runs (the text)",
        "runs-1000": "averages of 1000 runs (the authors' data)",
    }
    paper_sizes = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    architecture = Architecture(
        features=(391, 241),
        width=10,
        prior_std=0.2,
        grids={"dtmgp": (3, 3)},
        batch_size=500,
        least=50,
    )

    def __init__(self, variant: str | None = None, design: int = 5000) -> None:
        super().__init__(variant)
        self.design = design

    @property
    def simulator(self) -> ActivityNetwork:
        """The network with its number of runs per output."""
        return ActivityNetwork(runs=1000 if self.variant == "runs-1000" else 1)

    def training_data(
        self, size: int, seeds: Sequence[np.random.SeedSequence]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n r"]]:
        """The design with m outputs at each of its inputs."""
        design = np.random.default_rng(seeds[0])
        X = maximin_latin_hypercube(self.design, self.simulator.bounds, design)
        return X, self.simulator.sample(X, size, np.random.default_rng(seeds[1]))
