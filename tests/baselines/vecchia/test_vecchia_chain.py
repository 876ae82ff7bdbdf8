"""Oracles: prior moments that a chain must keep when its outputs are redrawn (Geweke 2004), factors computed afresh.

Alternating one sweep with new outputs drawn from the model given the state leaves the prior of the state invariant.
Its moments are known (gamma means, correlations averaged over the prior by quadrature). Seeds are fixed; with another
seed each of the some 50 comparisons at 4.5 standard errors would fail in about 1 case of 100,000, from batch means.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dtmgp.baselines.vecchia import Covariance, Priors, chain, samplers
from dtmgp.baselines.vecchia.chain import Chain, Draws, State
from dtmgp.baselines.vecchia.factors import DenseSets, VecchiaSets
from dtmgp.baselines.vecchia.likelihood import Replicated
from dtmgp.baselines.vecchia.samplers import JITTER, GammaPrior

N, WIDTH = 5, 2
INPUTS = np.linspace(0, 1, N * WIDTH).reshape(N, WIDTH)[:, ::-1] ** 2
COUNT = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
NUGGET, INNER, OUTER = GammaPrior(3.0, 10.0), GammaPrior(3.0, 2.0), GammaPrior(2.5, 2.0)


def start(layers, vecchia, generator, identity=False, count=COUNT):
    hidden = [generator.standard_normal((N, WIDTH)) for _ in range(layers - 1)]
    sets = [
        VecchiaSets(INPUTS, 2, np.random.default_rng(7)) if vecchia else DenseSets() for _ in range(layers)
    ]
    state = State(0.3, 1.0, 1.0, [np.ones(WIDTH) for _ in hidden], hidden)
    return Chain(
        INPUTS,
        Replicated(generator.standard_normal(N), count, 0.5),
        state,
        sets,
        Covariance.MATERN52,
        Priors(NUGGET, OUTER, (INNER,) * (layers - 1)),
        INPUTS if identity else None,
        False,
        generator,
    )


def redraw_outputs(chain):
    """New outputs given the state; the likelihood does not depend on their scale, here 1."""
    state = chain.state
    factor = chain.sets[-1].factor(
        chain.inputs_of(len(state.hidden)),
        chain.covariance,
        state.outer_theta,
        chain.outputs.noise(state.nugget),
    )
    mean = factor.colour(chain.generator.standard_normal(N))
    free = chain.outputs.total - N
    within = state.nugget * float(chain.generator.chisquare(free)) if free else 0.0
    chain.outputs = Replicated(mean, chain.outputs.count, within)
    chain.refresh()


def expected_correlation(first, second):
    distance = np.sqrt(5 * ((first - second) ** 2).sum())

    def integrand(theta):
        r = distance / np.sqrt(theta)
        return (1 + r + r * r / 3) * np.exp(-r) * stats.gamma(3.0, loc=JITTER, scale=0.5).pdf(theta)

    return integrate.quad(integrand, 0, 40)[0]


def z_scores(layers, vecchia, sweeps, identity=False, burn_in=200, seed=0):
    chain = start(layers, vecchia, np.random.default_rng(seed), identity)
    # The two points before all others condition on nothing or on each other, in Vecchia's sets too.
    i, k = chain.sets[0].order[:2] if vecchia else (0, 1)
    correlation = expected_correlation(INPUTS[i], INPUTS[k])
    rows = []
    for step in range(sweeps):
        redraw_outputs(chain)
        chain.sweep()
        if step < burn_in:
            continue
        state = chain.state
        row = [
            state.nugget - 0.3,
            state.nugget**2 - (0.09 + 0.03),
            state.outer_theta - 1.25,
            state.outer_theta**2 - (1.25**2 + 0.625),
        ]
        for theta, values in zip(state.theta, state.hidden, strict=True):
            row += [*(theta - 1.5), *(theta**2 - (1.5**2 + 0.75))]
            deviations = values - INPUTS if identity else values
            row += [deviations.mean(), (deviations**2).mean() - 1 - JITTER]
        if state.hidden:
            deviations = state.hidden[0] - INPUTS if identity else state.hidden[0]
            row.append((deviations[i] * deviations[k]).mean() - correlation)
        rows.append(row)
    batches = np.array(rows)
    batches = batches[: len(batches) // 40 * 40].reshape(40, -1, batches.shape[1]).mean(axis=1)
    return batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / np.sqrt(40))


CASES = [(1, False, False), (2, True, False), (2, False, True), (3, True, False)]


@pytest.mark.parametrize(("layers", "vecchia"), [(1, False), (2, True)])
def test_redrawing_the_outputs_leaves_the_prior(layers, vecchia):
    assert np.abs(z_scores(layers, vecchia, 850, burn_in=50)).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "vecchia", "identity"), CASES)
def test_redrawing_the_outputs_leaves_the_prior_for_long(layers, vecchia, identity):
    assert np.abs(z_scores(layers, vecchia, 6000, identity)).max() < 4.5


@pytest.mark.slow
def test_a_wrong_acceptance_ratio_would_be_seen(monkeypatch):
    right = samplers.log_acceptance

    def without_hastings(current, proposal, *rest):
        return right(current, proposal, *rest) - np.log(current / proposal)

    monkeypatch.setattr(samplers, "log_acceptance", without_hastings)
    assert np.abs(z_scores(2, True, 4000)).max() > 5


@pytest.mark.slow
def test_a_hidden_likelihood_without_its_determinant_would_be_seen(monkeypatch):
    right = chain.hidden_log_likelihood
    monkeypatch.setattr(
        chain, "hidden_log_likelihood", lambda factor, values: right(factor, values) - factor.log_det
    )
    # Measured: 51.
    assert np.abs(z_scores(2, False, 4000)).max() > 20


@pytest.mark.parametrize(("layers", "vecchia"), [(1, True), (2, False), (3, True)])
def test_kept_factors_and_likelihood_are_those_computed_afresh(layers, vecchia):
    chain = start(layers, vecchia, np.random.default_rng(3))
    for _ in range(60):
        chain.sweep()
    kept_likelihood, kept_scale = chain.log_likelihood, chain.state.scale
    kept = [[factor.log_det for factor in factors] for factors in chain._factors]
    chain.refresh()
    assert chain.log_likelihood == pytest.approx(kept_likelihood, rel=1e-12)
    assert chain.state.scale == pytest.approx(kept_scale, rel=1e-12)
    for factors, determinants in zip(chain._factors, kept, strict=True):
        assert [factor.log_det for factor in factors] == pytest.approx(determinants, rel=1e-12)


def test_a_fixed_nugget_stays():
    chain = start(2, True, np.random.default_rng(0))
    chain.fixed_nugget = True
    for _ in range(20):
        chain.sweep()
    assert {row[1] for row in chain.trace} == {0.3}


@pytest.mark.parametrize("seen", [1, 3, 39, 40, 41, 1000, 6000])
@pytest.mark.parametrize("burn_in", [0.0, 0.5, 0.9])
def test_draws_are_spread_evenly_over_what_follows_the_burn_in(seen, burn_in):
    draws = Draws(10, burn_in)
    for step in range(1, seen + 1):
        draws.add(State(float(step), 1.0, 1.0, [], []))
    steps = [state.nugget for state in draws.chosen()]
    assert steps == sorted(set(steps))
    assert len(steps) <= 10
    assert len(steps) >= min(10, round((1 - burn_in) * seen))
    assert steps[0] > burn_in * seen - draws.spacing
    assert steps[-1] > seen - draws.spacing
    gaps = np.diff(steps)
    assert len(gaps) == 0 or gaps.max() <= 2 * max(gaps.min(), draws.spacing)


def test_default_priors_have_one_law_per_hidden_layer():
    assert [len(Priors.of_depth(layers).hidden) for layers in (1, 2, 3)] == [0, 1, 2]
