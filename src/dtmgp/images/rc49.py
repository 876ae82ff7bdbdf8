"""RC-49 on disk: HDF5 with ``images`` (N, C, 64, 64) uint8, ``labels`` yaw, ``types`` chair, ``indx_train``; lazy."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey

KEYS = ("images", "labels", "types", "indx_train")
ORIGIN = "the authors of CcGAN (Ding et al., ICLR 2021) distribute RC-49_64x64.h5; see their repository"
STEPS = 3600  # yaw angles of a chair in [0, 90): the paper's 176,400 = 49 * 3600
TRAINING = 80_000
HELD_OUT = np.arange(5.0, 90.0, 5.0)  # centres of the angles that no training image has, degrees
WIDTH = 1.0  # of what is held out around each of them
BLOCK = 3600  # images rendered and written at a time


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError:
        raise InputError(
            "RC-49 files", got="no h5py", expected="h5py", do="pip install 'dtmgp[images]'"
        ) from None
    return h5py


def held_out(yaw: ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Whether angles are within half a degree of 5, 10, ..., 85.

    >>> held_out([4.4, 4.5, 5.4, 5.5, 0.0]).tolist()
    [False, True, True, False, False]
    """
    angles = np.asarray(yaw, dtype=np.float64)
    nearest = np.clip(5.0 * np.floor(angles / 5.0 + 0.5), 5.0, 85.0)
    return (angles >= nearest - 0.5 * WIDTH) & (angles < nearest + 0.5 * WIDTH)


class RC49:
    """An open RC-49 file: labels in memory, images read when asked for, as grey floats in [0, 1].

    ``images(rows)`` gives (k, 64, 64) float32 in the order of rows; ``training`` are the file's own training rows,
    ``training_rows(n, random_state)`` a draw from those rows of them whose angle is not held out.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        h5py = _h5py()
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(
                "RC-49 file",
                got=f"no file {self.path}",
                expected="RC-49_64x64.h5 or a file in its layout",
                cause=ORIGIN,
                do="download it by hand, or render a stand-in: dtmgp.images.write_rc49(path)",
            )
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise InputError(
                f"RC-49 file {self.path}",
                got=str(error),
                expected="an HDF5 file",
                cause="a download that broke off",
            ) from None
        missing = [key for key in KEYS if key not in self._file]
        shape: tuple[int, ...] = () if missing else self._file["images"].shape
        count = shape[0] if shape else 0
        good = (
            not missing
            and len(shape) == 4
            and shape[1] in (1, 3)
            and self._file["images"].dtype == np.uint8
            and self._file["labels"].shape[0] == self._file["types"].shape[0] == count
        )
        if not good:
            self._file.close()
            raise InputError(
                f"RC-49 file {self.path}",
                got=f"no {', '.join(missing)}" if missing else f"images of shape {shape}",
                expected="images (N, 1 or 3, h, w) uint8, labels (N,), types (N,), indx_train",
                cause="another data set of the same authors",
            )
        self.labels: Float[np.ndarray, " N"] = self._file["labels"][:].astype(np.float64).reshape(-1)
        self.types: Int[np.ndarray, " N"] = self._file["types"][:].astype(np.int64).reshape(-1)
        self.training: Int[np.ndarray, " t"] = self._file["indx_train"][:].astype(np.int64).reshape(-1)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"RC49({self.path.name}: {len(self):,} images of {len(np.unique(self.types))} chairs)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def images(self, rows: ArrayLike) -> Float[np.ndarray, "k h w"]:
        """Grey images in [0, 1], float32; rows in any order, also repeated."""
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise InputError(
                "rows of images",
                got=f"{wanted.min()} .. {wanted.max()}",
                expected=f"0 .. {len(self) - 1}",
            )
        distinct, place = np.unique(wanted, return_inverse=True)
        return grey(self._file["images"][distinct])[place]

    def training_rows(
        self, count: int | None = None, random_state: RandomState = None
    ) -> Int[np.ndarray, " k"]:
        """``count`` rows, all without it, of the training rows whose angle is not held out; sorted."""
        found = np.sort(self.training[~held_out(self.labels[self.training])])
        if count is None:
            return found
        if not 0 < count <= len(found):
            raise InputError("count of training rows", got=repr(count), expected=f"1 .. {len(found)}")
        return np.sort(as_generator(random_state).choice(found, size=count, replace=False))


def load_rc49(path: str | os.PathLike[str]) -> RC49:
    """Open RC-49, or a file of `write_rc49`; images stay on disk.

    >>> load_rc49("missing.h5")
    Traceback (most recent call last):
    dtmgp.errors.InputError: RC-49 file: got no file missing.h5; expected RC-49_64x64.h5 or ...
    """
    return RC49(path)


def turntable(chairs: int, steps: int) -> tuple[Float[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Yaw and chair of every row of a file: chair by chair, ``steps`` angles in [0, 90) each."""
    return np.tile(90.0 * np.arange(steps) / steps, chairs), np.repeat(np.arange(chairs), steps)


def write_rc49(
    path: str | os.PathLike[str], simulator: RotatedChairs | None = None, steps: int = STEPS
) -> None:
    """Render ``steps`` angles of every chair into a file of RC-49's layout, chair by chair.

    ``indx_train`` are all rows whose angle is not held out. The file replaces an old one only when it is whole; 3,600
    steps are 2.2 GB.
    """
    h5py = _h5py()
    chairs = RotatedChairs() if simulator is None else simulator
    labels, types = turntable(chairs.chairs, steps)
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    try:
        with h5py.File(part, "w") as file:
            size = 64
            images = file.create_dataset("images", (len(labels), 3, size, size), np.uint8)  # not chunked:
            for begin in range(0, len(labels), BLOCK):  # rows are read one by one, at the disk's speed
                rows = slice(begin, begin + BLOCK)
                images[rows] = chairs.render(labels[rows], types[rows])
            file["labels"], file["types"] = labels, types
            file["indx_train"] = np.flatnonzero(~held_out(labels))
            file.attrs["source"] = f"dtmgp {chairs!r}, a stand-in for RC-49"
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
