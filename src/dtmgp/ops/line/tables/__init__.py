"""Tables of the compiled line features from lengthscales and variance, with derivatives."""
