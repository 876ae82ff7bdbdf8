"""Oracles: Theorem 3 for one layer, weights drawn one by one for several, a much finer expansion for the limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments import deep_theory
from dtmgp.experiments.deep_theory import CASES, Case, Cut, Layer, candidates, distance, identity, rate
from dtmgp.experiments.figures import deep_figure
from dtmgp.experiments.results import Table, read_csv, write_csv
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Brownian, Laplace, Tensor

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("dim", [1, 2])
def test_one_layer_is_the_residual_variance(dim: int):
    kernel = Tensor(Laplace(0.7), dim=dim, variance=1.5)
    x = np.random.default_rng(0).random(dim)
    for level in (1, 3, 5):
        cut = Cut(kernel, level)
        found = distance([Layer(kernel, 3, identity)], [cut], x, np.zeros((4, 0)))
        expected = HierarchicalExpansion(kernel, SparseGrid(dim, level)).residual_variance(x[None])[0]
        assert found**2 == pytest.approx(3 * expected, rel=1e-9)


def test_moments_agree_with_weights_drawn_one_by_one():
    kernel, fine, coarse, draws = Tensor(Laplace(1.0), dim=2), 6, 3, 50_000
    rng = np.random.default_rng(1)
    u, v = rng.random((1, 2)), rng.random((1, 2))
    whole = HierarchicalExpansion(kernel, SparseGrid(2, fine))
    cut = Cut(kernel, coarse, fine)
    size = cut.size
    assert size is not None
    weights = rng.standard_normal((draws, whole.size))
    process = weights @ whole.features(u).toarray()[0]
    # level by level: the features of the coarse grid are not the first columns of the fine one's blocks
    places = [
        int(np.flatnonzero((whole.grid.points == point).all(axis=1))[0])
        for point in SparseGrid(2, coarse).points
    ]
    expansion = (
        weights[:, places] @ HierarchicalExpansion(kernel, SparseGrid(2, coarse)).features(v).toarray()[0]
    )
    moments = cut.pairs(u, v)
    # 5 standard errors of a mean of squares of Gaussians: false alarm 6e-7 per line
    for found, sample in zip(
        moments, (process**2, expansion**2, process * expansion, (process - expansion) ** 2)
    ):
        assert abs(found[0] - sample.mean()) < 5 * sample.std() / np.sqrt(draws)


def test_the_limit_is_that_of_finer_and_finer_expansions():
    kernel = Tensor(Laplace(1.0), dim=1)
    u, v = np.random.default_rng(2).random((2, 50, 1))
    limit = Cut(kernel, 4).pairs(u, v)
    gaps = [np.abs(Cut(kernel, 4, fine).pairs(u, v).square - limit.square).max() for fine in (6, 10, 14)]
    # the residual variance of Laplace inside the cube is at most 2^-l
    assert all(gap < 2.0**-fine for gap, fine in zip(gaps, (6, 10, 14)))
    np.testing.assert_allclose(limit.square, limit.process + limit.expansion - 2 * limit.cross, atol=1e-14)


def test_two_layers_agree_with_functions_drawn_whole():
    kernel = Tensor(Laplace(1.0), dim=1)
    rng = np.random.default_rng(3)
    layers = [Layer(kernel, 1, identity), Layer(kernel, 1)]
    coarse, fine, functions = 2, 9, 4000
    x = np.array([[1.0 / 3.0]])
    whole = HierarchicalExpansion(kernel, SparseGrid(1, fine))
    few = HierarchicalExpansion(kernel, SparseGrid(1, coarse)).size
    first, second = rng.standard_normal((2, functions, whole.size))
    at = whole.features(x).toarray()[0]
    u = layers[1].mapping((first @ at)[:, None])
    v = layers[1].mapping((first[:, :few] @ at[:few])[:, None])
    f = whole.features(u).multiply(second).sum(axis=1)
    t = whole.features(v)[:, :few].multiply(second[:, :few]).sum(axis=1)
    squares = np.square(f - t)
    cuts = [Cut(kernel, coarse, fine)] * 2
    normals = np.random.default_rng(4).standard_normal((100_000, 2))
    found = distance(layers, cuts, x[0], normals) ** 2
    # 5 standard errors; those of the 100,000 pairs are 20 times smaller
    assert abs(found - np.mean(squares)) < 5 * np.std(squares) / np.sqrt(functions)


def test_the_rate_of_the_theorem_by_hand():
    two = BY_NAME["1-1-1"]
    assert rate(two, [16, 64]) == pytest.approx((1 / 16) ** 0.25 + (1 / 64) ** 0.5)
    assert rate(BY_NAME["1-1-1, first layer"], [16, None]) == pytest.approx(0.5)
    wide = Case("", tuple(Layer(Tensor(Laplace(), dim=2), w) for w in (2, 3)), (True, True))
    expected = (2 * 4.0**2 / 16) ** 0.25 * 3**0.5 + (3 * 5.0**2 / 32) ** 0.5
    assert rate(wide, [16, 32]) == pytest.approx(expected)


def test_slopes_are_those_of_the_theorem_and_without_a_map_there_is_a_floor(tmp_path: Path):
    rows = list(deep_theory.study(10, samples=1 << 10))
    write_csv(tmp_path / "rows.csv", rows, {})
    found = {row["case"]: row for row in deep_theory.slopes(read_csv(tmp_path / "rows.csv"))}
    # measured -0.496, -0.243, -0.505; the theorem's are limits
    assert found["1-1"]["slope"] == pytest.approx(-1 / 2, abs=0.02)
    assert found["1-1-1, first layer"]["slope"] == pytest.approx(-1 / 4, abs=0.02)
    assert found["1-1-1, last layer"]["slope"] == pytest.approx(-1 / 2, abs=0.02)
    # three layers: a limit of -1/8, reached from above as the later layers' errors die out
    assert -1 / 8 - 0.01 < float(found["1-1-1-1"]["slope"]) < -0.09  # type: ignore[arg-type]
    assert found["1-1-1, no map"]["slope"] > -0.05  # type: ignore[operator]
    last = {row["case"]: row["distance"] for row in rows}
    assert float(last["1-1-1, no map"]) > 4 * float(last["1-1-1"])  # type: ignore[arg-type]
    deep_figure(tmp_path / "rows.csv", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_brownian_sheet_and_refusals():
    kernel = Tensor(Brownian(1.0), dim=1)
    u = np.array([[0.25], [0.5]])
    exact = Cut(kernel, None).pairs(u, u[::-1])
    np.testing.assert_allclose(exact.square, 0.25)  # the variance of an increment
    with pytest.raises(InputError, match="at most 3"):
        Cut(kernel, 4, 3)
    assert len(candidates(1)) == 3
    assert isinstance(Table({}, []), Table)
