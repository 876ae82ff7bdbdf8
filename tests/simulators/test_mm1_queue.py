"""Oracles: the exponential law by SciPy, the Lindley recursion as a loop, the stationary limit of long runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dtmgp.errors import InputError
from dtmgp.metrics import ks_against_cdf
from dtmgp.simulators import KnownLaw, MM1Queue, mm1_queue
from dtmgp.simulators.mm1_queue import sojourn_times
from dtmgp.testing import check_simulator

X = np.array([[0.6, 2.0], [0.95, 1.0], [0.7, 1.1]])
# A right simulator fails a random test with this probability, all rows together; the seeds are fixed.
FALSE_ALARM = 1e-3


def lindley_loop(gaps, services):
    sojourns, previous = [], 0.0
    for gap, service in zip(gaps, services):
        previous = max(previous - gap, 0.0) + service
        sojourns.append(previous)
    return sojourns


def test_law_is_exponential():
    queue, rate = MM1Queue(), X[:, 1] - X[:, 0]
    y, levels = np.linspace(-1.0, 60.0, 50), np.array([0.0, 0.5, 0.999])
    laws = [stats.expon(scale=1 / r) for r in rate]
    tiled = np.tile(y, (3, 1))
    np.testing.assert_allclose(queue.cdf(X, tiled), [law.cdf(y) for law in laws], rtol=1e-13)
    np.testing.assert_allclose(queue.pdf(X, tiled), [law.pdf(y) for law in laws], rtol=1e-13)
    np.testing.assert_allclose(queue.quantile(X, levels), [law.ppf(levels) for law in laws], rtol=1e-13)
    np.testing.assert_allclose(queue.quantile(X, 0.5), np.log(2) / rate, rtol=1e-13)
    assert integrate.quad(lambda t: float(queue.pdf(X[:1], t)[0]), 0, 30)[0] == pytest.approx(1.0)


def test_stationary_draws_have_the_exact_law():
    queue = MM1Queue()
    distances = ks_against_cdf(queue.sample(X, 5000, 1), lambda y: queue.cdf(X, y))
    assert stats.kstwo(5000).sf(distances.max()) > FALSE_ALARM / 3


def test_sojourn_times_equal_the_loop():
    gaps, services = np.random.default_rng(0).exponential(size=(2, 20, 300))
    expected = [lindley_loop(g, s) for g, s in zip(gaps, services)]
    np.testing.assert_allclose(sojourn_times(gaps, services), expected, atol=1e-11)


@pytest.mark.parametrize("average", [False, True])
def test_sample_of_a_run_equals_the_loop(average):
    queue = MM1Queue(customers=7, average=average)
    found = queue.sample(X, 4, 2)
    draws = np.random.default_rng(2).standard_exponential((3, 4, 7, 2)) / X[:, None, None, :]
    runs = np.array([[lindley_loop(run[:, 0], run[:, 1]) for run in row] for row in draws])
    np.testing.assert_allclose(found, runs.mean(axis=2) if average else runs[..., -1], rtol=1e-12)


def test_the_first_customer_does_not_wait():
    x = np.array([[0.7, 1.5]])
    draws = MM1Queue(customers=1).sample(x, 5000, 3)[0]
    assert stats.kstest(draws, stats.expon(scale=1 / 1.5).cdf).pvalue > FALSE_ALARM


def test_the_last_customer_of_a_long_run_has_the_stationary_law():
    # The relaxation time is 1/(sqrt(service) - sqrt(arrival))^2: 2.4 and 13 time units here, so customer 400 comes
    # after more than 30 of them and what is left of the start is below e^-30.
    x = np.array([[0.6, 2.0], [0.6, 1.1]])
    draws = MM1Queue(customers=400).sample(x, 2000, 4)
    distances = ks_against_cdf(draws, lambda y: MM1Queue().cdf(x, y))
    assert stats.kstwo(2000).sf(distances.max()) > FALSE_ALARM / 2
    # The test has power: customer 3 of the busier queue is far from it.
    early = MM1Queue(customers=3).sample(x, 2000, 4)
    assert stats.kstwo(2000).sf(ks_against_cdf(early, lambda y: MM1Queue().cdf(x, y))[1]) < 1e-9


def test_averages_of_long_runs_tend_to_the_stationary_mean():
    x = np.array([[0.6, 2.0]])
    means = MM1Queue(customers=5000, average=True).sample(x, 200, 5)[0]
    # The empty start costs about 1/5000 of a few sojourn times, far less than the tolerance of 4 standard errors;
    # two-sided false-alarm rate 6e-5.
    assert means.mean() == pytest.approx(1 / 1.4, abs=4 * means.std() / np.sqrt(200))


@pytest.mark.parametrize("block", [1, 13, 100])
def test_bytes_do_not_depend_on_the_block_size(block, monkeypatch):
    queue = MM1Queue(customers=10, average=True)
    expected = queue.sample(X, 5, 0)
    monkeypatch.setattr(mm1_queue, "_BLOCK_CUSTOMERS", block)
    assert queue.sample(X, 5, 0).tobytes() == expected.tobytes()


def test_the_default_box_holds_loads_from_030_to_095():
    (slow, fast), (low, high) = MM1Queue().bounds
    assert (slow / high, fast / low) == pytest.approx((0.3, 0.95))


@pytest.mark.parametrize("queue", [MM1Queue(), MM1Queue(20), MM1Queue(20, average=True)], ids=repr)
def test_interface(queue):
    check_simulator(queue)
    assert isinstance(queue, KnownLaw)


def test_refusals():
    with pytest.raises(InputError, match="all of them below all service rates"):
        MM1Queue(bounds=[(0.5, 1.0), (1.0, 2.0)])
    with pytest.raises(InputError, match="positive arrival rates"):
        MM1Queue(bounds=[(0.0, 0.5), (1.0, 2.0)])
    with pytest.raises(InputError, match="average=True: got customers=None"):
        MM1Queue(average=True)
    with pytest.raises(InputError, match="customers: got 0"):
        MM1Queue(0)
    with pytest.raises(InputError, match=r"a run of 9 customers.*use MM1Queue\(\)"):
        MM1Queue(9).cdf(X, 1.0)
    with pytest.raises(InputError, match="times are unbounded"):
        MM1Queue().quantile(X, 1.0)
