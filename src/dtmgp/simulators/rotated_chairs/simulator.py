"""The simulator: a chair chosen at random, seen under a given yaw angle."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.simulators.base import check_count, check_inputs
from dtmgp.simulators.rotated_chairs import _jit, camera
from dtmgp.simulators.rotated_chairs.designs import CHAIRS, chair
from dtmgp.simulators.rotated_chairs.solids import Solid

SIZE, FINE = 64, 4
LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
BLOCK = 256  # images per task


class Model(NamedTuple):
    """The solids of one chair as flat tables, centred and scaled to the image."""

    planes: Float[np.ndarray, "P 4"]
    plane_start: Int[np.ndarray, " s"]
    corners: Float[np.ndarray, "V 3"]
    corner_start: Int[np.ndarray, " s"]
    albedo: Float[np.ndarray, "k 3"]

    @classmethod
    def of(cls, solids: list[Solid]) -> Model:
        """Scaled so that a turning chair just stays in the image."""
        corners = np.concatenate([s.corners for s in solids])
        middle = np.array([0.0, 0.0, 0.5 * (corners[:, 2].min() + corners[:, 2].max())])
        turns, shifts = camera.views(np.arange(0.0, 360.0, 5.0))
        scale = 1.0
        for _ in range(6):  # perspective: the extent is not quite proportional to the scale
            seen = np.einsum("nij,vj->nvi", turns, scale * (corners - middle)) + shifts[:, None]
            scale *= 0.94 / (camera.FOCAL * np.abs(seen[..., :2] / seen[..., 2:]).max())
        planes = np.concatenate([s.planes for s in solids])
        offsets = scale * (planes[:, 3] - planes[:, :3] @ middle)
        return cls(
            np.column_stack([planes[:, :3], offsets]),
            np.cumsum([0, *[len(s.planes) for s in solids]]),
            scale * (corners - middle),
            np.cumsum([0, *[len(s.corners) for s in solids]]),
            np.array([s.colour for s in solids]),
        )


@cache
def model_of(number: int, seed: int) -> Model:
    """Tables of a chair, made once."""
    return Model.of(chair(number, seed))


def grey(images: UInt8[np.ndarray, "n C h w"]) -> Float[np.ndarray, "n h w"]:
    """Luminance in [0, 1], float32, of colour or grey images.

    >>> grey(np.full((1, 3, 1, 1), 255, np.uint8)).tolist()
    [[[1.0]]]
    """
    if images.shape[1] == 1:
        return images[:, 0].astype(np.float32) / np.float32(255)
    found = np.zeros((images.shape[0], *images.shape[2:]), np.float32)
    for channel, weight in enumerate(LUMA):
        found += np.float32(weight / 255) * images[:, channel]
    return np.minimum(found, np.float32(1.0))


class RotatedChairs:
    """``Y(x)``: an image of one of 49 chairs, each as likely as the others, turned by x in [0, 90] degrees.

    A stand-in of our own for RC-49, in its format: colour images of 64 x 64 pixels on a white ground. Chairs are unions
    of convex solids, ``seed`` sets proportions and colours; images are exact (no depth rounding) with 16 samples a
    pixel. ``sample`` gives grey images in [0, 1]; ``render`` the colour image of a given chair.

    >>> RotatedChairs().sample([[60.0]], n_replicates=2, random_state=0).shape
    (1, 2, 64, 64)
    """

    draws_row_by_row = True
    input_names = ("yaw",)

    def __init__(self, seed: int = 0) -> None:
        self.seed = check_count("seed", seed, smallest=0)

    def __repr__(self) -> str:
        return f"RotatedChairs(seed={self.seed})"

    @property
    def bounds(self) -> Float[np.ndarray, "1 2"]:
        """Yaw in degrees, shape (1, 2)."""
        return np.array([[0.0, 90.0]])

    @property
    def chairs(self) -> int:
        """49."""
        return CHAIRS

    def render(self, yaw: ArrayLike, chair: ArrayLike) -> UInt8[np.ndarray, "n 3 64 64"]:
        """Colour images of chairs (n,) at yaw angles (n,), any angle; on all cores that the process may use."""
        angles, which = np.broadcast_arrays(
            np.atleast_1d(np.asarray(yaw, dtype=np.float64)), np.atleast_1d(chair)
        )
        if angles.ndim != 1 or not np.isfinite(angles).all():
            raise InputError("yaw", got=f"shape {angles.shape}, or NaN", expected="finite angles (n,)")
        if which.dtype.kind not in "iu" or (len(which) and not 0 <= which.min() <= which.max() < CHAIRS):
            raise InputError("chair", got=repr(chair)[:80], expected=f"ints between 0 and {CHAIRS - 1}")
        out = np.empty((len(angles), 3, SIZE, SIZE), np.uint8)
        tasks = []
        for number in np.unique(which):
            rows = np.flatnonzero(which == number)
            tasks += [(int(number), rows[k : k + BLOCK]) for k in range(0, len(rows), BLOCK)]

        def task(work: tuple[int, np.ndarray]) -> None:
            number, rows = work
            turns, shifts = camera.views(angles[rows])
            own = np.empty((len(rows), 3, SIZE, SIZE), np.uint8)
            _jit.render(
                *model_of(number, self.seed),
                turns,
                shifts,
                camera.FOCAL,
                SIZE,
                FINE,
                camera.LIGHT,
                camera.WEIGHTS,
                own,
            )
            out[rows] = own

        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(task, tasks))
        return out

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r 64 64"]:
        """Draw ``n_replicates`` grey images at each row of X (n, 1), independent chairs; float32 in [0, 1]."""
        inputs = check_inputs(X, self.bounds, self.input_names)
        count = check_count("n_replicates", n_replicates)
        which = as_generator(random_state).integers(CHAIRS, size=(len(inputs), count))
        images = grey(self.render(np.repeat(inputs[:, 0], count), which.ravel()))
        return images.reshape(len(inputs), count, SIZE, SIZE)
