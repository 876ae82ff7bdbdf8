"""Scores of generated images against true ones at one angle: how far apart two sets are, what is missing or copied."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dtmgp.images.inspector import Inspector, look, standardised

PROJECTIONS = 256
SURE = 0.5  # probability from which a chair counts as recognised
SEEN = 3  # images of 500 from which a chair counts as present


def energy_distance(a: Tensor, b: Tensor) -> float:
    """``2 E|A - B| - E|A - A'| - E|B - B'|`` over all pairs of rows, equal ones included: at least 0, 0 if equal.

    >>> energy_distance(torch.zeros(2, 1), torch.ones(2, 1))
    2.0
    """
    first, second = a.double(), b.double()
    return float(2 * _apart(first, second) - _apart(first, first) - _apart(second, second))


def _apart(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(
        a, b, compute_mode="donot_use_mm_for_euclid_dist" if a.shape[1] < 64 else "use_mm_for_euclid_dist"
    ).mean()


def sliced_wasserstein(
    a: Tensor, b: Tensor, generator: torch.Generator, projections: int = PROJECTIONS
) -> float:
    """Root mean square over random directions of the Wasserstein-2 distance of the projections; as many rows in both.

    >>> sliced_wasserstein(torch.zeros(4, 1), torch.ones(4, 1), torch.Generator().manual_seed(0))
    1.0
    """
    shape = (a.shape[1], projections)
    directions = torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device).to(a)
    directions = directions / directions.norm(dim=0)
    along = [(x @ directions).sort(dim=0).values for x in (a, b)]
    return float((along[0] - along[1]).square().mean().sqrt())


def spread(a: Tensor) -> float:
    """Mean distance of two different rows."""
    return float(_apart(a, a)) * len(a) / (len(a) - 1)


def nearest(a: Tensor, known: Tensor, block: int = 2048) -> Tensor:
    """Distance (n,) of every row to the nearest known one; known images may be bytes."""
    found = torch.full((len(a),), torch.inf, device=a.device)
    for part in known.split(block):
        there = part.to(a) / 255 if part.dtype == torch.uint8 else part.to(a)
        # in float64: squares of near images cancel
        found = torch.minimum(found, torch.cdist(a.double(), there.double()).amin(1).to(a))
    return found


class Verdict(NamedTuple):
    """One row of the result table."""

    energy: float
    energy_features: float
    sliced: float
    sliced_features: float
    yaw_error: float
    spread: float
    chairs: int
    recognised: float
    nearer: float
    much_nearer: float


class Jury:
    """The true images of one angle band, and everything that is computed from them once."""

    def __init__(
        self, inspector: Inspector, truth: Tensor, second: Tensor, training: Tensor, yaw: Tensor
    ) -> None:
        self.inspector, self.truth, self.yaw = inspector, truth, yaw
        self.training = training
        self.raw = look(inspector, truth)[0]
        self.features = standardised(self.raw, self.raw)
        near = nearest(second, training)
        self.median, self.low = float(near.median()), float(near.quantile(0.05))

    def judge(self, images: Tensor, yaw: Tensor, generator: torch.Generator) -> Verdict:
        """Scores of images (n, pixels) at angles (n,) in degrees; as many as true ones."""
        raw, seen, kind = look(self.inspector, images)
        features = standardised(raw, self.raw)
        sure, which = kind.max(-1)
        counts = torch.bincount(which[sure > SURE], minlength=kind.shape[1])
        near = nearest(images, self.training)
        return Verdict(
            energy_distance(images, self.truth),
            energy_distance(features, self.features),
            sliced_wasserstein(images, self.truth, generator),
            sliced_wasserstein(features, self.features, generator),
            float((seen - yaw).abs().mean()),
            spread(images),
            int((counts >= SEEN).sum()),
            float((sure > SURE).float().mean()),
            float((near < self.median).float().mean()),
            float((near < self.low).float().mean()),
        )
