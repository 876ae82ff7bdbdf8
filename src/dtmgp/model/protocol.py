"""What objectives, scores and the training loop ask of a model; `DTMGP` is one, baselines are others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dtmgp.layers import Gaussian
from dtmgp.likelihoods import AbstractComponents, AbstractLikelihood
from dtmgp.model.noise import ModelNoise


class TrainableModel(Protocol):
    """A torch module with a likelihood, whose output is Gaussian given draws of what is hidden."""

    likelihood: AbstractLikelihood

    @property
    def noise_widths(self) -> tuple[int, tuple[int, ...], int]:
        """Columns of latent, hidden and output noise."""
        ...

    def noise(
        self, samples: int, rows: int, like: Tensor, generator: torch.Generator | None = None
    ) -> ModelNoise:
        """Independent noise for every input."""
        ...

    def shared_noise(self, samples: int, like: Tensor, seed: int = 0) -> ModelNoise:
        """Noise that all inputs share."""
        ...

    def __call__(
        self,
        x: Tensor,
        samples: int = 1,
        generator: torch.Generator | None = None,
        noise: ModelNoise | None = None,
    ) -> Gaussian:
        """Law of the output (S, n, width) given draws, at inputs (n, d)."""
        ...

    def components(self, x: Tensor, noise: ModelNoise) -> AbstractComponents:
        """Law of the warped output given each draw, (S, n, W)."""
        ...

    def kl(self) -> Tensor:
        """KL divergence of all weights from their prior."""
        ...

    # of every torch module
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
