"""Oracles: all paths enumerated on the same durations, a run-by-run loop, exact laws of series and parallels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.simulators import ActivityNetwork, activity_network
from dtmgp.simulators.activity_network import DEFAULT_ARCS
from dtmgp.simulators.base import check_count
from dtmgp.simulators.exact_laws import parallel_cdf, series_cdf
from dtmgp.simulators.network import check_arcs, longest_path
from dtmgp.testing import check_simulator

SERIES = [("a", "b"), ("b", "c"), ("c", "d")]
TWO_PATHS = [(1, 2), (1, 3), (2, 3)]
BRIDGE = [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
# A KS test at this level fails for a right simulator with this probability; the seeds are fixed.
FALSE_ALARM = 1e-3


def all_paths(arcs, source, sink):
    """Lists of arc positions, by depth-first search."""
    if source == sink:
        return [[]]
    return [
        [position, *rest]
        for position, (tail, head) in enumerate(arcs)
        if tail == source
        for rest in all_paths(arcs, head, sink)
    ]


def naive_sample(network, X, n_replicates, seed):
    """The definition, one run at a time, from the same stream of exponentials."""
    generator = np.random.default_rng(seed)
    paths = all_paths(network.arcs, network.source, network.sink)
    costs = np.empty((len(X), n_replicates))
    for row, means in enumerate(X):
        for replicate in range(n_replicates):
            total = 0.0
            for _ in range(network.runs):
                durations = means * generator.standard_exponential(len(means))
                total += max(durations[path].sum() for path in paths)
            costs[row, replicate] = total / network.runs + (1 / means).sum()
    return costs


def inputs(network, n, seed=0):
    lower, upper = network.bounds.T
    return np.random.default_rng(seed).uniform(lower, upper, (n, len(lower)))


@pytest.mark.parametrize("arcs", [DEFAULT_ARCS, BRIDGE, TWO_PATHS, SERIES, list(reversed(DEFAULT_ARCS))])
def test_longest_path_is_the_maximum_over_all_paths(arcs):
    network = ActivityNetwork(arcs)
    durations = np.random.default_rng(0).exponential(size=(len(arcs), 500))
    paths = all_paths(network.arcs, network.source, network.sink)
    brute = np.max([durations[path].sum(axis=0) for path in paths], axis=0)
    found = longest_path(durations.copy(), network.arcs, network.source, network.sink)
    np.testing.assert_allclose(found, brute, rtol=1e-14)


def test_default_network_is_the_one_of_the_study():
    network = ActivityNetwork()
    assert len(network.arcs) == 13
    assert (network.source, network.sink) == (1, 9)
    assert len(all_paths(network.arcs, 1, 9)) == 6
    np.testing.assert_array_equal(network.bounds, np.tile([0.5, 5.0], (13, 1)))
    assert network.input_names[:2] == ("mean 1-2", "mean 1-3")


@pytest.mark.parametrize("runs", [1, 4])
def test_sample_equals_the_naive_loop(runs):
    network = ActivityNetwork(runs=runs)
    X = inputs(network, 5)
    np.testing.assert_allclose(network.sample(X, 3, 7), naive_sample(network, X, 3, 7), rtol=1e-13)


@pytest.mark.parametrize("runs", [1, 10, 1000])
@pytest.mark.parametrize("block", [1, 7, 64, 999, 1001])
def test_bytes_do_not_depend_on_the_block_size(runs, block, monkeypatch):
    network = ActivityNetwork(BRIDGE, runs=runs)
    X = inputs(network, 4)
    expected = network.sample(X, 3, 0)
    monkeypatch.setattr(activity_network, "_BLOCK_RUNS", block)
    assert network.sample(X, 3, 0).tobytes() == expected.tobytes()


def test_memory_is_bounded_by_the_block():
    import tracemalloc

    network = ActivityNetwork(runs=1000)
    X = inputs(network, 100)
    tracemalloc.start()
    network.sample(X, 4, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All durations at once would take 100*4*1000*13*8 = 42 MB; two blocks take 0.9 MB.
    assert peak < 2e6


@pytest.mark.parametrize("means", [[0.5, 5.0, 2.0], [2.0, 2.0, 2.0]])
def test_series_has_the_hypoexponential_law(means):
    network = ActivityNetwork(SERIES, inverse_mean_cost=False)
    draws = network.sample([means], 4000, 11)[0]
    assert stats.kstest(draws, lambda t: series_cdf(t, means)).pvalue > FALSE_ALARM


def test_separate_paths_have_the_law_of_a_maximum():
    # 1-3 beside 1-2-3: the arcs are disjoint, so the two paths are independent.
    means = [1.0, 3.0, 2.0]
    network = ActivityNetwork(TWO_PATHS, inverse_mean_cost=False)
    draws = network.sample([means], 4000, 12)[0]
    assert stats.kstest(draws, lambda t: parallel_cdf(t, [[1.0, 2.0], [3.0]])).pvalue > FALSE_ALARM


def test_single_arc_is_exponential_plus_its_cost():
    draws = ActivityNetwork([(1, 2)]).sample([[2.0]], 4000, 13)[0] - 0.5
    assert stats.kstest(draws, stats.expon(scale=2.0).cdf).pvalue > FALSE_ALARM


def test_averaged_runs_keep_the_mean_and_lose_variance():
    X = inputs(ActivityNetwork(), 1)
    single = ActivityNetwork().sample(X, 40_000, 0)
    averaged = ActivityNetwork(runs=100).sample(X, 400, 1)
    # Five standard errors of the difference of two means, 5 * sqrt(2) * std / sqrt(40000).
    assert abs(single.mean() - averaged.mean()) < 5 * np.sqrt(2) * single.std() / 200
    # The standard deviation of 400 averages is known to 1/sqrt(800) = 3.5 %; five of them.
    assert averaged.std() == pytest.approx(single.std() / 10, rel=0.18)


@pytest.mark.parametrize(
    "network",
    [
        ActivityNetwork(),
        ActivityNetwork(runs=3),
        ActivityNetwork(SERIES, inverse_mean_cost=False),
        ActivityNetwork(BRIDGE, bounds=[(1, 2), (1, 3), (1, 4), (1, 5), (1, 6)]),
    ],
    ids=repr,
)
def test_interface(network):
    check_simulator(network)


@pytest.mark.parametrize(
    ("arcs", "options", "words"),
    [
        ([], {}, ["no arcs"]),
        ([(1, 2), (2, 3), (1, 2)], {}, ["arc 2", "1-2 again", "arc 0"]),
        ([(1, 2), (2, 3), (3, 2), (3, 4)], {}, ["cycle", "2 -> 3", "turn or drop"]),
        ([(1, 2), (2, 1)], {"source": 1, "sink": 2}, ["cycle"]),
        ([(1, 3), (2, 3)], {}, ["source", "2 candidates: 1, 2"]),
        ([(1, 2), (1, 3)], {}, ["sink", "2 candidates: 2, 3"]),
        ([(1, 2), (2, 3)], {"sink": 9}, ["sink", "9", "a node of some arc"]),
        ([(1, 2), (2, 3)], {"source": 3, "sink": 1}, ["sink", "cannot be reached"]),
        ([(1, 2), (3, 4)], {"source": 1, "sink": 4}, ["cannot be reached"]),
        ([(1, 2), (2, 3), (2, 4)], {"sink": 3}, ["2-4", "on no path"]),
        ([(1, 2)], {"bounds": (0.0, 1.0)}, ["mean durations", "positive"]),
        ([(1, 2)], {"bounds": (2.0, 1.0)}, ["bounds of input 0", "lower < upper"]),
        ([(1, 2)], {"bounds": [(1, 2), (1, 2)]}, ["(1, 2)"]),
        ([(1, 2)], {"runs": 0}, ["runs", "at least 1"]),
    ],
)
def test_refusals_name_the_culprit(arcs, options, words):
    with pytest.raises(InputError) as caught:
        ActivityNetwork(arcs, **options)
    for word in words:
        assert word in str(caught.value)


def test_wrong_types_are_refused():
    with pytest.raises(InputError, match=r"arc 1: got .*pair"):
        check_arcs([(1, 2), (1, 2, 3)])
    with pytest.raises(InputError, match=r"runs: got 2\.5"):
        check_count("runs", 2.5)


def test_input_outside_the_bounds_names_row_column_and_arc():
    X = np.full((3, 13), 1.0)
    X[2, 4] = 0.1
    with pytest.raises(InputError, match=r"row 2, column 4 \(mean 2-6\): got 0.1"):
        ActivityNetwork().sample(X)


@pytest.mark.slow
def test_ten_million_runs_take_seconds():
    import time

    network = ActivityNetwork(runs=1000)
    start = time.perf_counter()
    network.sample(inputs(network, 10_000), 1, 0)
    # 1e7 runs take about 1.1 s on one core; ten times that is the alarm.
    assert time.perf_counter() - start < 12
