"""Oracles: the rule written out by hand, and a clock that the test moves."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.experiments.convergence import COOLING, ConvergeThenCool, converged_after, gap, look_at


def test_looks_grow_by_a_tenth():
    looks = look_at(500, 10_000)
    assert looks[0] == 500
    np.testing.assert_allclose(np.divide(looks[1:], looks[:-1]), 1.1, rtol=2e-3)
    assert np.all(np.diff(look_at(1, 30)) >= 1)


def test_gap_is_that_of_the_last_two_quarters():
    losses = np.random.default_rng(0).normal(size=400)
    assert gap(losses) == pytest.approx(losses[200:300].mean() - losses[300:].mean(), rel=1e-12)
    assert gap([5.0, 1.0]) == 4.0


@pytest.mark.parametrize("sign", [1, -1])
def test_convergence_is_up_or_down(sign: int):
    # a straight line changes by slope * n / 4 between quarters: it converges when it is flat enough only
    assert converged_after(sign * 1e-4 * np.arange(3000)) == 500
    assert converged_after(sign * 1e-3 * np.arange(3000)) is None


def test_a_decay_is_found_at_the_look_that_the_formula_says():
    losses = 100.0 / np.arange(1, 20_000)
    # 100 (ln(3/2) - ln(4/3)) / (n/4) = 47.1 / n <= 0.02 from n = 2356 on
    found = converged_after(losses)
    assert found is not None
    looks = look_at(500, found)
    assert looks[-2] < 2356 <= found


def test_many_looks_at_noise_rarely_pass_before_the_loss_is_flat():
    # Drift of 0.2 nats between quarters, noise of 0.1 per iteration: the gap's error at 500 is 0.013, so that a pass
    # there is 14 standard errors away. 200 traces, none may pass.
    rng = np.random.default_rng(1)
    for _ in range(200):
        losses = 5.0 - 0.0016 * np.arange(700) + 0.1 * rng.normal(size=700)
        assert converged_after(losses) is None


def test_training_stops_after_cooling_by_a_quarter_and_the_rate_falls_linearly():
    rule = ConvergeThenCool(least=100)
    rates = []
    while not rule.hear(1.0):
        rates.append(rule.rate())
    assert rule.converged == 100
    assert rule.ended == "converged"
    assert len(rule.losses) == 100 * (1 + COOLING)
    assert rates[:99] == [1.0] * 99
    np.testing.assert_allclose(rates[99:], 1.0 - np.arange(25) / 25, atol=1e-12)


def test_a_limit_cools_over_its_last_fifth():
    now = [0.0]
    rule = ConvergeThenCool(limit=10.0, least=10_000, clock=lambda: now[0])
    rates = []
    for now[0] in (0.0, 5.0, 8.0, 9.0, 9.9):
        assert not rule.hear(1.0)
        rates.append(rule.rate())
    np.testing.assert_allclose(rates, [1.0, 1.0, 1.0, 0.5, 0.05], atol=1e-12)
    now[0] = 10.0
    assert rule.hear(1.0)
    assert (rule.ended, rule.converged, rule.rate()) == ("limit", None, 1e-3)
