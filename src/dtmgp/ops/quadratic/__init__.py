"""Contractions of plans without products of three: a quadratic form in one-dimensional values, no list of features."""
