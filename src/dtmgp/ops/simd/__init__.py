"""Vectors of fixed length as values in Numba code. Lives here: loads, stores, arithmetic; not the mathematics."""
