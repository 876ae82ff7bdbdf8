"""Parameters of the deep regressor: refused before any work starts, and turned into a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dtmgp.errors import InputError
from dtmgp.estimators.deep_fit import Plan
from dtmgp.estimators.inputs import check_number
from dtmgp.grids import AbstractGrid
from dtmgp.inference import AbstractObjective, Predictive
from dtmgp.inference.distributed import Processes, join, own_device
from dtmgp.inference.trainer import ALONE
from dtmgp.kernels import AbstractLineKernel, Additive, Tensor
from dtmgp.likelihoods import AbstractLikelihood, AbstractWarp

if TYPE_CHECKING:
    from dtmgp.estimators.dtmgp import DTMGPRegressor

DTYPES = {"float32": torch.float32, "float64": torch.float64}
LARGEST_OUTPUT = 1e30
NARROWEST = 1e-5  # range of outputs in units of their size: float32 holds seven digits


def check_parameters(est: DTMGPRegressor) -> None:
    """One clear message for the first parameter that cannot be used."""
    kinds: list[tuple[str, Any, str, str]] = [
        ("kernel", AbstractLineKernel | Tensor | Additive, "a kernel of dtmgp.kernels", "kernel=Matern32()"),
        (
            "objective",
            AbstractObjective,
            "an objective of dtmgp.inference",
            "objective=Predictive(samples=8)",
        ),
        ("likelihood", AbstractLikelihood, "a likelihood of dtmgp.likelihoods", "likelihood=StudentT()"),
        ("warp", AbstractWarp, "a warp of dtmgp.likelihoods", "warp=BoxCox(0.0, 0.0)"),
    ]
    for name, kind, expected, example in kinds:
        value = getattr(est, name)
        if value is not None and not isinstance(value, kind):
            cause = "a class instead of an object" if isinstance(value, type) else ""
            raise InputError(name, got=repr(value), expected=expected, cause=cause, do=f"try {example}")
    widths = est.hidden_widths
    if widths is not None:
        if not isinstance(widths, list | tuple | np.ndarray):
            raise InputError(
                "hidden_widths",
                got=repr(widths),
                expected="a sequence of integers, one per hidden layer",
                do="hidden_widths=(16,)",
            )
        for width in widths:
            check_number("hidden_widths", width, 1, whole=True)
    if est.levels is not None:
        _check_levels(est.levels, None if widths is None else len(widths))
    check_number("latent_inputs", est.latent_inputs, 0, whole=True)
    check_number("prediction_samples", est.prediction_samples, 1, whole=True)
    for name in ("max_epochs", "batch_size"):
        if getattr(est, name) is not None:
            check_number(name, getattr(est, name), 1, whole=True)
    if est.learning_rate is not None:
        check_number("learning_rate", est.learning_rate, 0.0, strict=True)
    if est.validation_fraction is not None:
        check_number("validation_fraction", est.validation_fraction, 0.0)
    if est.validation_fraction is not None and est.validation_fraction >= 0.9:
        raise InputError(
            "validation_fraction", got=repr(est.validation_fraction), expected="a number below 0.9"
        )
    if est.dtype not in DTYPES:
        raise InputError("dtype", got=repr(est.dtype), expected=" or ".join(map(repr, DTYPES)))
    _device(est.device)
    if est.distributed not in ("auto", "off"):
        raise InputError("distributed", got=repr(est.distributed), expected="'auto' or 'off'")


def check_outputs(y: np.ndarray) -> None:
    """Refuse outputs (n, W) that the numbers of the training cannot hold."""
    for k, column in enumerate(y.T):
        name = "y" if y.shape[1] == 1 else f"output {k}"
        check_output_range(name, float(column.min()), float(column.max()))


def check_output_range(name: str, low: float, high: float) -> None:
    """Refuse an output whose size or range the numbers of the training cannot hold."""
    size, width = max(abs(low), abs(high)), (high / 2 - low / 2) * 2
    if size > LARGEST_OUTPUT or 0 < width < 1 / LARGEST_OUTPUT:
        raise InputError(
            name,
            got=f"values up to {size:.2g} in a range of {width:.2g}",
            expected=f"sizes and ranges between {1 / LARGEST_OUTPUT:g} and {LARGEST_OUTPUT:g}",
            do="choose another unit",
        )
    if 0 < width < NARROWEST * size:
        raise InputError(
            name,
            got=f"a range of {width:.2g} around values of {size:.2g}",
            expected=f"a range of at least {NARROWEST:g} of the values",
            cause="a large constant in all outputs, which leaves few digits for what varies",
            do="subtract it",
        )


def _check_levels(levels: Any, hidden: int | None) -> None:
    fine = isinstance(levels, list | tuple | np.ndarray) and all(
        isinstance(level, AbstractGrid)
        or (isinstance(level, int | np.integer) and not isinstance(level, bool) and level >= 1)
        for level in levels
    )
    if not fine or not len(levels):
        raise InputError(
            "levels",
            got=repr(levels),
            expected="a sequence of levels or grids, one per layer",
            do="levels=(2, 3)",
        )
    wanted = 2 if hidden is None else hidden + 1
    if len(levels) != wanted:
        raise InputError(
            "levels",
            got=f"{len(levels)} of them",
            expected=f"{wanted}: one per hidden layer and one for the last",
            do="" if hidden is not None else "give hidden_widths as well for another depth",
        )


def _device(name: Any) -> torch.device:
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError("device", got=repr(name), expected='"cpu", "cuda" or "cuda:0"') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device", got=repr(name), expected="a device of this machine", cause="no GPU that torch can use"
        )
    return device


def processes_of(est: DTMGPRegressor) -> Processes:
    """The processes that fit together: those of torchrun, unless told otherwise."""
    return Processes() if est.distributed == "off" else join(own_device(_device(est.device)))


def resolve(
    est: DTMGPRegressor, likelihood: AbstractLikelihood, seed: int, processes: Processes = ALONE
) -> Plan:
    """The plan of a fit."""
    return Plan(
        likelihood=likelihood,
        objective=Predictive() if est.objective is None else est.objective,
        hidden_widths=None if est.hidden_widths is None else tuple(int(w) for w in est.hidden_widths),
        levels=None if est.levels is None else tuple(est.levels),
        kernel=est.kernel,
        latent_inputs=int(est.latent_inputs),
        learn_kernel=bool(est.learn_kernel),
        max_epochs=est.max_epochs,
        batch_size=est.batch_size,
        learning_rate=est.learning_rate,
        dtype=DTYPES[est.dtype],
        device=_device(est.device) if processes.world == 1 else own_device(_device(est.device)),
        seed=seed,
        processes=processes,
    )
