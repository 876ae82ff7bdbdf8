"""A small convolutional network that reads yaw and chair from an image: the judge's eyes, trained on true images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dtmgp.images.stream import RIGHT_ANGLE, ImageBatch
from dtmgp.inference.objectives import Loss


class Inspector(nn.Module):
    """``features`` (n, 128), ``yaw`` in degrees and logits of the chair, from grey images (n, 64 * 64).

    >>> yaw, chair = Inspector()(torch.rand(2, 4096))
    >>> yaw.shape, chair.shape
    (torch.Size([2]), torch.Size([2, 49]))
    """

    def __init__(
        self, chairs: int = 49, size: int = 64, channels: tuple[int, ...] = (16, 32, 64, 128)
    ) -> None:
        super().__init__()
        self.size = size
        layers: list[nn.Module] = []
        before = 1
        for count in channels:
            layers += [nn.Conv2d(before, count, 3, stride=2, padding=1), nn.GroupNorm(4, count), nn.ReLU()]
            before = count
        self.body = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(before * (size // 2 ** len(channels)) ** 2, 128)
        )
        self.turn = nn.Sequential(nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
        self.kind = nn.Sequential(nn.ReLU(), nn.Linear(128, chairs))

    def features(self, images: Tensor) -> Tensor:
        """(n, 128), before the heads."""
        found: Tensor = self.body(1.0 - images.reshape(-1, 1, self.size, self.size))
        return found

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Yaw (n,) in degrees and logits (n, chairs)."""
        h = self.features(images)
        return RIGHT_ANGLE * (0.5 + self.turn(h)[:, 0]), self.kind(h)


def inspect_loss(model: nn.Module, part: ImageBatch, generator: torch.Generator, progress: float) -> Loss:
    """Cross entropy of the chair and absolute error of the yaw, in tens of degrees."""
    yaw, kind = model(part.batch.y)
    data = nn.functional.cross_entropy(kind, part.types)
    data = data + (yaw - RIGHT_ANGLE * part.batch.x[:, 0]).abs().mean() / 10.0
    return Loss(data, data.detach(), data.detach() * 0)


@torch.no_grad()
def look(inspector: Inspector, images: Tensor, block: int = 2048) -> tuple[Tensor, Tensor, Tensor]:
    """Features, yaw and chair probabilities of many images."""
    parts = [(inspector.features(p), *inspector(p)) for p in images.split(block)]
    features, yaw, kind = (torch.cat(part) for part in zip(*parts, strict=True))
    return features, yaw, kind.softmax(-1)


@torch.no_grad()
def standardised(features: Tensor, reference: Tensor) -> Tensor:
    """Features in units of the spread of reference ones."""
    return (features - reference.mean(0)) / reference.std(0).clamp(min=1e-6)
