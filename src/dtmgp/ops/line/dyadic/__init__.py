"""One-dimensional features on dyadic points, compiled: the inputs of a batch side by side, in their order in memory."""
