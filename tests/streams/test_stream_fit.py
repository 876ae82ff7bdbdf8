"""Oracles: the fit to the same rows in memory, the known law of the data, and the same fit again."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from tables import arrays, table, write

from dtmgp import DTMGPRegressor
from dtmgp.errors import InputError
from dtmgp.estimators.deep_checks import resolve
from dtmgp.estimators.deep_stages import Stage
from dtmgp.estimators.deep_stream import stream_settings
from dtmgp.inference import Energy
from dtmgp.likelihoods import Poisson, StudentT
from dtmgp.streams import ArrayRows, BatchRows, ParquetRows, Streaming

ONE_LAYER = {"hidden_widths": (), "levels": (2,), "prediction_samples": 16, "max_epochs": 2}


def small(**options):
    """One layer of a few features: what is tested is the way of the rows."""
    return DTMGPRegressor(**{**ONE_LAYER, "likelihood": StudentT(), **options})


def streamed(x, y, start=200, **options):
    """Rows of which only ``start`` are seen at once."""
    return ArrayRows(x, y, streaming=Streaming(start=start, buffer=500, **options))


def wave(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform([0.0, 100.0], [1.0, 200.0], size=(rows, 2))
    return x, np.sin(4 * x[:, 0]) + x[:, 1] / 100 - 2.0 + 0.1 * rng.gumbel(size=rows)


def test_a_streamed_fit_is_close_to_one_in_memory():
    """Held-out rows, sample and order differ; laws differ by less than 2,000 rows can tell apart."""
    x, y = wave(2000)
    fresh, seen = wave(1000, seed=1)
    options = {
        "hidden_widths": (2,),
        "levels": (2, 2),
        "prediction_samples": 32,
        "max_epochs": 10,
        "batch_size": 200,
    }
    stream = DTMGPRegressor(**options).fit(streamed(x, y, start=1200))
    memory = DTMGPRegressor(**options).fit(x, y)
    scores = [model.log_prob(fresh, seen).mean() for model in (stream, memory)]
    assert abs(scores[0] - scores[1]) < 0.02  # 0.004 to 0.008 measured for three seeds
    apart = stream.predict(fresh) - memory.predict(fresh)
    assert (
        np.sqrt((apart**2).mean()) < 0.2 * 0.128
    )  # of the noise's standard deviation; 0.07 to 0.14 measured
    ends = [model.predict_quantiles(fresh, [0.1, 0.9]) for model in (stream, memory)]
    assert np.sqrt(((ends[0] - ends[1]) ** 2).mean()) < 0.3 * 0.128  # 0.08 to 0.14 measured


def test_as_few_rows_as_a_start_takes_are_fitted_in_memory_to_the_same_bits(tmp_path):
    columns = table(300, replicates=2)
    x, y = arrays(columns)
    stream = small().fit(ParquetRows(write(tmp_path / "runs", columns), "y"))
    memory = small().fit(pd.DataFrame(x, columns=["x0", "x1", "x2"]), y)
    frame = pd.DataFrame(x, columns=["x0", "x1", "x2"])
    np.testing.assert_array_equal(stream.predict(frame), memory.predict(frame))
    np.testing.assert_array_equal(stream.feature_names_in_, memory.feature_names_in_)
    assert stream.stream_.rows == 300
    assert not hasattr(stream.fit(frame, y), "stream_")


def test_the_same_seed_gives_the_same_bits_wherever_the_rows_lie(tmp_path):
    """One file, memory and batches hold the same row numbers; the seed decides about all the rest."""
    columns = table(1200)
    x, y = arrays(columns)
    options = {"streaming": Streaming(start=200, buffer=300)}
    folder = write(tmp_path / "runs", columns, files=1, rows=10_000)
    sources = [
        ParquetRows(folder, "y", **options),
        ParquetRows(folder, "y", **options),
        BatchRows([(x[:500], y[:500]), (x[500:], y[500:])], **options),
        ArrayRows(x, y, **options),
    ]
    found = [small().fit(rows).model_.state_dict() for rows in sources]
    for other in found[1:]:
        assert all((found[0][name] == other[name]).all() for name in other)
    other = small(random_state=1).fit(sources[0]).model_.state_dict()
    assert any((found[0][name] != other[name]).any() for name in other)


def test_the_result_is_a_fitted_estimator(tmp_path):
    columns = table(900)
    rows = ParquetRows(write(tmp_path / "runs", columns), "y", streaming=Streaming(start=200))
    model = small().fit(rows)
    frame = pd.DataFrame(columns)[["x0", "x1", "x2"]]
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    assert model.stream_.rows == 900
    assert len(model.stream_.start.y) == 200
    model.save(tmp_path / "m.dtmgp")
    again = DTMGPRegressor.load(tmp_path / "m.dtmgp")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert model.score(frame, columns["y"]) > 0.5
    assert "epochs" in model.summary()
    low, high = frame.to_numpy().min(axis=0), frame.to_numpy().max(axis=0)
    np.testing.assert_array_equal([model.cube_.low, model.cube_.high], [low, high])


def test_several_outputs_and_likelihoods(tmp_path):
    x, y = wave(800)
    both = np.stack([y, x[:, 1] / 50 - y], axis=1)
    model = small(likelihood=StudentT(2)).fit(streamed(x, both))
    assert model.predict(x[:5]).shape == (5, 2)
    assert np.corrcoef(model.predict(x)[:, 1], both[:, 1])[0, 1] > 0.8
    crps = small(likelihood=None, objective=Energy(samples=4)).fit(streamed(x, y))
    assert np.corrcoef(crps.predict(x), y)[0, 1] > 0.8


def test_whole_numbers_are_counts_as_in_memory():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(1500, 1))
    y = rng.poisson(2 + 4 * x[:, 0]).astype(float)
    stream = small(likelihood=None, max_epochs=5).fit(streamed(x, y, start=300))
    assert stream.lattice_ is not None
    assert stream.lattice_.low == 0.0
    draws = stream.sample_y([[0.5]], 4000, random_state=0)
    assert (draws == np.floor(draws)).all()
    assert abs(draws.mean() - 4.0) < 0.3
    assert abs(draws.std() - 2.0) < 0.3
    shifted = small(likelihood=None, max_epochs=1).fit(streamed(x, np.append(y[:-1], -1.0), start=100))
    assert shifted.lattice_.low == -np.inf  # by the one row, whether it is in the sample or not


def test_the_output_scale_allows_all_rows_not_those_of_the_sample_alone():
    x, y = wave(2000)
    y = np.exp(y)
    assert small(max_epochs=1).fit(streamed(x, y)).warp_ == "log"
    y[1234] = -0.5
    model = small(max_epochs=1).fit(streamed(x, y))
    assert 1234 not in model.stream_.start.key
    assert model.warp_ == "identity"
    assert np.isfinite(model.trace_[-1].loss)


def test_replicates_that_are_adjacent_are_used_and_scattered_ones_are_told(caplog):
    x, y = wave(300)
    x, y = x.repeat(5, axis=0), y.repeat(5) + 0.1 * np.random.default_rng(2).normal(size=1500)
    with caplog.at_level(logging.INFO, "dtmgp"):
        model = small(max_epochs=1).fit(streamed(x, y))
    assert model.stream_.inputs == 300
    assert "Sort the rows" not in caplog.text
    order = np.random.default_rng(3).permutation(1500)
    with caplog.at_level(logging.WARNING, "dtmgp"):
        mixed = small(max_epochs=1).fit(streamed(x[order], y[order]))
    assert mixed.stream_.inputs > 1400
    assert "About 300 inputs are distinct" in caplog.text


def test_checkpoints_of_a_stream_go_on_to_the_same_bits(tmp_path):
    x, y = wave(600)
    rows = streamed(x, y)
    whole = small(max_epochs=5).fit(rows)

    def killed(state):
        if state.epoch == 3:
            raise RuntimeError("killed")

    path = tmp_path / "state"
    with pytest.raises(RuntimeError, match="killed"):
        small(max_epochs=5, checkpoint=path, callbacks=[killed]).fit(rows)
    assert path.exists()
    with pytest.raises(InputError, match="another run"):
        small(max_epochs=5, checkpoint=path).fit(streamed(x, y + 1e-9))
    resumed = small(max_epochs=5, checkpoint=path).fit(rows)
    assert len(resumed.trace_) == 5
    np.testing.assert_array_equal(resumed.predict(x), whole.predict(x))


def with_value(column, row, value):
    columns = table(500)
    columns[column] = columns[column].copy()
    columns[column][row] = value
    return columns


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (with_value("x0", slice(None), 2.0), {}, "input column 'x0': got the constant 2 in all 500 rows"),
        (with_value("x2", 400, np.nan), {}, "'x2': got NaN in row 3 of row group 1 of part-2.parquet"),
        (
            with_value("x1", 300, 11.0),
            {"bounds": [[0, 1], [0, 10], [0, 100]]},
            r"input 'x1': got 11 in row 6 of row group 2 of part-1.parquet; .*bounds \[0, 10\]",
        ),
        (
            {**table(500), "y": np.append(np.ones(499), 1.5)},
            {"likelihood": Poisson()},
            r"outputs 1.5: got them in row 38 of row group 2 of part-2.parquet; .*Poisson",
        ),
        ({**table(500), "y": 1e9 + np.linspace(0, 1, 500)}, {}, "y: got a range of 1 around values of 1e"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_their_place(tmp_path, columns, options, message):
    rows = ParquetRows(write(tmp_path / "runs", columns), "y", streaming=Streaming(start=100))
    with pytest.raises(InputError, match=message):
        small(**options).fit(rows)


def test_outputs_beside_a_row_source_are_refused():
    x, y = wave(100)
    with pytest.raises(InputError, match="a row source, which has the outputs in it"):
        small().fit(streamed(x, y), y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        small().fit(x)


@pytest.mark.parametrize(
    ("inputs", "runs", "batch"),
    [
        (400, 40_000, 64),
        (16_000, 16_000, 1000),
        (10**7, 10**7, 5000),
        (10**8, 10**8, 8000),
        (10**5, 10**8, 64),
    ],
)
def test_batches_are_bounded_in_inputs_and_runs(inputs, runs, batch):
    plan = resolve(DTMGPRegressor(), StudentT(), 0)
    settings = stream_settings(plan, Stage(1600, 0.02), inputs, runs)
    assert settings.batch_size == batch
    assert settings.epochs == max(1, round(1600 / -(-inputs // batch)))
