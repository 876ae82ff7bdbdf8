"""Markov kernels ``k(x, y) = p(min) q(max)`` (Lemma 1): clock ``tau = p/q``, scale ``q``, and the determinant.

With ``D(x, y) = p(y) q(x) - p(x) q(y) = q(x) q(y) (tau(y) - tau(x))`` for ``x < y`` and the conventions
``D(-inf, x) = p(x)``, ``D(x, inf) = q(x)``, ``D(-inf, inf) = 1``, the solution of eq. (14) of Algorithm 1 is

    peak    ``S = sqrt(D(a,b) D(b,c) / D(a,c))``
    feature ``S rise(x)`` on [a, b], ``S fall(x)`` on [b, c];  ``rise = D(a,x)/D(a,b)``,  ``fall = D(x,c)/D(b,c)``
    column  ``1/S`` at b,  ``-D(b,c)/D(a,c)/S`` at a,  ``-D(a,b)/D(a,c)/S`` at c

which is the hat in clock time of the notes, free of the clock's own (possibly huge) values.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.kernels.base import AbstractLineKernel, Array, Columns, Local, positive

CHECK_POINTS = 4096  # intervals on which p/q of a user's kernel is checked to increase


@dataclasses.dataclass(frozen=True)
class AbstractMarkov(AbstractLineKernel):
    """A kernel with one state per point, given by ``rise``, ``fall`` and ``peak``."""

    @property
    def state_size(self) -> int:
        """One function per point."""
        return 1

    @abc.abstractmethod
    def rise(self, a: Float[Array, " n"], x: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
        """``D(a, x) / D(a, b)`` for ``a <= x <= b``, ``a`` possibly ``-inf``; exactly 1 at ``x = b``."""

    @abc.abstractmethod
    def fall(self, b: Float[Array, " n"], x: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``D(x, c) / D(b, c)`` for ``b <= x <= c``, ``c`` possibly ``inf``; exactly 1 at ``x = b``."""

    @abc.abstractmethod
    def peak(self, a: Float[Array, " n"], b: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sqrt(D(a,b) D(b,c) / D(a,c))``, the standard deviation of ``G(b)`` given its neighbours."""

    def state_covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n s s"]:
        """``k(x, y)`` as a 1 x 1 matrix."""
        return self.covariance(x, y)[..., None, None]

    def local(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Local:
        """The peak is all that is constant in ``x``."""
        peak = self.peak(a, b, c)
        bad = ~(np.isfinite(peak) & (peak > 0))
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                f"{type(self).__name__} at the grid point {b[first]:g}",
                got=f"conditional variance {peak[first] ** 2:g} given its neighbours {a[first]:g}, {c[first]:g}",
                expected="a positive finite number",
                cause="the kernel is degenerate there, or p and q overflow or cancel at this depth",
                do="use fewer levels, or another lengthscale",
            )
        matrix = peak[:, None, None]
        return Local(a, b, c, matrix, matrix)

    def features(
        self, x: Float[Array, " n"], local: Local, position: Int[Array, " n"]
    ) -> Float[Array, "n s"]:
        """``S rise(x) fall(x)``: whichever of the two does not apply is 1 after clipping to its side."""
        a, b, c, peak = (table[position] for table in local[:4])
        with np.errstate(under="ignore", over="ignore"):
            up = self.rise(a, np.clip(x, a, b), b)
            down = self.fall(b, np.clip(x, b, c), c)
            return (peak[:, 0, 0] * (up * down))[:, None]

    def columns(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Columns:
        """``1/S`` and the two interpolation weights over ``S``."""
        scale = 1.0 / self.peak(a, b, c)
        has_left, has_right = np.isfinite(a), np.isfinite(c)
        left, right = np.zeros_like(b), np.zeros_like(b)
        left[has_left] = -self.fall(a[has_left], b[has_left], c[has_left]) * scale[has_left]
        right[has_right] = -self.rise(a[has_right], b[has_right], c[has_right]) * scale[has_right]
        return Columns(*(column[:, None, None] for column in (scale, left, right)))


@dataclasses.dataclass(frozen=True)
class Markov(AbstractMarkov):
    """Any Markov kernel from its two functions: ``variance * p(min / lengthscale) q(max / lengthscale)``.

    ``p`` and ``q`` take and return NumPy arrays, are positive on ``domain`` and have ``p/q`` strictly increasing;
    both are checked at construction on a fine grid of the domain's part in (0, 1) (of its first unit of length if it
    has none there) and refused with the point where they fail. Values come from differences ``D(x, y)`` of products,
    so about half the digits of a level are lost at depth 26; ``Laplace`` and ``Brownian`` have closed forms that lose
    none.

    >>> k = Markov(p=lambda x: np.exp(x), q=lambda x: np.exp(-x))
    >>> bool(np.allclose(k([0.2], [0.5]), np.exp(-0.3)))
    True
    """

    p: Callable[[Array], Array]
    q: Callable[[Array], Array]
    lengthscale: float = 1.0
    variance: float = 1.0
    domain: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        positive("Markov lengthscale", self.lengthscale)
        positive("Markov variance", self.variance)
        low, high = max(self.domain[0], 0.0), min(self.domain[1], 1.0)
        if not low < high:  # a domain beside the unit interval: its first unit of length
            low, high = self.domain[0], min(self.domain[1], self.domain[0] + 1.0)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError("Markov domain", got=repr(self.domain), expected="(low, high) with low < high")
        x = low + (high - low) * np.arange(1, CHECK_POINTS) / CHECK_POINTS
        p, q = self._pq(x)
        for name, value in (("p", p), ("q", q)):
            bad = ~(np.isfinite(value) & (value > 0))
            if bad.any():
                first = int(np.argmax(bad))
                raise InputError(
                    f"Markov kernel: {name}",
                    got=f"{name}({x[first]:.6g}) = {value[first]:.6g}",
                    expected="a positive finite number everywhere on the domain",
                    do="give a domain on which p and q are positive",
                )
        step = np.diff(p / q)
        if not (step > 0).all():
            first = int(np.argmax(~(step > 0)))
            raise InputError(
                "Markov kernel: the clock p/q",
                got=f"p/q = {p[first] / q[first]:.6g} at x = {x[first]:.6g} and "
                f"{p[first + 1] / q[first + 1]:.6g} at x = {x[first + 1]:.6g}",
                expected="a strictly increasing ratio (Lemma 1), otherwise k is not positive definite",
                cause="p and q are swapped, or the ratio is constant somewhere",
                do="swap or change p and q",
            )

    def _pq(self, x: Float[Array, "*n"]) -> tuple[Array, Array]:
        z = x / self.lengthscale
        p = np.broadcast_to(np.asarray(self.p(z), dtype=np.float64), z.shape)
        q = np.broadcast_to(np.asarray(self.q(z), dtype=np.float64), z.shape)
        return p, q

    def _determinant(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, " n"]:
        """``D(x, y)``; ``x`` may be ``-inf`` and ``y`` may be ``inf``."""
        open_left, open_right = np.isneginf(x), np.isposinf(y)
        px, qx = self._pq(np.where(open_left, y, x))
        py, qy = self._pq(np.where(open_right, x, y))
        value = np.where(open_left, py, np.where(open_right, qx, py * qx - px * qy))
        return np.where(open_left & open_right, 1.0, value)

    def rise(self, a: Float[Array, " n"], x: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
        """``D(a, x) / D(a, b)``, not below 0 where rounding would put it."""
        return np.maximum(self._determinant(a, x) / self._determinant(a, b), 0.0)

    def fall(self, b: Float[Array, " n"], x: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``D(x, c) / D(b, c)``, not below 0 where rounding would put it."""
        return np.maximum(self._determinant(x, c) / self._determinant(b, c), 0.0)

    def peak(self, a: Float[Array, " n"], b: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sqrt(variance D(a,b) D(b,c) / D(a,c))``."""
        left, right = self._determinant(a, b), self._determinant(b, c)
        whole = np.ones_like(b)
        closed = ~(np.isneginf(a) & np.isposinf(c))
        whole[closed] = self._determinant(a[closed], c[closed])
        with np.errstate(invalid="ignore"):
            return np.sqrt(self.variance * left * right / whole)

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * p(min) q(max)``."""
        return self.variance * self._pq(np.minimum(x, y))[0] * self._pq(np.maximum(x, y))[1]

    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """The same ``p`` and ``q`` with another lengthscale or variance."""
        return dataclasses.replace(
            self,
            lengthscale=self.lengthscale if lengthscale is None else lengthscale,
            variance=self.variance if variance is None else variance,
        )
