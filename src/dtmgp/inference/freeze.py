"""Keep the location of a started model while the shape of its law is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dtmgp.layers import LinearMean
from dtmgp.model import DTMGP

QUIET = -12.0  # log standard deviation


@contextmanager
def fixed_location(model: DTMGP) -> Iterator[None]:
    """Inside, only the likelihood and the processes of the last layer beyond the locations have gradients.

    Hidden layers, kernels and the first ``likelihood.outputs`` columns of the last layer's weights stay what they are:
    what the start has found by evidence is not traded for a better fit of the noise.
    """
    outputs = model.likelihood.outputs
    last = model.stack[-1]
    tables = [last.weights.mean, last.weights.log_std, last.bias]
    if isinstance(last.mean, LinearMean):
        tables.append(last.mean.matrix)
    kept = {id(p) for p in [*tables, *model.likelihood.parameters()]}
    frozen = [p for p in model.parameters() if p.requires_grad and id(p) not in kept]

    def mask(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient[..., :outputs] = 0.0
        return gradient

    hooks = [table.register_hook(mask) for table in tables if table.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in frozen:
            parameter.requires_grad_(True)


@contextmanager
def quiet_location(model: DTMGP) -> Iterator[None]:
    """Inside, the weights of the location are their means: what is trained is the law of the noise alone."""
    log_std, outputs = model.stack[-1].weights.log_std, model.likelihood.outputs
    kept = log_std.detach()[:, :outputs].clone()
    with torch.no_grad():
        log_std[:, :outputs] = QUIET
    try:
        yield
    finally:
        with torch.no_grad():
            log_std[:, :outputs] = kept


def has_shape(model: DTMGP) -> bool:
    """Whether there is anything to train beside the location."""
    free = any(p.requires_grad for p in model.likelihood.parameters())
    return model.likelihood.width > model.likelihood.outputs or free
