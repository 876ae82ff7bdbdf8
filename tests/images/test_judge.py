"""Oracles: double loops, the Wasserstein distance of dtmgp.metrics, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtmgp.images.inspector import Inspector, look
from dtmgp.images.judge import Jury, energy_distance, nearest, sliced_wasserstein, spread
from dtmgp.metrics import energy_score


@pytest.mark.parametrize("width", [3, 100])
def test_energy_distance_is_its_double_sum(width):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, width)), rng.normal(0.3, 1.0, size=(9, width))

    def apart(p, q):
        return np.mean([[np.linalg.norm(x - y) for y in q] for x in p])

    expected = 2 * apart(a, b) - apart(a, a) - apart(b, b)
    found = energy_distance(torch.from_numpy(a), torch.from_numpy(b))
    assert found == pytest.approx(expected, rel=1e-6)
    assert energy_distance(torch.from_numpy(a), torch.from_numpy(a)) == pytest.approx(0.0, abs=1e-6)
    # the energy score is its half up to terms that do not depend on the model
    scores = energy_score(b, np.repeat(a.T[None], 9, axis=0)).mean()
    pairs = apart(a, b) - 0.5 * apart(a, a) * 7 / 6
    assert scores == pytest.approx(pairs, rel=1e-9)


def test_sliced_wasserstein_of_a_shift():
    """A shift by v: every projection moves by its component, of mean square |v|^2 / d."""
    a = torch.randn(50, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    shift = torch.ones(8, dtype=torch.float64)
    found = sliced_wasserstein(a, a + shift, torch.Generator().manual_seed(1), projections=20_000)
    # relative Monte-Carlo error of the mean square: sqrt(2 / 20000) at most, so half of it here
    assert found == pytest.approx(1.0, rel=0.02)


def test_spread_and_nearest():
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    assert spread(rows) == pytest.approx((5 + 0 + 5) / 3, rel=1e-6)
    known = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(nearest(rows, known, block=1), torch.tensor([1.0, 4.0, 1.0]))


def test_a_jury_finds_copies_and_missing_variety():
    generator = torch.Generator().manual_seed(0)
    inspector = Inspector().eval()
    truth, second, training = (torch.rand(40, 4096, generator=generator) for _ in range(3))
    yaw = torch.full((40,), 45.0)
    jury = Jury(inspector, truth, second, training, yaw)
    copies = jury.judge(training[:40], yaw, torch.Generator().manual_seed(1))
    assert copies.nearer == copies.much_nearer == 1.0
    fresh = jury.judge(torch.rand(40, 4096, generator=generator), yaw, torch.Generator().manual_seed(1))
    assert 0.2 < fresh.nearer < 0.8  # binomial(40, 1/2): outside once in 9,000
    same = jury.judge(truth[:1].expand(40, -1), yaw, torch.Generator().manual_seed(1))
    assert same.spread < 1e-2 < fresh.spread
    assert same.energy > 5 * fresh.energy
    assert same.energy_features > fresh.energy_features
    features, seen, kind = look(inspector, truth, block=7)
    assert features.shape == (40, 128)
    torch.testing.assert_close(kind.sum(1), torch.ones(40))
    assert copies.yaw_error == pytest.approx(
        float((look(inspector, training[:40])[1] - 45).abs().mean()), rel=1e-4
    )
    assert seen.shape == (40,)
