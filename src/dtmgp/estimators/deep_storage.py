"""A fitted `DTMGPRegressor` as a model file and back: architecture as JSON, every number as a tensor."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dtmgp.errors import InputError
from dtmgp.estimators.cube import Cube
from dtmgp.estimators.deep_fit import Fitted, Level, sparse_size
from dtmgp.estimators.describe import describe_grid, describe_kernel, grid_from, kernel_from
from dtmgp.estimators.describe_model import (
    describe_likelihood,
    describe_objective,
    describe_warp,
    likelihood_from,
    objective_from,
    warp_from,
)
from dtmgp.estimators.lattice import Lattice
from dtmgp.files import read_model, write_model
from dtmgp.grids import AbstractGrid
from dtmgp.inference.gauss_newton import Found
from dtmgp.inference.trainer import Epoch, Training
from dtmgp.kernels import Additive, Matern32
from dtmgp.layers import InducedFeatures
from dtmgp.model.architecture import deep_model

if TYPE_CHECKING:
    from dtmgp.estimators.dtmgp import DTMGPRegressor

KIND = "DTMGPRegressor"
PLAIN = (
    "latent_inputs",
    "learn_kernel",
    "max_epochs",
    "batch_size",
    "learning_rate",
    "validation_fraction",
    "prediction_samples",
    "device",
    "dtype",
    "verbose",
)


def save_deep(est: DTMGPRegressor, path: str | os.PathLike[str]) -> None:
    """Parameters and architecture as JSON; cube, weights, and the record of the training as tensors."""
    lattice, start = est.lattice_, est.start_
    config: dict[str, Any] = {
        "parameters": {name: _number(getattr(est, name)) for name in PLAIN},
        "given": {
            "hidden_widths": None if est.hidden_widths is None else [int(w) for w in est.hidden_widths],
            "levels": None if est.levels is None else [_level(level) for level in est.levels],
            "kernel": None if est.kernel is None else describe_kernel(est.kernel),
            "objective": None if est.objective is None else describe_objective(est.objective),
            "likelihood": None if est.likelihood is None else describe_likelihood(est.likelihood),
            "warp": None if est.warp is None else describe_warp(est.warp),
            "bounds": None if est.bounds is None else np.asarray(est.bounds, dtype=np.float64).tolist(),
            "random_state": est.random_state if isinstance(est.random_state, int) else None,
        },
        "names": list(est.cube_.names),
        "named": hasattr(est, "feature_names_in_"),
        "strict": est.cube_.strict,
        "flat_output": est._flat_output,
        "lattice": None if lattice is None else {"nonnegative": lattice.low == 0.0},
        "warp": est.warp_,
        "widths": list(est.hidden_widths_),
        "levels": [_level(level) for level in est.levels_],
        "likelihood": describe_likelihood(est.model_.likelihood),
        "seed": est._seed,
        "reason": est.reason_,
        "start": None if start is None else _describe_start(start),
    }
    arrays = {"low": est.cube_.low, "high": est.cube_.high}
    arrays["trace"] = np.array([list(line) for line in est.trace_], dtype=np.float64).reshape(-1, 7)
    for name, value in est.model_.state_dict().items():
        arrays[f"model.{name}"] = value.numpy()
    for key, module in (("likelihood", est.likelihood), ("warp", est.warp)):
        for name, value in {} if module is None else module.state_dict().items():
            arrays[f"given.{key}.{name}"] = value.detach().cpu().numpy()
    config["start"] = None if start is None else {k: _finite(v) for k, v in config["start"].items()}
    write_model(path, KIND, config, arrays)


def load_deep(kind: type[DTMGPRegressor], path: str | os.PathLike[str]) -> DTMGPRegressor:
    """The regressor of a model file, ready to predict."""
    config, arrays = read_model(path, KIND)
    try:
        return _from(kind, config, arrays, path)
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _foreign(path) from error


def _from(
    kind: type[DTMGPRegressor],
    config: dict[str, Any],
    arrays: dict[str, np.ndarray],
    path: str | os.PathLike[str],
) -> DTMGPRegressor:
    given = config["given"]
    est = kind(
        hidden_widths=None if given["hidden_widths"] is None else tuple(given["hidden_widths"]),
        levels=None if given["levels"] is None else tuple(_level_from(level) for level in given["levels"]),
        kernel=None if given["kernel"] is None else kernel_from(given["kernel"]),
        objective=None if given["objective"] is None else objective_from(given["objective"]),
        likelihood=None if given["likelihood"] is None else likelihood_from(given["likelihood"]),
        warp=None if given["warp"] is None else warp_from(given["warp"]),
        bounds=given["bounds"],
        random_state=given["random_state"],
        **{name: config["parameters"][name] for name in PLAIN},
    )
    for key, module in (("likelihood", est.likelihood), ("warp", est.warp)):
        if module is not None:
            _load_state(module, arrays, f"given.{key}.", path)
    names = tuple(config["names"])
    est.cube_ = Cube(arrays["low"], arrays["high"], names, config["strict"])
    est.n_features_in_ = len(names)
    if config["named"]:
        est.feature_names_in_ = np.array(names, dtype=object)
    est._flat_output = config["flat_output"]
    lattice = config["lattice"]
    est.lattice_ = None if lattice is None else Lattice(0.0 if lattice["nonnegative"] else -math.inf)
    est.warp_ = config["warp"]
    likelihood = likelihood_from(config["likelihood"])
    levels = tuple(_carrier_from(level, k, arrays) for k, level in enumerate(config["levels"]))
    kernel = Matern32() if est.kernel is None else est.kernel
    dims = [len(names) + est.latent_inputs, *config["widths"]]
    for number, (dim, level) in enumerate(zip(dims, levels, strict=True)):  # before anything large is built
        stored = _features_of(arrays, number, [*config["widths"], likelihood.width][number])
        if (
            isinstance(level, int)
            and not isinstance(kernel, Additive)
            and sparse_size(kernel, dim, level) != stored
        ):
            raise _foreign(path)
    model = deep_model(
        len(names),
        likelihood,
        hidden_widths=tuple(config["widths"]),
        levels=levels,
        kernels=est.kernel,
        latent_inputs=est.latent_inputs,
        learn_kernel=est.learn_kernel,
    ).double()
    _load_state(model, arrays, "model.", path)
    trace = [Epoch(int(line[0]), *[float(v) for v in line[1:]]) for line in arrays["trace"]]
    start = None
    if config["start"] is not None:
        values = {key: _number_from(value) for key, value in config["start"].items() if key != "noise"}
        start = Found(noise=torch.tensor(config["start"]["noise"], dtype=torch.float64), **values)
    state = Training(
        model, torch.optim.Adam(model.parameters()), torch.Generator(), trace=trace, reason=config["reason"]
    )
    fitted = Fitted(model, [state], start, tuple(config["widths"]), levels)
    est._set_fitted(fitted, config["seed"])
    return est


def _load_state(
    module: torch.nn.Module, arrays: dict[str, np.ndarray], prefix: str, path: str | os.PathLike[str]
) -> None:
    """All tensors of a module, and no others."""
    own = module.state_dict()
    stored = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    if {n: v.numel() for n, v in own.items()} != {n: a.size for n, a in stored.items()}:
        raise _foreign(path)
    module.load_state_dict({n: torch.from_numpy(stored[n]).view(own[n].shape) for n in own})


def _features_of(arrays: dict[str, np.ndarray], number: int, width: int) -> int:
    """Features of a layer by the size of its weights: a table of means, or one of natural parameters."""
    place = f"model.layers.{number}.weights."
    if f"{place}excess" in arrays:
        return arrays[f"{place}excess"].size // (2 * width)
    return arrays[f"{place}mean"].shape[0]


def _describe_start(start: Found) -> dict[str, Any]:
    """Its numbers; the leverages serve the training only."""
    plain = {f.name: getattr(start, f.name) for f in dataclasses.fields(start) if f.name != "leverage"}
    return {**plain, "noise": start.noise.tolist()}


def _foreign(path: str | os.PathLike[str]) -> InputError:
    return InputError(
        f"model file {path}",
        got="tensors of other names or sizes than its description",
        expected="a complete file written by save()",
        cause="a file that was put together by another program",
    )


def _level(level: Level) -> Any:
    if isinstance(level, InducedFeatures):
        return {"type": "InducedFeatures", "order": level.order}
    return describe_grid(level) if isinstance(level, AbstractGrid) else int(level)


def _level_from(level: Any) -> int | AbstractGrid:
    return grid_from(level) if isinstance(level, dict) else int(level)


def _carrier_from(level: Any, number: int, arrays: dict[str, np.ndarray]) -> Level:
    """What a layer is built on; points and basis have the sizes of the stored ones."""
    if not (isinstance(level, dict) and level["type"] == "InducedFeatures"):
        return _level_from(level)
    points, basis = (arrays[f"model.layers.{number}.features.{name}"] for name in ("points", "basis"))
    return InducedFeatures.blank(len(points), basis.shape[1], points.shape[1], int(level["order"]))


def _number(value: Any) -> Any:
    """Python numbers of NumPy's."""
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: Any) -> Any:
    """JSON has no words for NaN and infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number_from(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value
