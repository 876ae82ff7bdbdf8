"""Hashes that decide about rows: the same in every process and every pass, whatever the order of reading."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, UInt64

Array = np.ndarray
ROW_BITS = 40  # a row group has fewer than 2^40 rows
STEP = 0x9E3779B97F4A7C15
HELD_OUT, START, DISTINCT, SPREAD = 1, 2, 3, 4  # what a hash is for


def mixed(values: UInt64[Array, "*shape"], salt: int = 0) -> UInt64[Array, "*shape"]:
    """Steele, Lea and Flood's finaliser of SplitMix64 (2014): a bijection of 64-bit numbers that looks random.

    The first number of SplitMix64 seeded with 0 is the image of its step.

    >>> hex(int(mixed(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    z = values + np.uint64(salt * STEP % 2**64)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def row_keys(row_group: int, row: Int[Array, " n"]) -> UInt64[Array, " n"]:
    """One number for every row of a source."""
    return np.uint64(row_group << ROW_BITS) | row.astype(np.uint64)


def row_hash(keys: UInt64[Array, " n"], seed: int, purpose: int) -> UInt64[Array, " n"]:
    """Hashes of rows for one purpose; different rows have different ones."""
    salt = int(mixed(np.array([seed % 2**64], dtype=np.uint64), purpose)[0])
    return mixed(mixed(keys ^ np.uint64(salt)), purpose)


def input_hash(x: Float[Array, "n d"]) -> UInt64[Array, " n"]:
    """Hashes of inputs: equal numbers have equal ones, 0 and -0 included."""
    found = np.full(len(x), STEP, dtype=np.uint64)
    for column in np.ascontiguousarray((x + 0.0).T).view(np.uint64):
        found ^= column
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return mixed(found)


def row_uniforms(keys: UInt64[Array, " n"], columns: int, seed: int) -> Float[Array, "n columns"]:
    """Numbers in [0, 1) that belong to the rows, whenever they are read."""
    found = np.empty((len(keys), columns))
    for k in range(columns):
        found[:, k] = (row_hash(keys, seed + k, SPREAD) >> np.uint64(11)) * 2.0**-53
    return found
