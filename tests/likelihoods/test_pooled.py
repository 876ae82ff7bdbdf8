"""Oracle: the mean over hidden draws of the components' own cdf, one level at a time."""

from __future__ import annotations

import pytest
import torch

from dtmgp.likelihoods import NormalComponents, NormalMixtureComponents, PoissonComponents, PooledNormals
from dtmgp.likelihoods import pooled as module

S, N, W, C, Q = 5, 4, 2, 3, 11


def laws():
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    logits = torch.log_softmax(normal(S, N, W, C), dim=-1)
    mixture = NormalMixtureComponents(logits, 3.0 * normal(S, N, W, C), normal(S, N, W, C).exp())
    return {"normal": NormalComponents(normal(S, N, W), normal(S, N, W).exp()), "mixture": mixture}


@pytest.mark.parametrize("name", list(laws()))
@pytest.mark.parametrize("entries", [1, 1000, 1 << 17])  # one level at a time, some, all
def test_cdf_is_the_mean_over_hidden_draws(name, entries, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", entries)
    law = laws()[name]
    z = torch.linspace(-9.0, 9.0, N * W * Q, dtype=torch.float64).reshape(N, W, Q)
    wanted = torch.stack([law.cdf(part).mean(0) for part in z.unbind(-1)], dim=-1)
    found = PooledNormals.of(law).cdf(z)
    assert found.shape == (N, W, Q)
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=1e-15)  # measured: 3e-16


def test_other_laws_are_left_to_themselves():
    assert PooledNormals.of(PoissonComponents(torch.ones(1, 1, 1))) is None
