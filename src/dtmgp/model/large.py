"""Models with layers of millions of features."""

from __future__ import annotations

from torch import nn

from dtmgp.layers.layer import ExpansionLayer
from dtmgp.layers.tables import TABLE_FROM, TableLayer, why_dense
from dtmgp.likelihoods import MixtureOfNormals
from dtmgp.model.dtmgp import DTMGP


def with_tables(model: DTMGP, *, table_from: int | None = None) -> DTMGP:
    """The model, in place, with the weights of every layer from ``table_from`` (2^18) weights on in a table.

    Layers that cannot be one (`why_dense`: additive kernels, several priors, a GPU) stay as they are, and so does the
    last one of a likelihood whose processes have priors of different scales (a mixture of normals).

    >>> from dtmgp.likelihoods import GaussianLikelihood
    >>> from dtmgp.model import deep_model
    >>> type(with_tables(deep_model(2, GaussianLikelihood()), table_from=10).stack[1]).__name__
    'TableLayer'
    """
    least = TABLE_FROM if table_from is None else table_from
    for number, layer in enumerate(model.stack):
        if number == model.depth - 1 and isinstance(model.likelihood, MixtureOfNormals):
            continue
        large = isinstance(layer, ExpansionLayer) and layer.features.size * layer.width >= least
        if large and not isinstance(layer, TableLayer) and why_dense(layer) is None:
            model.layers[number] = TableLayer(layer)
    assert isinstance(model.layers, nn.ModuleList)
    return model
