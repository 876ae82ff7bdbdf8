"""The scale on which outputs are modelled: a monotone warp, chosen by the likelihood of a quadratic fit.

Candidates: none; Box-Cox powers 0 (logarithm) to 3/4 for positive outputs, of y + 1 for spread counts; the logit for
outputs inside (0, 1). Each is scored by the profile log likelihood of a quadratic regression with normal errors, the
Jacobian included (Box and Cox 1964); a warp must win by a margin. Where the residuals of the winner are far from normal
(several modes), a mixture of normals takes the place of the normal for all candidates. Else the winner must also have
more evidence under exact kriging than no warp has, where the inputs are few enough for it: a scale that makes a
quadratic fit better may make the function rougher.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from sklearn.mixture import GaussianMixture

from dtmgp.errors import InputError
from dtmgp.estimators.exact_layer import MOST_INPUTS
from dtmgp.inference import Energy
from dtmgp.kriging import collapse
from dtmgp.kriging.exact import fit_exact
from dtmgp.likelihoods import (
    AbstractLikelihood,
    AbstractWarp,
    BoxCox,
    Chain,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    IdentityWarp,
    Logit,
    MixtureOfNormals,
    Standardise,
    StudentT,
)

if TYPE_CHECKING:
    from dtmgp.estimators.dtmgp import DTMGPRegressor

POWERS = (0.0, 0.25, 0.5, 0.75)
MOST_ROWS = 20_000
SHAPE_ROWS = 4_000
MARGIN = 1.0  # log likelihood that a warp must gain
SHAPE_MARGIN = 0.1  # nats a row that a mixture of normals gains where a normal says nothing
COMPONENTS = 4
CONTINUOUS = (GaussianLikelihood, HeteroscedasticGaussian, StudentT, MixtureOfNormals)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A candidate: values on the new scale, log-derivative, and the warp as a module."""

    name: str
    forward: Callable[[np.ndarray], np.ndarray]
    log_derivative: Callable[[np.ndarray], np.ndarray]
    module: Callable[[], AbstractWarp]


def _identity() -> Scale:
    return Scale("identity", lambda y: y, np.zeros_like, IdentityWarp)


def _box_cox(power: float, shift: float = 0.0) -> Scale:
    name = "log" if power == 0 else f"Box-Cox {power:g}"
    return Scale(
        name if shift == 0 else f"{name} of y + {-shift:g}",
        lambda y: np.log(y - shift) if power == 0 else ((y - shift) ** power - 1.0) / power,
        lambda y: (power - 1.0) * np.log(y - shift),
        lambda: BoxCox([power], [shift]),
    )


def _logit() -> Scale:
    return Scale("logit", lambda y: np.log(y / (1.0 - y)), lambda y: -np.log(y) - np.log1p(-y), Logit)


def candidates(y: np.ndarray, counts: bool = False) -> list[Scale]:
    """Scales on which all values are defined, the identity first."""
    found = [_identity()]
    if counts:
        return found + [_box_cox(power, -1.0) for power in POWERS if (y > -1.0).all()]
    if (y > 0).all():
        found += [_box_cox(power) for power in POWERS]
        if (y < 1).all():
            found.append(_logit())
    return found


