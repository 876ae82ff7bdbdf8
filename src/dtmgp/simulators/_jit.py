"""Compiled loops of the simulators: the jump chain of an epidemic, and the exact law of its end."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def epidemic_sizes(reproduction, infected, n_replicates, susceptible, generator):
    """Sizes (n, r): infections until nobody is infected. ``infected`` is rounded up with probability of its fraction.

    One uniform number for the rounding and one for each infection and recovery, row by row.
    """
    rows = reproduction.shape[0]
    sizes = np.empty((rows, n_replicates))
    for row in range(rows):
        floor = int(np.floor(infected[row]))
        rest = infected[row] - floor
        # chance that the next event is an infection, for every number of susceptible people
        chance = np.empty(susceptible + 1)
        for left in range(susceptible + 1):
            pressure = reproduction[row] * left
            chance[left] = pressure / (pressure + susceptible)
        for replicate in range(n_replicates):
            active = floor + (1 if generator.random() < rest else 0)
            left = susceptible
            while active > 0:
                # Without a branch: it would be mispredicted every other time.
                infection = np.int64(generator.random() < chance[left])
                left -= infection
                active += 2 * infection - 1
            sizes[row, replicate] = susceptible - left
    return sizes


@numba.njit(cache=True, nogil=True)
def epidemic_law(reproduction, infected, susceptible):
    """Probabilities (n, susceptible + 1) of the sizes 0, 1, ..., from the chain's visits: O(susceptible^2) per row.

    With v the probability that the chain visits (left, active): a recovery leads to (left, active - 1), an infection to
    (left - 1, active + 1); what visits (left, 0) is the probability of the size. Only sums of positive terms.
    """
    rows = reproduction.shape[0]
    law = np.empty((rows, susceptible + 1))
    for row in range(rows):
        floor = int(np.floor(infected[row]))
        rest = infected[row] - floor
        entered = np.zeros(susceptible + floor + 3)
        entered[floor] = 1.0 - rest
        entered[floor + 1] = rest
        highest = floor + 1
        for left in range(susceptible, -1, -1):
            pressure = reproduction[row] * left
            chance = pressure / (pressure + susceptible)
            visits = 0.0
            # From the top down; the slot above is free already when (left - 1, active + 1) is entered.
            for active in range(highest, 0, -1):
                visits = entered[active] + (1.0 - chance) * visits
                entered[active + 1] = chance * visits
            law[row, susceptible - left] = (1.0 - chance) * visits
            # An infection leaves at least two active.
            entered[1] = 0.0
            highest += 1
    return law
