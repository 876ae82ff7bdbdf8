"""Oracle: the model before it was saved; for damage, the rule that any changed byte is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save as save_tensors

from dtmgp import TMGPRegressor
from dtmgp.errors import InputError
from dtmgp.grids import LowerSet, SparseGrid, paired_points
from dtmgp.kernels import Additive, Brownian, Laplace, Markov, Matern32, Tensor
from dtmgp.kriging import Effort


def data(rows=60):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(rows, 2))
    return x, np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=rows)


CASES = {
    "default": {},
    "tensor": {
        "kernel": Tensor([Laplace(), Matern32()], variance=2.0),
        "level": [3, 4],
        "bounds": [[0, 1], [0, 1]],
    },
    "additive": {"kernel": Additive([((0,), Laplace()), ((0, 1), Brownian())]), "level": 4},
    "lower set": {"level": LowerSet.anisotropic([1.0, 2.0], 4.0), "noise": 0.01},
    "nested": {"kernel": Laplace(), "level": SparseGrid(2, 6, sequence=paired_points())},
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_predicts_the_same_bits(name, tmp_path):
    x, y = data()
    model = TMGPRegressor(**CASES[name], max_evaluations=4).fit(x, y)
    model.save(tmp_path / "model.dtmgp")
    again = TMGPRegressor.load(tmp_path / "model.dtmgp")
    for before, after in zip(
        model.predict(x, return_std=True), again.predict(x, return_std=True), strict=True
    ):
        assert np.array_equal(before, after)
    assert np.array_equal(model.sample_functions(x, 3, 0), again.sample_functions(x, 3, 0))
    assert again.log_evidence_ == model.log_evidence_
    assert again.path_ == model.path_
    assert np.array_equal(again.lengthscales_, model.lengthscales_)
    again.fit(x, y)  # parameters came along
    assert np.array_equal(again.predict(x), model.predict(x))


def test_several_outputs_names_and_the_iterative_posterior(tmp_path):
    x, y = data(6000)
    frame = pd.DataFrame(x, columns=["load", "speed"])
    model = TMGPRegressor(Laplace(), 10, max_evaluations=2, effort=Effort(draws=3, probes=2)).fit(
        frame, np.column_stack([y, -y])
    )
    model.save(tmp_path / "m")
    again = TMGPRegressor.load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["load", "speed"]
    assert np.array_equal(again.predict(frame, return_std=True)[1], model.predict(frame, return_std=True)[1])
    assert "conjugate" in repr(again.models_[0].posterior)


def test_damaged_files_are_refused(tmp_path):
    x, y = data()
    path = tmp_path / "model.dtmgp"
    TMGPRegressor(level=3, max_evaluations=2).fit(x, y).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged"
    for trial in range(400):
        if trial % 4 == 0:
            bad = content[: rng.integers(0, len(content))]
        else:
            changed = bytearray(content)
            place = rng.integers(0, len(content) if trial % 2 else min(3000, len(content)))
            changed[place] ^= 1 << rng.integers(0, 8)
            bad = bytes(changed)
        damaged.write_bytes(bad)
        with pytest.raises(InputError, match="model file"):
            TMGPRegressor.load(damaged)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other"
    for content in (
        b"",
        b"hello",
        b"\x80\x04\x95 pickle",
        save_tensors({"a": np.zeros(3)}),
        save_tensors({"a": np.zeros(3)}, metadata={"format": "dtmgp-model", "schema": "1", "kind": "DTMGP"}),
        save_tensors(
            {"a": np.zeros(3)}, metadata={"format": "dtmgp-model", "schema": "99", "kind": "TMGPRegressor"}
        ),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match="model file"):
            TMGPRegressor.load(path)
    entry = b'"a":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}'
    twice = b"{" + entry + b"," + entry + b"}"
    path.write_bytes(len(twice).to_bytes(8, "little") + twice)
    with pytest.raises(InputError, match="repeated key"):
        TMGPRegressor.load(path)
    huge = json.dumps({"a": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}).encode()
    path.write_bytes(len(huge).to_bytes(8, "little") + huge)
    with pytest.raises(InputError, match="tensor 'a'"):
        TMGPRegressor.load(path)
    with pytest.raises(InputError, match="No such file"):
        TMGPRegressor.load(tmp_path / "nowhere")


def test_nothing_is_lost_when_saving_fails(tmp_path):
    x, y = data()
    path = tmp_path / "model.dtmgp"
    TMGPRegressor(level=2, max_evaluations=1).fit(x, y).save(path)
    before = path.read_bytes()
    mine = TMGPRegressor(Markov(p=np.exp, q=lambda z: np.exp(-z)), level=2, max_evaluations=1).fit(x, y)
    with pytest.raises(InputError, match="made of Python code"):
        mine.save(path)
    with pytest.raises(InputError, match="model file"):
        TMGPRegressor(level=2, max_evaluations=1).fit(x, y).save(tmp_path / "no" / "folder")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.dtmgp"]
