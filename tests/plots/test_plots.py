"""Oracle: the data inside the drawn artists, compared with the arrays that the analyses return."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from dtmgp import TMGPRegressor, plots  # noqa: E402
from dtmgp.analysis import interactions, main_effects, sobol_indices, validate  # noqa: E402
from dtmgp.errors import InputError  # noqa: E402

Epoch = namedtuple("Epoch", "number loss validation")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = ["arrival_rate [1/h]", "size_kg", "x2"]
    X = pd.DataFrame(np.repeat(rng.uniform(size=(160, 3)), 5, axis=0), columns=names)
    y = 2 * X.iloc[:, 0].to_numpy() + X.iloc[:, 1].to_numpy() ** 2 + 0.2 * rng.normal(size=800)
    model = TMGPRegressor(bounds=[[0, 1]] * 3).fit(X[:500], y[:500])
    return model, X[500:], y[500:]


@pytest.fixture(scope="module")
def found(fitted):
    return validate(*fitted, draws=32, random_state=0)


def test_parity_shows_every_run(found):
    axes = plots.parity(found, name="wait_ms", most=1000)
    drawn = np.concatenate([line.get_xydata() for line in axes.lines[:-1]])
    expected = np.column_stack([found.mean, found.y])
    np.testing.assert_array_equal(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    assert axes.get_xlabel() == "predicted wait [ms]: mean, 90% interval"
    share = np.mean((found.y >= found.low) & (found.y <= found.high))
    assert axes.get_legend().get_texts()[0].get_text() == f"inside ({share:.0%})"
    assert "of 300 runs" in plots.parity(found, most=50).get_title()


def test_pit_histogram_is_a_density(found):
    axes = plots.pit_histogram(found, bins=10)
    values, edges, _ = axes.patches[-1].get_data()
    assert values @ np.diff(edges) == pytest.approx(1.0)
    with pytest.raises(InputError, match="bins"):
        plots.pit_histogram(found, bins=1)


def test_qq_is_increasing_and_keeps_the_tails(found):
    line = plots.qq(found).lines[1]
    assert np.all(np.diff(line.get_ydata()) >= 0)
    assert len(line.get_xdata()) == len(found.pit)


def test_calibration_curve_is_the_coverage(found):
    line = plots.calibration_curve(found).lines[1]
    np.testing.assert_array_equal(line.get_ydata(), found.coverage(line.get_xdata()))


def test_bands_are_quantiles(fitted):
    model, X, y = fitted
    axes = plots.predictive_bands(model, "size_kg", at={"x2": 0.25}, points=11, data=(X, y), name="y [s]")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("size [kg]", "y [s]")
    assert "x2 = 0.25" in axes.get_title()
    median, mean = axes.lines[:2]
    rows = X.iloc[:11].copy()
    rows.iloc[:] = np.column_stack([np.full(11, 0.5), median.get_xdata(), np.full(11, 0.25)])
    np.testing.assert_allclose(mean.get_ydata(), model.predict(rows))
    np.testing.assert_allclose(median.get_ydata(), model.predict_quantiles(rows, 0.5))
    widest = axes.collections[0].get_paths()[0].get_extents().ymax
    assert widest == pytest.approx(model.predict_quantiles(rows, 0.95).max())


def test_region_pictures_are_means(found):
    mesh = plots.region_map(found, "x2", 0, bins=2).collections[0]
    low = found.x[:, [2, 0]] < (found.x[:, [2, 0]].min(axis=0) + found.x[:, [2, 0]].max(axis=0)) / 2
    expected = found.crps[low.all(axis=1)].mean()
    assert float(np.asarray(mesh.get_array()).reshape(2, 2)[0, 0]) == pytest.approx(expected)
    assert len(plots.region_map(found, distance=True).collections) >= 1
    panels = plots.region_bars(found, bins=4)
    assert [panel.get_xlabel() for panel in panels] == ["arrival rate [1/h]", "size [kg]", "x2"]
    first = found.x[:, 0] < panels[0].patches[1].get_x()
    assert panels[0].patches[0].get_height() == pytest.approx(found.crps[first].mean())
    with pytest.raises(InputError, match="twice"):
        plots.region_map(found, 0, 0)
    with pytest.raises(InputError, match="'nothing'"):
        plots.region_map(found, "nothing", 0)


def test_loss_trace_marks_the_best_epoch():
    trace = [Epoch(k, 10.0 / k, abs(k - 6) + 1.0 if k % 2 == 0 else np.nan) for k in range(1, 11)]
    axes = plots.loss_trace(trace)
    assert axes.lines[0].get_ydata()[-1] == 1.0
    assert axes.lines[1].get_xdata().tolist() == [2, 4, 6, 8, 10]
    assert axes.lines[2].get_xdata()[0] == 6
    with pytest.raises(InputError, match="no epochs"):
        plots.loss_trace([])


def test_effects_and_indices(fitted):
    model = fitted[0]
    effects = main_effects(model, points=5, samples=32, draws=8, random_state=0)
    panels = plots.main_effects(effects, name="y")
    np.testing.assert_array_equal(panels[1].lines[0].get_ydata(), effects.effect[1])
    assert panels[0].get_ylabel() == "mean of y"
    indices = sobol_indices(model, samples=64, random_state=0)
    axes = plots.sobol_bars(indices)
    widths = sorted(bar.get_width() for bar in axes.patches)
    np.testing.assert_allclose(widths, np.sort(np.concatenate([indices.first, indices.total])))
    pairs = interactions(model, pairs=[(0, 1)], points=3, samples=16, draws=0, random_state=0)
    assert plots.interaction_map(pairs).get_ylabel() == "size [kg]"
    with pytest.raises(InputError, match="pair"):
        plots.interaction_map(pairs, 1)


def test_gallery_and_given_axes(fitted):
    model, X, y = fitted
    panels = plots.sample_gallery(model, X[:15:5], draws=50, runs=y[:15].reshape(3, 5), random_state=0)
    assert len(panels) == 3
    figure, axes = plt.subplots(1, 2)
    with pytest.raises(InputError, match="at least 3"):
        plots.sample_gallery(model, X[:3], draws=5, axes=axes)
    assert plots.sample_gallery(model, X[:2], draws=5, axes=axes)[1] is axes[1]
    with pytest.raises(InputError, match="panels"):
        plots.sample_gallery(model, X[:65])
    assert plots.parity(validate(model, X, y, draws=4, random_state=0), figure.gca()) is figure.gca()