def quadratic_design(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
    """1, x, squares, and products while there are ten rows for each column."""
    columns = [np.ones(len(x)), *x.T]
    columns += [c**2 for c in x.T] if len(x) >= 10 * (2 * x.shape[1] + 1) else []
    if len(x) >= 10 * (len(columns) + x.shape[1] * (x.shape[1] - 1) // 2):
        columns += [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i)]
    return np.stack(columns, axis=1)


def residuals_of(scale: Scale, design: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of a quadratic regression of the warped values."""
    z = scale.forward(y)
    return z - design @ np.linalg.lstsq(design, z, rcond=None)[0]


def profile_score(scale: Scale, residual: np.ndarray, y: np.ndarray) -> float:
    """Largest log likelihood of the regression with normal errors, up to a constant."""
    variance = max(float(residual @ residual) / len(y), 1e-300)
    return -0.5 * len(y) * float(np.log(variance)) + float(scale.log_derivative(y).sum())


def shape_gain(residual: np.ndarray) -> float:
    """Nats a row that a mixture of normals gains over a normal."""
    if len(residual) < 100 or not residual.std() > 0:
        return 0.0
    some = residual[np.linspace(0, len(residual) - 1, min(len(residual), SHAPE_ROWS)).astype(int), None]
    some = some / some.std()
    shape = GaussianMixture(COMPONENTS, random_state=0, reg_covar=1e-4, tol=1e-3, max_iter=100)
    normal = -0.5 * (np.log(2 * np.pi * some.var()) + 1.0)
    return float(shape.fit(some).score(some) - normal)


def choose_scale(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    seed: int = 0,
    counts: bool = False,
    ends: Float[np.ndarray, " 2"] | None = None,
) -> Scale:
    """The best candidate for one output at inputs in the unit cube; ``ends`` are those of the data y is a sample of."""
    if len(y) > MOST_ROWS:
        rows = np.random.default_rng(seed).choice(len(y), MOST_ROWS, replace=False)
        x, y = x[rows], y[rows]
    if len(y) < 20 or not np.ptp(y) > 0:
        return _identity()
    design = quadratic_design(x)
    found = candidates(y if ends is None else np.concatenate([y, ends]), counts)
    residuals = [residuals_of(scale, design, y) for scale in found]
    scores = np.array([profile_score(scale, r, y) for scale, r in zip(found, residuals)])
    scores[1:] -= MARGIN
    best = int(np.argmax(scores))
    if len(found) > 1 and shape_gain(residuals[best]) > SHAPE_MARGIN:  # the normal law says nothing here
        return found[int(np.argmax(scores + len(y) * np.array([shape_gain(r) for r in residuals])))]
    few = len(y) <= MOST_INPUTS or len(np.unique(x, axis=0)) <= MOST_INPUTS
    if best > 0 and few and kriging_score(found[0], x, y) > kriging_score(found[best], x, y) - MARGIN:
        return found[0]
    return found[best]


def kriging_score(scale: Scale, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> float:
    """Log evidence of exact kriging on a scale, the Jacobian included."""
    z = scale.forward(y)
    spread = float(z.std())
    data = collapse(x.clip(0.0, 1.0), (z - z.mean()) / spread)
    evidence = max(kriging.log_evidence for kriging in fit_exact(data))
    return evidence - len(y) * math.log(spread) + float(scale.log_derivative(y).sum())


def standardised(warp: AbstractWarp, warped: Float[np.ndarray, "n W"]) -> AbstractWarp:
    """A warp followed by standardisation of the values it gave."""
    spread, centre = warped.std(axis=0), warped.mean(axis=0)
    ready = Standardise(centre, np.where(spread > 1e-12 * (np.abs(centre) + 1e-300), spread, 1.0))
    return ready if isinstance(warp, IdentityWarp) else Chain(warp, ready)


def output_warp(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n W"],
    seed: int = 0,
    counts: bool = False,
    ends: Float[np.ndarray, "2 W"] | None = None,
) -> tuple[AbstractWarp, str]:
    """Warps of all outputs followed by standardisation, and their name.

    With several outputs a warp is taken only if all of them choose the same one.
    """
    scales = [
        choose_scale(x, column, seed, counts, None if ends is None else ends[:, k])
        for k, column in enumerate(y.T)
    ]
    chosen = scales[0] if len({scale.name for scale in scales}) == 1 else _identity()
    warped = np.stack([chosen.forward(column) for column in y.T], axis=1)
    return standardised(chosen.module(), warped), chosen.name


def output_likelihood(
    est: DTMGPRegressor,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n W"],
    seed: int,
    ends: Float[np.ndarray, "2 W"] | None = None,
) -> tuple[AbstractLikelihood, str]:
    """The likelihood that a fit uses, with its warp, and the name of the output scale.

    Where (x, y) is a sample, ``ends`` are the smallest and the largest outputs of all data.
    """
    width = y.shape[1]
    given = copy.deepcopy(est.likelihood)
    if given is None:
        kind = HeteroscedasticGaussian if isinstance(est.objective, Energy) else MixtureOfNormals
        given = kind(width)
    if given.outputs != width:
        raise InputError(
            "likelihood",
            got=f"{type(given).__name__} for {given.outputs} outputs",
            expected=f"one for the {width} columns of y",
            do=f"{type(given).__name__}({width})",
        )
    if not isinstance(given, CONTINUOUS):
        return given, "none"
    if est.warp is None and not isinstance(given.warp, IdentityWarp):
        return given, f"{type(given.warp).__name__} of the likelihood"
    if est.warp is None:
        given.warp, name = output_warp(x, y, seed, est.lattice_ is not None, ends)
        return given, name
    chosen = copy.deepcopy(est.warp)
    with torch.no_grad():
        warped = chosen.double()(torch.as_tensor(y)).numpy()
    given.warp = standardised(chosen.float(), warped)
    return given, type(chosen).__name__
