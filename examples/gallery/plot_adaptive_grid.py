"""
A grid that follows the function
================================

Any lower set of multi-indices is a grid. ``LowerSet.refine`` adds the neighbours of chosen members that keep the set
lower, so that a grid can grow where the function needs it.
"""

# %%
# The function below is rough in its first input and nearly linear in the second, and the two hardly interact. We
# know its values at any point we like (interpolation without noise). The weights of the features of a multi-index say
# how much it contributes: refine the member that contributes most for its cost and whose neighbours are not there yet.

import matplotlib.pyplot as plt
import numpy as np

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.kernels import Laplace


def function(x):
    return np.abs(np.sin(9 * x[:, 0])) + 0.3 * x[:, 1] + 0.1 * x[:, 0] * x[:, 1]


def weights(grid):
    """Coordinates of the interpolant: ``R^-T f(X)``, one per feature."""
    expansion = HierarchicalExpansion(Laplace(2.0), grid)
    return expansion, expansion.inverse_cholesky().T @ function(grid.points)


fresh = np.random.default_rng(0).random((2000, 2))


def error(grid):
    expansion, found = weights(grid)
    return np.sqrt(np.mean((expansion.features(fresh) @ found - function(fresh)) ** 2))


# %%
# Growth: one member at a time. Its neighbours bring a fraction of its sum of squares and cost twice its points, hence
# the square of the size.

grid, path = LowerSet([(1, 1)]), []
while grid.size < 700:
    path.append((grid.size, error(grid)))
    _, found = weights(grid)
    shares = np.add.reduceat(found**2, grid.layout.offset[: grid.active_per_input])
    sizes = 2 ** (grid.multi_indices - 1).sum(axis=1)
    for member in grid.multi_indices[np.argsort(shares / sizes**2)[::-1]]:
        larger = grid.refine([member])
        if larger.size > grid.size:
            grid = larger
            break
adaptive = np.array([*path, (grid.size, error(grid))])
sparse = np.array([(SparseGrid(2, k).size, error(SparseGrid(2, k))) for k in range(1, 8)])
print(grid)
print(
    f"error {error(grid):.4f}; sparse grid of level 7: {SparseGrid(2, 7).size} points, error {sparse[-1, 1]:.4f}"
)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(*grid.points.T, ".", ms=4)
left.set(xlabel="$x_1$", ylabel="$x_2$", title=f"{grid.size} points", xlim=(0, 1), ylim=(0, 1))
right.loglog(*sparse.T, "o-", label="sparse grids")
right.loglog(*adaptive.T, ".-", label="adaptive lower sets")
right.set(xlabel="features m", ylabel="root mean square error", title="interpolation")
right.legend(frameon=False)
plt.show()
