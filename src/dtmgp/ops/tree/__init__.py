"""Compiled walk over the multi-indices of a plan. Lives here: values, rows and their gradients; no weights."""
