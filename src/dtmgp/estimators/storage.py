"""A fitted `TMGPRegressor` as a model file and back."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.estimators.cube import Cube
from dtmgp.estimators.describe import describe_grid, describe_kernel, grid_from, kernel_from
from dtmgp.files import read_model, write_model
from dtmgp.grids import AbstractGrid
from dtmgp.kriging import Adaptive, DensePosterior, Design, Hyperparameters, IterativePosterior, KrigingModel

if TYPE_CHECKING:
    from dtmgp.estimators.tmgp import TMGPRegressor

KIND = "TMGPRegressor"
ADAPTIVE = "Adaptive"


def save_regressor(model: TMGPRegressor, path: str | os.PathLike[str]) -> None:
    """Parameters as JSON; cube, hyperparameters and posteriors as tensors."""
    design = model.models_[0].posterior.design
    level = model.level
    config: dict[str, Any] = {
        "parameters": {
            "kernel": None if model.kernel is None else describe_kernel(model.kernel),
            "level": _plain(level),
            "linear_mean": model.linear_mean,
            "learn_kernel": model.learn_kernel,
            "noise": model.noise,
            "bounds": None if model.bounds is None else np.asarray(model.bounds).tolist(),
            "max_evaluations": model.max_evaluations,
            "random_state": model.random_state if isinstance(model.random_state, int) else None,
            "verbose": model.verbose,
        },
        "names": list(model.cube_.names),
        "named": hasattr(model, "feature_names_in_"),
        "strict": model.cube_.strict,
        "flat_output": model._flat_output,
        "mean_std": design.mean_std,
        "log_evidence": model.log_evidence_,
        "level": describe_grid(model.level_) if isinstance(model.level_, AbstractGrid) else model.level_,
        "outputs": [],
    }
    arrays = {
        "low": model.cube_.low,
        "high": model.cube_.high,
        "offset": model.offset_,
        "scale": model.scale_,
    }
    for number, fitted in enumerate(model.models_):
        posterior = fitted.posterior
        dense = isinstance(posterior, DensePosterior)
        config["outputs"].append(
            {
                "kernel": describe_kernel(posterior.design.kernel),
                "grid": describe_grid(posterior.design.grid),  # type: ignore[arg-type]
                "log_evidence": fitted.log_evidence,
                "log_evidence_error": fitted.log_evidence_error,
                "evaluations": fitted.evaluations,
                "path": fitted.path,
                "dense": dense,
                "iterations": 0 if dense else posterior.iterations,  # type: ignore[union-attr]
            }
        )
        arrays[f"{number}.hyperparameters"] = fitted.hyperparameters.pack()
        arrays[f"{number}.mean"] = posterior.mean
        arrays[f"{number}.spread"] = (
            posterior.lower if isinstance(posterior, DensePosterior) else posterior.draws
        )
    write_model(path, KIND, config, arrays)


def load_regressor(kind: type[TMGPRegressor], path: str | os.PathLike[str]) -> TMGPRegressor:
    """The regressor of a model file, ready to predict."""
    config, arrays = read_model(path, KIND)
    parameters = dict(config["parameters"])
    if parameters["kernel"] is not None:
        parameters["kernel"] = kernel_from(parameters["kernel"])
    if isinstance(parameters["level"], dict):
        parameters["level"] = _level_from(parameters["level"])
    model = kind(**parameters)
    names = tuple(config["names"])
    model.cube_ = Cube(arrays["low"], arrays["high"], names, config["strict"])
    model.n_features_in_ = len(names)
    if config["named"]:
        model.feature_names_in_ = np.array(names, dtype=object)
    model._flat_output = config["flat_output"]
    model.offset_, model.scale_ = arrays["offset"], arrays["scale"]
    model.level_ = grid_from(config["level"]) if isinstance(config["level"], dict) else config["level"]
    fitted = []
    for number, output in enumerate(config["outputs"]):
        design = Design(kernel_from(output["kernel"]), grid_from(output["grid"]), config["mean_std"])  # type: ignore[arg-type]
        mean, spread = arrays[f"{number}.mean"], arrays[f"{number}.spread"]
        posterior = (
            DensePosterior(design, mean, spread)
            if output["dense"]
            else IterativePosterior(design, mean, spread, output["iterations"])
        )
        hyperparameters = Hyperparameters.unpack(arrays[f"{number}.hyperparameters"], len(names))
        fitted.append(
            KrigingModel(
                hyperparameters,
                output["log_evidence"],
                output["log_evidence_error"],
                posterior,
                output["evaluations"],
                output["path"],
            )
        )
    model._set_fitted(fitted)
    model.log_evidence_ = config["log_evidence"]
    return model


def _plain(level: object) -> object:
    if isinstance(level, AbstractGrid):
        return describe_grid(level)
    if isinstance(level, Adaptive):
        return {"type": ADAPTIVE, **dataclasses.asdict(level)}
    return level if level is None or isinstance(level, int) else [int(k) for k in level]  # type: ignore[attr-defined]


def _level_from(description: dict[str, Any]) -> AbstractGrid | Adaptive:
    if description["type"] != ADAPTIVE:
        return grid_from(description)
    return Adaptive(**{name: value for name, value in description.items() if name != "type"})
