"""The sojourn time of a customer in a queue with one server, exponential arrivals and exponential services."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.simulators.base import (
    along_rows,
    check_bounds,
    check_count,
    check_inputs,
    check_levels,
    check_outputs,
)

# Customers held in memory at once. It does not change the draws.
_BLOCK_CUSTOMERS = 1 << 16


class MM1Queue:
    """Sojourn time (wait and service) in an M/M/1 queue; inputs are its arrival rate and its service rate.

    The default box, arrivals in [0.6, 0.95] and services in [1, 2], holds loads (arrival rate / service rate) of 0.3 to
    0.95: its corners are the extremes. Other ``bounds`` must keep the load below 1.

    By default draws come from the stationary law, exponential with rate ``service - arrival``: exact. With
    ``customers=n`` every replicate is a run of its own that starts with an empty queue; the output is the sojourn time
    of the n-th customer, or with ``average=True`` the mean over the n customers. As n grows, the first tends to
    the stationary law and the second to its mean, the slower the nearer the load is to 1. About 100 ns per customer.

    >>> MM1Queue().sample([[0.6, 2.0], [0.95, 1.0]], n_replicates=3, random_state=0).round(1)
    array([[ 0.5,  0.7,  0. ],
           [ 0. , 11. , 32.6]])
    >>> MM1Queue(customers=1000, average=True).sample([[0.6, 2.0]], random_state=0).round(1)  # tends to 1/1.4
    array([[0.7]])
    """

    draws_row_by_row = True
    input_names = ("arrival rate", "service rate")

    def __init__(
        self,
        customers: int | None = None,
        *,
        average: bool = False,
        bounds: ArrayLike = ((0.6, 0.95), (1.0, 2.0)),
    ) -> None:
        self.customers = None if customers is None else check_count("customers", customers)
        self.average = average
        if average and customers is None:
            raise InputError(
                "average=True",
                got="customers=None, the stationary law",
                expected="a number of customers to average over",
                do="pass customers=1000, for instance",
            )
        self._bounds = check_bounds(bounds, 2)
        (slowest_arrival, fastest_arrival), (slowest_service, _) = self._bounds
        if not slowest_arrival > 0.0 or not fastest_arrival < slowest_service:
            raise InputError(
                "bounds of the queue",
                got=f"arrivals from {float(slowest_arrival)!r} to {float(fastest_arrival)!r}, "
                f"services from {float(slowest_service)!r}",
                expected="positive arrival rates, all of them below all service rates",
                cause="a load of 1 or more, whose queue grows for ever",
            )

    def __repr__(self) -> str:
        return f"MM1Queue(customers={self.customers}, average={self.average})"

    @property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """Smallest and largest arrival rate, then service rate, shape (2, 2)."""
        return self._bounds.copy()

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r"]:
        """Draw sojourn times at the rows of X (n, 2); returns (n, n_replicates)."""
        inputs = check_inputs(X, self._bounds, self.input_names)
        n_replicates = check_count("n_replicates", n_replicates)
        generator = as_generator(random_state)
        if self.customers is None:
            draws = generator.standard_exponential((len(inputs), n_replicates))
            return np.asarray(draws / (inputs[:, 1] - inputs[:, 0])[:, None])
        times = np.empty((len(inputs), n_replicates))
        cells = times.reshape(-1)
        cells_per_block = max(1, _BLOCK_CUSTOMERS // self.customers)
        for start in range(0, cells.size, cells_per_block):
            stop = min(start + cells_per_block, cells.size)
            rates = inputs[np.arange(start, stop) // n_replicates]
            gaps = generator.standard_exponential((stop - start, self.customers, 2)) / rates[:, None, :]
            sojourns = sojourn_times(gaps[..., 0], gaps[..., 1])
            cells[start:stop] = sojourns.mean(axis=1) if self.average else sojourns[:, -1]
        return times

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """P(Y(x) <= y) = 1 - exp(-(service - arrival) y); y (n, ...) row by row, or a number. Stationary draws only."""
        rate = self._rate(X)
        values = check_outputs(y, len(rate))
        return np.asarray(-np.expm1(-along_rows(rate, values.ndim) * np.maximum(values, 0.0)))

    def pdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Density of Y(x), zero for negative times; shapes as in :meth:`cdf`. Stationary draws only."""
        rate = self._rate(X)
        values = check_outputs(y, len(rate))
        rows = along_rows(rate, values.ndim)
        return np.where(values < 0.0, 0.0, rows * np.exp(-rows * np.maximum(values, 0.0)))

    def quantile(self, X: ArrayLike, q: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Quantiles, -log(1 - q) / (service - arrival): (n,) for a number q < 1, (n, k) for levels (k,)."""
        levels = check_levels(q)
        if (levels == 1.0).any():
            raise InputError(
                "levels q of the quantiles", got="1.0", expected="levels below 1: times are unbounded"
            )
        return np.asarray(np.multiply.outer(1.0 / self._rate(X), -np.log1p(-levels)))

    def _rate(self, X: ArrayLike) -> Float[np.ndarray, " n"]:
        if self.customers is not None:
            raise InputError(
                "law of the sojourn time",
                got=f"a run of {self.customers} customers",
                expected="the stationary queue, customers=None",
                cause="finite runs have no simple law",
                do="use MM1Queue(), whose law is the limit of the last customer's",
            )
        inputs = check_inputs(X, self._bounds, self.input_names)
        return np.asarray(inputs[:, 1] - inputs[:, 0])


def sojourn_times(
    gaps: Float[np.ndarray, "*runs customers"], services: Float[np.ndarray, "*runs customers"]
) -> Float[np.ndarray, "*runs customers"]:
    """Sojourn times W_k = max(W_(k-1) - gap_k, 0) + service_k with W_0 = 0 (Lindley 1952), along the last axis.

    Solved without a loop: with the walk C_k = sum of (service_(j-1) - gap_j), the wait is C_k minus its smallest
    value so far. ``gaps`` are the times between arrivals; the first is not used.

    >>> sojourn_times(
    ...     np.array([0.0, 1.0, 5.0]), np.array([3.0, 1.0, 2.0])
    ... )  # the second waits 2, the third not
    array([3., 3., 2.])
    """
    walk = np.zeros_like(services)
    np.cumsum(services[..., :-1] - gaps[..., 1:], axis=-1, out=walk[..., 1:])
    return np.asarray(walk - np.minimum.accumulate(walk, axis=-1) + services)
