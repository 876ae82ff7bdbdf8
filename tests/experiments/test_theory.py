"""Oracles: closed forms of Brownian motion and bridge, all combinations of points, and the expansion itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments import theory
from dtmgp.experiments.figures import theory_figure
from dtmgp.experiments.results import Table, origin, read_csv, write_csv
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Matern32, Matern52, Tensor
from dtmgp.kernels.base import AbstractLineKernel

KERNELS = [Laplace(0.2), Laplace(2.0), Brownian(1.0), BrownianBridge(), Matern32(0.7), Matern52(1.5)]


def table_of(kernel: AbstractLineKernel, level: int) -> theory.LineTable:
    return theory.LineTable(kernel, level, theory.candidates(level, kernel.state_size))


@pytest.mark.parametrize("level", [1, 2, 5, 10])
def test_one_dimension_has_closed_forms(level: int):
    h = 2.0**-level
    bridge, where = theory.largest_residual(table_of(BrownianBridge(), level), 1, level)
    assert bridge == pytest.approx(h / 4, rel=1e-12)  # the middle of any cell
    assert (where[0] / h) % 1 == 0.5
    motion, where = theory.largest_residual(table_of(Brownian(1.0), level), 1, level)
    assert motion == pytest.approx(h, rel=1e-12)  # the free end
    assert where[0] == 1.0
    laplace, where = theory.largest_residual(table_of(Laplace(0.5), level), 1, level)
    assert laplace == pytest.approx(-math.expm1(-2 * h / 0.5), rel=1e-12)  # both ends
    assert where[0] in (0.0, 1.0)


def test_brownian_motion_inside_its_cells():
    x = np.random.default_rng(0).uniform(size=200)
    level, h = 6, 2.0**-6
    inside = x[(x > h) & (x < 1 - h)]
    found = theory.residual_variance(Tensor(Brownian(1.0), dim=1), level, inside[:, None])
    t = inside / h - np.floor(inside / h)
    np.testing.assert_allclose(found, h * t * (1 - t), atol=2e-15)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_convolution_equals_the_features(kernel: AbstractLineKernel, dim: int):
    x = np.random.default_rng(dim).uniform(size=(50, dim))
    x[0], x[1] = 0.0, 1.0
    for level in (1, 2, 3, 6):
        tensor = Tensor(kernel, dim=dim, variance=1.7)
        expected = HierarchicalExpansion(tensor, SparseGrid(dim, level)).residual_variance(x)
        np.testing.assert_allclose(theory.residual_variance(tensor, level, x), expected, atol=2e-14)


def test_convolution_takes_a_kernel_per_coordinate():
    tensor = Tensor([Laplace(0.3), Matern32(1.0), Brownian(2.0)])
    x = np.random.default_rng(3).uniform(size=(40, 3))
    expected = HierarchicalExpansion(tensor, SparseGrid(3, 5)).residual_variance(x)
    np.testing.assert_allclose(theory.residual_variance(tensor, 5, x), expected, atol=2e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize(("dim", "level"), [(2, 1), (2, 2), (2, 4), (2, 6), (3, 2), (3, 3)])
def test_search_finds_the_best_of_all_combinations(kernel: AbstractLineKernel, dim: int, level: int):
    table = table_of(kernel, level)
    grid = np.stack(np.meshgrid(*[np.arange(len(table.x))] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    every = theory.shares([table.rows(grid[:, j]) for j in range(dim)], level)[1]
    value, where = theory.largest_residual(table, dim, level, random_state=0)
    assert value == pytest.approx(every.max(), rel=1e-10)
    again = HierarchicalExpansion(kernel, SparseGrid(dim, level)).residual_variance(where[None])[0]
    assert again == pytest.approx(value, rel=1e-8, abs=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_finer_candidates_hardly_raise_the_maximum(kernel: AbstractLineKernel):
    level = 6
    finer = np.arange(2**11 + 1) / 2**11
    for dim in (1, 2, 3):
        value = theory.largest_residual(table_of(kernel, level), dim, level, 0)[0]
        more = theory.largest_residual(theory.LineTable(kernel, level, finer), dim, level, 0)[0]
        assert value <= more * (1 + 1e-12)
        assert more <= 1.01 * value


def test_study_and_slopes(tmp_path: Path):
    rows = list(theory.study(theory.Extent(markov=9, increments=3)))
    assert {(row["kernel"], row["dim"]) for row in rows} == {
        (k, d) for k in theory.KERNELS for d in (1, 2, 3)
    }
    write_csv(tmp_path / "rows.csv", rows, origin("test", 0))
    by_name = {(row["kernel"], row["dim"]): row for row in theory.slopes(read_csv(tmp_path / "rows.csv"))}
    assert by_name["Brownian bridge", 1]["level_exponent"] == pytest.approx(
        0, abs=1e-4
    )  # six digits in the file
    for dim in (2, 3):  # between a constant and the rate of Theorem 3, on the way to d-1
        assert 0 < by_name["Brownian bridge", dim]["level_exponent"] < 2 * dim - 2
        assert 0 < by_name["Brownian sheet", dim]["level_exponent"] < dim - 1
    assert by_name["Matern-5/2", 1]["feature_slope"] < by_name["Matern-3/2", 1]["feature_slope"] < -2
    with pytest.raises(InputError, match="at least 3"):
        theory.slopes(Table({}, rows[:1]))


def test_csv_round_trip(tmp_path: Path):
    path = tmp_path / "deep" / "table.csv"
    rows = [
        {"name": "a, b", "x": 1.5, "n": 3, "gap": None},
        {"name": "c", "x": math.nan, "n": -1, "gap": 2e-300},
    ]
    stated = origin("dtmgp reproduce: theory", 7)
    write_csv(path, rows, stated)
    table = read_csv(path)
    assert table.origin == stated
    assert table.rows == [{**rows[0]}, {**rows[1], "x": None}]
    assert math.isnan(table.column("x")[1])
    write_csv(path, rows[:1], stated)  # replaces, leaves no parts behind
    assert [p.name for p in path.parent.iterdir()] == ["table.csv"]
    assert len(read_csv(path).rows) == 1
    with pytest.raises(InputError, match="no rows"):
        write_csv(path, [], stated)
    with pytest.raises(InputError, match="run the study first"):
        read_csv(tmp_path / "missing.csv")


def test_failed_write_keeps_the_old_file(tmp_path: Path):
    path = tmp_path / "table.csv"
    write_csv(path, [{"a": 1}], {})
    with pytest.raises(ValueError, match="not in fieldnames"):
        write_csv(path, [{"a": 2}, {"a": 3, "b": 4}], {})
    assert read_csv(path).rows == [{"a": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_figure_needs_the_file_only(tmp_path: Path):
    rows = list(theory.study(theory.Extent(markov=3, increments=1), dimensions=(1, 2)))
    write_csv(tmp_path / "rows.csv", rows, {})
    theory_figure(tmp_path / "rows.csv", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"
