"""A two-branch law on the unit square: which branch is chosen depends on the input, at random."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from dtmgp.random import RandomState, as_generator
from dtmgp.simulators.base import along_rows, check_count, check_inputs, check_outputs


class TwoBranches:
    """``Y(x) ~ N(2 + x2, s^2)`` with probability ``1 / (1 + exp(-6 (x1 - 0.5)))``, else ``N(-1 + sin(6 x2)/2, s^2)``.

    The noise is ``s = 0.2 (0.5 + x1)``; x lies in the unit square. The two modes are 2.7 to 4.3 apart, at least
    nine times s, so a model of the mean and the variance alone is far from the law.

    >>> TwoBranches().sample([[0.1, 0.5], [0.9, 0.5]], n_replicates=4, random_state=0).round(1)
    array([[-0.9, -0.9, -0.9, -0.8],
           [ 2.1,  2.5,  2.4,  2.3]])
    """

    draws_row_by_row = True
    input_names = ("x1", "x2")

    def __repr__(self) -> str:
        return "TwoBranches()"

    @property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """The unit square, shape (2, 2)."""
        return np.array([[0.0, 1.0], [0.0, 1.0]])

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r"]:
        """Draw ``n_replicates`` outputs at each row of X (n, 2); returns (n, n_replicates)."""
        chance, upper, lower, noise = self._law(X)
        shape = (len(chance), check_count("n_replicates", n_replicates))
        # Two normals for a draw, so that the rows of the stream do not depend on the branches.
        normal = as_generator(random_state).standard_normal((*shape, 2))
        centre = np.where(ndtr(normal[..., 0]) < chance[:, None], upper[:, None], lower[:, None])
        return np.asarray(centre + noise[:, None] * normal[..., 1])

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """P(Y(x) <= y) at the rows of X (n, 2); y (n, ...) row by row, or a number."""
        parameters = self._law(X)
        values = check_outputs(y, len(parameters[0]))
        chance, upper, lower, noise = (along_rows(p, values.ndim) for p in parameters)
        return np.asarray(
            chance * ndtr((values - upper) / noise) + (1.0 - chance) * ndtr((values - lower) / noise)
        )

    def pdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Density of Y(x); shapes as in :meth:`cdf`."""
        parameters = self._law(X)
        values = check_outputs(y, len(parameters[0]))
        chance, upper, lower, noise = (along_rows(p, values.ndim) for p in parameters)
        first = np.exp(-0.5 * ((values - upper) / noise) ** 2)
        second = np.exp(-0.5 * ((values - lower) / noise) ** 2)
        return np.asarray((chance * first + (1.0 - chance) * second) / (np.sqrt(2.0 * np.pi) * noise))

    def _law(self, X: ArrayLike) -> tuple[Float[np.ndarray, " n"], ...]:
        """Probability of the upper branch, its mean, the other mean, and the noise."""
        x1, x2 = check_inputs(X, self.bounds, self.input_names).T
        return expit(6.0 * (x1 - 0.5)), 2.0 + x2, -1.0 + 0.5 * np.sin(6.0 * x2), 0.2 * (0.5 + x1)
