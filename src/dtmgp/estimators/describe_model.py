"""Likelihoods, warps and objectives as plain JSON and back: what a model file says beside its numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dtmgp import likelihoods
from dtmgp.errors import InputError
from dtmgp.inference import ELBO, AbstractObjective, Energy, Predictive
from dtmgp.likelihoods import AbstractLikelihood, AbstractWarp, Chain, QuantileWarp

OBJECTIVES = {kind.__name__: kind for kind in (ELBO, Predictive, Energy)}
# likelihood -> the arguments, beside the number of outputs, that decide its shape or its law
LIKELIHOODS: dict[str, tuple[str, ...]] = {
    "GaussianLikelihood": (),
    "HeteroscedasticGaussian": ("floor",),
    "StudentT": (),
    "MixtureOfNormals": ("components", "floor"),
    "Poisson": (),
    "NegativeBinomial": (),
    "Bernoulli": (),
    "Categorical": (),
}
# warp -> the parameter or buffer that has one number per output, and a value that its constructor accepts
WARPS: dict[str, tuple[tuple[str, float], ...]] = {
    "IdentityWarp": (),
    "Logit": (),
    "Standardise": (("centre", 0.0), ("scale", 1.0)),
    "BoxCox": (("power", 1.0), ("shift", 0.0)),
    "YeoJohnson": (("power", 1.0),),
}


def describe_likelihood(likelihood: AbstractLikelihood) -> dict[str, Any]:
    """Class, outputs and warp; its numbers are tensors of the file."""
    name = type(likelihood).__name__
    if name not in LIKELIHOODS or getattr(likelihoods, name) is not type(likelihood):
        raise _own_code(f"a {name} likelihood", LIKELIHOODS)
    options = {option: getattr(likelihood, option) for option in LIKELIHOODS[name]}
    return {
        "type": name,
        "outputs": likelihood.width if name == "Categorical" else likelihood.outputs,
        "options": options,
        "warp": describe_warp(likelihood.warp),
    }


def likelihood_from(description: dict[str, Any]) -> AbstractLikelihood:
    """A likelihood of the same shape, its numbers still to be loaded."""
    name = description["type"]
    if name not in LIKELIHOODS or set(description["options"]) != set(LIKELIHOODS[name]):
        raise InputError(
            "model file", got=f"a likelihood {name!r}", expected=f"one of {', '.join(LIKELIHOODS)}"
        )
    found: AbstractLikelihood = getattr(likelihoods, name)(description["outputs"], **description["options"])
    found.warp = warp_from(description["warp"])
    return found


def describe_warp(warp: AbstractWarp) -> dict[str, Any]:
    """Class and sizes of a warp."""
    name = type(warp).__name__
    if isinstance(warp, Chain):
        return {"type": name, "parts": [describe_warp(part) for part in warp.parts]}
    if isinstance(warp, QuantileWarp):
        return {"type": name, "shape": list(warp.knots.shape)}
    if name not in WARPS or getattr(likelihoods, name) is not type(warp):
        raise _own_code(f"a {name} warp", WARPS)
    return {"type": name, "shapes": [list(getattr(warp, part).shape) for part, _ in WARPS[name]]}


def warp_from(description: dict[str, Any]) -> AbstractWarp:
    """A warp of the same shape."""
    name = description["type"]
    if name == "Chain":
        return Chain(*[warp_from(part) for part in description["parts"]])
    if name == "QuantileWarp":
        rows, knots = description["shape"]
        values = np.tile(np.arange(float(knots)), (rows, 1))
        return QuantileWarp(values, values)
    if name not in WARPS:
        raise InputError("model file", got=f"a warp {name!r}", expected=f"one of {', '.join(WARPS)}")
    pairs = zip(description["shapes"], WARPS[name], strict=True)
    arguments = [np.full(shape, value) for shape, (_, value) in pairs]
    found: AbstractWarp = getattr(likelihoods, name)(*arguments)
    return found


def describe_objective(objective: AbstractObjective) -> dict[str, Any]:
    """Class and numbers of an objective."""
    name = type(objective).__name__
    if OBJECTIVES.get(name) is not type(objective):
        raise _own_code(f"a {name} objective", OBJECTIVES)
    return {"type": name, **dataclasses.asdict(objective)}


def objective_from(description: dict[str, Any]) -> AbstractObjective:
    """The objective of a description."""
    values = dict(description)
    name = values.pop("type")
    if name not in OBJECTIVES:
        raise InputError(
            "model file", got=f"an objective {name!r}", expected=f"one of {', '.join(OBJECTIVES)}"
        )
    return OBJECTIVES[name](**values)


def _own_code(what: str, known: Any) -> InputError:
    return InputError(
        "save",
        got=what,
        expected=f"one of {', '.join(known)}",
        cause="model files hold numbers only, so that reading one never runs code",
        do="save predictions instead, or keep the script that fits the model",
    )
