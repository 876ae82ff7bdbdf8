"""The final size of a stochastic epidemic: it dies out early or runs through the population."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.simulators._jit import epidemic_law, epidemic_sizes
from dtmgp.simulators.base import check_bounds, check_count, check_inputs, check_levels, check_outputs


class Epidemic:
    """Number of people infected in a Markov SIR epidemic, of ``susceptible`` ones at its start.

    Inputs are the basic reproduction number R0 (infection rate / recovery rate) in [0.5, 4] and the number
    initially infected in [1, 5], who do not count in the output. A number between two integers means the
    upper one with probability of its fraction, else the lower: so the law is continuous in both inputs.

    With s susceptible and i infected people, infections happen at rate ``R0 s i / susceptible`` and recoveries at
    rate i. The final size depends on the order of the events only, so the chain of jumps is simulated, not its
    times: exact, about 15 ns per event. For R0 > 1 the law has two modes, with its largest atom often at 0. It is
    computed as well, from the visits of the chain, in O(susceptible^2) per input.

    References: Andersson and Britton (2000), "Stochastic Epidemic Models and Their Statistical Analysis", chapter 2.

    >>> Epidemic().sample([[0.5, 1.0], [4.0, 5.0]], n_replicates=4, random_state=0)
    array([[  3.,   0.,   3.,   0.],
           [194., 196., 198., 196.]])
    >>> Epidemic().pmf([[2.0, 1.0]])[0, 0].round(4)  # nobody else: 1/(1 + R0)
    np.float64(0.3333)
    """

    draws_row_by_row = True
    input_names = ("reproduction number", "initially infected")

    def __init__(self, susceptible: int = 200, *, bounds: ArrayLike = ((0.5, 4.0), (1.0, 5.0))) -> None:
        self.susceptible = check_count("susceptible", susceptible)
        self._bounds = check_bounds(bounds, 2)
        if self._bounds[0, 0] < 0.0 or self._bounds[1, 0] < 1.0:
            raise InputError(
                "bounds of the epidemic",
                got=repr(self._bounds.tolist()),
                expected="reproduction numbers of at least 0, at least 1 initially infected",
            )

    def __repr__(self) -> str:
        return f"Epidemic(susceptible={self.susceptible})"

    @property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """Bounds of the reproduction number, then of the number initially infected, shape (2, 2)."""
        return self._bounds.copy()

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r"]:
        """Draw final sizes, whole numbers, at the rows of X (n, 2); returns (n, n_replicates)."""
        reproduction, infected = self._inputs(X)
        n_replicates = check_count("n_replicates", n_replicates)
        generator = as_generator(random_state)
        return np.asarray(epidemic_sizes(reproduction, infected, n_replicates, self.susceptible, generator))

    def pmf(self, X: ArrayLike) -> Float[np.ndarray, "n sizes"]:
        """Probabilities of the sizes 0, 1, ..., ``susceptible`` at the rows of X (n, 2), shape (n, susceptible + 1)."""
        return np.asarray(epidemic_law(*self._inputs(X), self.susceptible))

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """P(Y(x) <= y) at the rows of X (n, 2), a step function of y (n, ...), or of a number."""
        steps = self._steps(X)
        values = check_outputs(y, len(steps))
        place = np.floor(np.clip(values, -1.0, self.susceptible)).astype(np.int64) + 1
        # A leading zero for values below 0.
        steps = np.concatenate([np.zeros((len(steps), 1)), steps], axis=1)
        flat = np.take_along_axis(steps, place.reshape(len(steps), -1) if place.size else place, axis=1)
        return np.asarray(flat.reshape(values.shape))

    def quantile(self, X: ArrayLike, q: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Smallest size whose cdf is at least q: (n,) for a number q, (n, k) for levels (k,)."""
        levels, steps = check_levels(q), self._steps(X)
        rows = [np.searchsorted(row, levels) for row in steps]
        return np.asarray(rows, dtype=np.float64).reshape(len(steps), *levels.shape)

    def _steps(self, X: ArrayLike) -> Float[np.ndarray, "n sizes"]:
        steps = np.cumsum(self.pmf(X), axis=1)
        # Rounding would leave 1 - 1e-15, and a quantile of level 1 beyond the last size.
        steps[:, -1] = 1.0
        return np.minimum(steps, 1.0)

    def _inputs(self, X: ArrayLike) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        inputs = check_inputs(X, self._bounds, self.input_names)
        return np.ascontiguousarray(inputs[:, 0]), np.ascontiguousarray(inputs[:, 1])
