"""Oracle: the regressor before it was saved; for damage, the rule that any changed byte is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from quick import quick, wave

from dtmgp import DTMGPRegressor, TMGPRegressor
from dtmgp.errors import InputError
from dtmgp.estimators.loading import load_model
from dtmgp.files import read_model, write_model
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.inference import ELBO, Energy
from dtmgp.kernels import Additive, Laplace, Markov, Matern52, Tensor
from dtmgp.likelihoods import (
    Bernoulli,
    BoxCox,
    Categorical,
    Chain,
    GaussianLikelihood,
    NegativeBinomial,
    QuantileWarp,
    Standardise,
    StudentT,
    YeoJohnson,
)

KIND = "DTMGPRegressor"
CASES = {
    "default": {},
    "latent inputs": {"latent_inputs": 2, "hidden_widths": (3,), "validation_fraction": 0.0},
    "deep": {"hidden_widths": (2, 3), "levels": (2, 2, SparseGrid(3, 2)), "kernel": Laplace()},
    "one layer": {"hidden_widths": (), "levels": (LowerSet.anisotropic([1.0, 2.0], 3.0),)},
    "kernels": {"kernel": Tensor([Laplace(), Matern52()], variance=2.0), "learn_kernel": False},
    "additive": {"kernel": Additive([((0,), Laplace()), ((0, 1), Laplace())])},
    "energy": {"objective": Energy(3), "bounds": [[0, 1], [100, 200]]},
    "warp": {"warp": Chain(BoxCox(0.2, 0.0), YeoJohnson(0.9)), "objective": ELBO(2, kl_weight=0.5)},
    "own warp": {"likelihood": GaussianLikelihood(warp=Standardise([1.0], [2.0]))},
    "quantile warp": {"warp": QuantileWarp([-1.0, 1.0, 5.0], [-1.0, 0.0, 3.0])},
    "student": {"likelihood": StudentT(), "dtype": "float64"},
}


def outputs_of(est, x, y):
    return [
        *est.predict(x, return_std=True),
        est.predict_quantiles(x, [0.1, 0.9]),
        est.log_prob(x, y),
        est.sample_y(x, 3, 0),
        est.sample_functions(x, 3, 0),
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_predicts_the_same_bits(name, tmp_path):
    x, y = wave(30)
    est = quick(**CASES[name]).fit(x, y)
    est.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is DTMGPRegressor
    for one, two in zip(outputs_of(est, x, y), outputs_of(again, x, y), strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(np.array(again.trace_), np.array(est.trace_), equal_nan=True)
    assert again.summary() == est.summary()
    assert again.reason_ == est.reason_
    again.save(tmp_path / "again")
    old, new = (read_model(tmp_path / file, KIND) for file in ("m", "again"))
    assert old[0] == new[0]
    assert all(np.array_equal(old[1][k], new[1][k], equal_nan=True) for k in old[1].keys() | new[1].keys())
    again.fit(x, y)  # parameters came along
    assert np.array_equal(again.predict(x), est.predict(x))


@pytest.mark.parametrize("likelihood", [Bernoulli(), NegativeBinomial(), Categorical(3), None], ids=repr)
def test_other_laws_names_and_lattices(likelihood, tmp_path):
    x, _ = wave(40)
    y = np.floor(x[:, 0] * (2 if isinstance(likelihood, Bernoulli) else 3))
    frame = pd.DataFrame(x, columns=["load", "speed"])
    est = quick(likelihood=likelihood).fit(frame, y)
    est.save(tmp_path / "m")
    again = DTMGPRegressor.load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["load", "speed"]
    assert (again.lattice_ is None) == (likelihood is not None)
    for one, two in zip(outputs_of(est, frame, y), outputs_of(again, frame, y), strict=True):
        assert np.array_equal(one, two)


def test_several_outputs(tmp_path):
    x, y = wave(40)
    est = quick().fit(x, np.column_stack([y, -y]))
    est.save(tmp_path / "m")
    assert np.array_equal(DTMGPRegressor.load(tmp_path / "m").predict(x), est.predict(x))


def refuse_mutations(path, trials, seed):
    """Truncations, flipped bits anywhere and in the header, swapped and repeated parts; all must be refused."""
    content, rng = path.read_bytes(), np.random.default_rng(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    damaged, refused = path.with_name("damaged"), 0
    for trial in range(trials):
        bad = bytearray(content)
        place = int(rng.integers(0, len(content)))
        match trial % 5:
            case 0:
                bad = bad[:place]
            case 1:
                bad[place] ^= 1 << int(rng.integers(0, 8))
            case 2:
                bad[int(rng.integers(0, header))] ^= 1 << int(rng.integers(0, 8))
            case 3:
                bad += bad[place:]
            case 4:
                end = min(place + int(rng.integers(1, 64)), len(bad))
                bad[place:end] = rng.integers(0, 256, end - place, dtype=np.uint8).tobytes()
        if bytes(bad) == content:
            bad = bad[:-1]
        damaged.write_bytes(bytes(bad))
        with pytest.raises(InputError, match="model file"):
            DTMGPRegressor.load(damaged)
        refused += 1
    return refused


def test_damaged_files_are_refused(tmp_path):
    x, y = wave(40)
    quick().fit(x, y).save(tmp_path / "m")
    assert refuse_mutations(tmp_path / "m", 100, 0) == 100


@pytest.mark.slow
def test_damaged_files_are_refused_1000_of_1000(tmp_path):
    x, y = wave(40)
    quick().fit(x, y).save(tmp_path / "m")
    assert refuse_mutations(tmp_path / "m", 1000, 1) == 1000


def test_foreign_kinds_are_refused_with_the_class_that_reads_them(tmp_path):
    x, y = wave(40)
    TMGPRegressor(max_evaluations=2).fit(x, y).save(tmp_path / "m")
    with pytest.raises(InputError, match="got a TMGPRegressor; expected a DTMGPRegressor"):
        DTMGPRegressor.load(tmp_path / "m")
    for content in (b"", b"hello", b"\x80\x04\x95 pickle"):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(InputError, match="model file"):
            DTMGPRegressor.load(tmp_path / "m")


def altered(path, change):
    """A file with a valid checksum whose description or tensors have been changed by hand."""
    config, arrays = read_model(path, KIND)
    change(config, arrays)
    write_model(path, KIND, config, arrays)


def drop(name):
    return lambda config, arrays: arrays.pop(name)


def shorter(name):
    return lambda config, arrays: arrays.update({name: arrays[name][:-1]})


def say(*keys, value):
    def change(config, arrays):
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        drop("model.layers.0.bias"),
        drop("model.layers.1.weights.mean"),
        shorter("model.layers.1.weights.mean"),
        shorter("model.layers.0.weights.log_std"),
        lambda config, arrays: arrays.update({"model.extra": np.zeros(3)}),
        say("widths", value=[3]),
        say("widths", value=[2, 2]),
        say("levels", value=[2, 40]),  # would be a grid of 10^12 points
        say("levels", value=[2, 3]),
        say("likelihood", "type", value="GaussianLikelihood"),
        say("likelihood", "type", value="os.system"),
        say("likelihood", "options", "components", value=5),
        say("likelihood", "warp", value={"type": "Identity"}),
        say("given", "kernel", value={"type": "Markov"}),
        drop("low"),
        say("names", value=["x0"]),
        say("parameters", value={}),
        lambda config, arrays: config.pop("seed"),
    ],
)
def test_descriptions_that_do_not_match_the_tensors_are_refused(change, tmp_path):
    x, y = wave(40)
    quick().fit(x, y).save(tmp_path / "m")
    altered(tmp_path / "m", change)
    with pytest.raises(InputError, match="model file"):
        DTMGPRegressor.load(tmp_path / "m")


class _OwnLikelihood(GaussianLikelihood):
    """Somebody's own code."""


class _OwnWarp(BoxCox):
    """Somebody's own code."""


class _OwnObjective(ELBO):
    """Somebody's own code."""


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": Markov(p=np.exp, q=lambda z: np.exp(-z))},
        {"likelihood": _OwnLikelihood()},
        {"warp": _OwnWarp(0.0)},
        {"objective": _OwnObjective()},
    ],
    ids=["kernel", "likelihood", "warp", "objective"],
)
def test_own_code_is_not_saved_and_nothing_is_lost(options, tmp_path):
    x, y = wave(40)
    path = tmp_path / "m"
    quick().fit(x, y).save(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"save: got .*numbers only"):
        quick(**options).fit(x, y).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_nothing_in_a_file_is_code(tmp_path):
    """The header is JSON and every tensor is numbers: no pickle opcodes have a place to be."""
    x, y = wave(40)
    quick().fit(x, y).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} <= {
        "F64",
        "F32",
        "I64",
    }
    json.loads(header["__metadata__"]["config"])
