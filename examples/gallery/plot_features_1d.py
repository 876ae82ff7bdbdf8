"""
Hierarchical features in one dimension
======================================

A feature belongs to a design point and vanishes outside the interval between that point's neighbours of lower
levels. Where there is no neighbour on a side, it reaches to the end of the line.
"""

# %%
# The Laplace kernel is Markov: one feature per point, and one active feature per level at any input. On interior
# cells the features are ratios of hyperbolic sines, nearly hats when the length-scale is long against the cell.
#
# A Matern-3/2 process is Markov together with its derivative. Each point then carries two features, one for the
# value and one for the derivative, and each family of a level counts as a level of its own.

import matplotlib.pyplot as plt
import numpy as np

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32

x = np.linspace(-0.25, 1.25, 601)
kernels = [Laplace(lengthscale=0.5), Matern32(lengthscale=0.5)]

figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, layout="constrained")
for axis, kernel in zip(axes, kernels, strict=True):
    expansion = HierarchicalExpansion(kernel, SparseGrid(1, 4))
    features = expansion.features(x).toarray()
    axis.plot(x, features, linewidth=1.2)
    axis.axvspan(0, 1, color="0.95", zorder=0)
    axis.set(title=f"{type(kernel).__name__}: {features.shape[1]} features", xlabel="x")
axes[0].set_ylabel(r"$\phi_i(x)$")
plt.show()

# %%
# The sum of squares of the features is the variance that the expansion explains. It reaches the variance of the
# process at the design points; what is missing between them is the residual variance.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for level in (1, 2, 3, 4, 5):
    expansion = HierarchicalExpansion(Laplace(lengthscale=0.5), SparseGrid(1, level))
    axis.plot(x, expansion.residual_variance(x), label=f"level {level}")
axis.set(xlabel="x", ylabel="residual variance", title="Laplace kernel, length-scale 0.5")
axis.legend()
plt.show()
