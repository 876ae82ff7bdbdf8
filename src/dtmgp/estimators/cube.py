"""Inputs to the unit cube and back, by declared bounds or by the range of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.errors import InputError

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Cube:
    """The affine map of a box onto the unit cube.

    Outside the box: refused if it was declared (``strict``), mapped outside the cube if it is the data's range.

    >>> Cube.from_bounds([[0, 10]], ["x0"]).scale(np.array([[2.5]]))
    array([[0.25]])
    """

    low: Float[Array, " d"]
    high: Float[Array, " d"]
    names: tuple[str, ...]
    strict: bool

    @classmethod
    def from_bounds(cls, bounds: npt.ArrayLike, names: Sequence[str]) -> Cube:
        """The declared box, one (low, high) per input."""
        box = np.asarray(bounds, dtype=np.float64)
        if box.shape != (len(names), 2) or not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
            raise InputError(
                "bounds",
                got=f"an array of shape {box.shape}" if box.shape != (len(names), 2) else repr(box.tolist()),
                expected=f"shape ({len(names)}, 2) with finite low < high in every row",
                do="give one (low, high) pair per input column",
            )
        return cls(box[:, 0], box[:, 1], tuple(names), strict=True)

    @classmethod
    def from_data(cls, x: Float[Array, "n d"], names: Sequence[str]) -> Cube:
        """The range of the data; a constant column is refused."""
        return cls.from_range(x.min(axis=0), x.max(axis=0), names, len(x))

    @classmethod
    def from_range(
        cls, low: Float[Array, " d"], high: Float[Array, " d"], names: Sequence[str], rows: int
    ) -> Cube:
        """The range of so many rows; a constant column is refused."""
        flat = np.flatnonzero(~(high > low))
        if len(flat):
            raise InputError(
                f"input column {names[flat[0]]!r}",
                got=f"the constant {low[flat[0]]:g} in all {rows} rows",
                expected="at least two different values",
                cause="an input that was held fixed in the experiment",
                do="drop the column, or declare bounds=",
            )
        return cls(low, high, tuple(names), strict=False)

    def scale(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Rows in the coordinates of the unit cube."""
        if self.strict:
            outside = (x < self.low) | (x > self.high)
            if outside.any():
                row, column = (int(k) for k in np.argwhere(outside)[0])
                raise self.outside(column, float(x[row, column]), f"row {row}")
        return (x - self.low) / (self.high - self.low)

    def outside(self, column: int, value: float, where: str) -> InputError:
        """What to say about a value outside the declared box."""
        return InputError(
            f"input {self.names[column]!r}",
            got=f"{value:g} in {where}",
            expected=f"a value in the declared bounds [{self.low[column]:g}, {self.high[column]:g}]",
            cause="another unit, or an extrapolation",
            do="check the row, or declare wider bounds",
        )
