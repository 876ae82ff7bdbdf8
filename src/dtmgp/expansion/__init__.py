"""Sparse expansions: features, inverse Cholesky factors and their linear algebra, in NumPy, SciPy and Numba.

Lives here: everything of the paper's sections 3.2, 4.1-4.2 and Appendix B; `reference` is its readable definition.
May not live here: parameters, training, torch.
"""

from dtmgp.expansion.hierarchical import HierarchicalExpansion
from dtmgp.expansion.induced import InducedExpansion

__all__ = ["HierarchicalExpansion", "InducedExpansion"]
