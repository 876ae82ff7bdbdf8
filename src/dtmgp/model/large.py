"""Models with layers of millions of features."""

from __future__ import annotations

from torch import nn

from dtmgp.layers.layer import ExpansionLayer
from dtmgp.layers.tables import TABLE_FROM, TableLayer, why_dense
from dtmgp.model.dtmgp import DTMGP


def with_tables(model: DTMGP, *, table_from: int = TABLE_FROM) -> DTMGP:
    """The model, in place, with the weights of every layer from ``table_from`` weights on in a table.

    Layers that cannot be one (`why_dense`: additive kernels, several priors, a GPU) stay as they are.

    >>> from dtmgp.likelihoods import GaussianLikelihood
    >>> from dtmgp.model import deep_model
    >>> type(with_tables(deep_model(2, GaussianLikelihood()), table_from=10).stack[1]).__name__
    'TableLayer'
    """
    for number, layer in enumerate(model.stack):
        large = isinstance(layer, ExpansionLayer) and layer.features.size * layer.width >= table_from
        if large and not isinstance(layer, TableLayer) and why_dense(layer) is None:
            model.layers[number] = TableLayer(layer)
    assert isinstance(model.layers, nn.ModuleList)
    return model
