"""Scikit-learn's handwritten digits, turned by known angles: a second, small set of real images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dtmgp.random import RandomState, as_generator


class Turned(NamedTuple):
    """``images`` (N, 16, 16) in [0, 1], ``labels`` the angle in [0, 90) degrees, the digit ``types``."""

    images: Float[np.ndarray, "N 16 16"]
    labels: Float[np.ndarray, " N"]
    types: Int[np.ndarray, " N"]


def rotated_digits(
    count: int = 5000, random_state: RandomState = None, yaw: Float[np.ndarray, " N"] | None = None
) -> Turned:
    """``count`` digits drawn from the 1,797 of `sklearn.datasets.load_digits`, turned by multiples of half a degree
    drawn at random, or by ``yaw``.

    The 8 x 8 images are enlarged twice and turned by cubic splines in one step, around their centre.

    >>> rotated_digits(3, random_state=0).images.shape
    (3, 16, 16)
    """
    from scipy.ndimage import affine_transform
    from sklearn.datasets import load_digits

    rng = as_generator(random_state)
    source = load_digits()
    which = rng.integers(len(source.images), size=count)
    labels = rng.integers(180, size=count) / 2.0 if yaw is None else np.asarray(yaw, dtype=float)
    images = np.empty((count, 16, 16), np.float32)
    for number, (index, angle) in enumerate(zip(which, np.radians(labels), strict=True)):
        cos, sin = np.cos(angle), np.sin(angle)
        matrix = 0.625 * np.array([[cos, -sin], [sin, cos]])  # 16 pixels see 10: turned corners stay inside
        shift = np.array([3.5, 3.5]) - matrix @ np.array([7.5, 7.5])
        turned = affine_transform(source.images[index] / 16.0, matrix, shift, (16, 16), order=3)
        images[number] = np.clip(turned, 0.0, 1.0)
    return Turned(images, labels, source.target[which].astype(np.int64))
