"""A fit to rows that are streamed: survey, start from a sample, training over everything; memory stays bounded."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt64

from dtmgp.errors import InputError
from dtmgp.estimators.cube import Cube
from dtmgp.estimators.deep_checks import check_output_range, resolve
from dtmgp.estimators.deep_fit import Fitted, Plan, start_fit
from dtmgp.estimators.deep_stages import Stage, run_stages, settings_of, stages_of
from dtmgp.estimators.lattice import Lattice
from dtmgp.estimators.output_scale import output_likelihood
from dtmgp.inference import Runs
from dtmgp.inference.checkpoint import fingerprint_of
from dtmgp.inference.distributed import Processes
from dtmgp.inference.gauss_newton import GaussNewton
from dtmgp.inference.progress import report_progress
from dtmgp.inference.trainer import Settings
from dtmgp.kernels import Matern32
from dtmgp.likelihoods import AbstractLikelihood
from dtmgp.streams.base import AbstractRows, Block
from dtmgp.streams.epochs import Outputs, RunStream
from dtmgp.streams.hashing import row_uniforms
from dtmgp.streams.survey import Check, Survey, survey

if TYPE_CHECKING:
    from dtmgp.estimators.dtmgp import DTMGPRegressor

Array = np.ndarray
log = logging.getLogger("dtmgp")
MOST_BATCH = 8000  # inputs
BATCHES = 2000  # in an epoch of large data, up to that size
BATCH_RUNS = 64_000  # of a batch on average: inputs with many runs come in smaller batches


def survey_rows(est: DTMGPRegressor, rows: AbstractRows, seed: int) -> tuple[Survey, Cube]:
    """One pass over all rows, in which everything that can be wrong with them is refused; and their cube."""
    given = None if est.bounds is None else Cube.from_bounds(est.bounds, rows.names)
    checks: list[Check] = [] if given is None else [inside(given)]
    if est.likelihood is not None:
        checks.append(allowed(est.likelihood))
    found = survey(rows, seed, est.validation_fraction, checks)
    cube = given or Cube.from_range(found.low, found.high, rows.names, found.rows)
    for k, (low, high) in enumerate(zip(found.y_low, found.y_high)):
        check_output_range(rows.targets[k], float(low), float(high))
    log.log(logging.WARNING if found.scattered else logging.INFO, "%s", found)
    return found, cube


def fit_stream(
    est: DTMGPRegressor, rows: AbstractRows, found: Survey, seed: int, processes: Processes
) -> Fitted:
    """Start from the sample, then train over all rows that are not held out."""
    x, y = found.start.every, found.start.y
    lattice = Lattice.of(y) if found.whole and est.likelihood is None and est.warp is None else None
    est.lattice_, outputs, margin = None, None, 0.0
    if lattice is not None and max(np.abs(found.y_low).max(), np.abs(found.y_high).max()) <= 1e6:
        est.lattice_ = Lattice(0.0 if (found.y_low >= 0).all() else -np.inf)
        outputs, margin = spread(seed), 0.5
        y = outputs(y, found.start.key)
    ends = np.stack([found.y_low - margin, found.y_high + margin])
    likelihood, est.warp_ = output_likelihood(est, est.cube_.scale(x), y, seed, ends)
    if est.likelihood is None:
        likelihood.check_targets(ends)
    plan = resolve(est, likelihood, seed, processes)
    # one layer at the inputs of the sample would be exact for the sample only
    start = plan if plan.kernel is not None else dataclasses.replace(plan, kernel=Matern32(lengthscale=2.0))
    sample = Runs.group(est.cube_.scale(x), y, dtype=plan.dtype)
    fitted, _ = processes.once(lambda: start_fit(start, sample))
    if fitted.start is not None and fitted.start.interrupted:
        return fitted
    stream = RunStream(rows, found, est.cube_.scale, outputs, dtype=plan.dtype, device=plan.device)
    if fitted.start is not None and fitted.start.leverage is not None:
        # of the data: the sample's parameters have so much less weight among all rows
        fitted.start.leverage *= min(GaussNewton().most_inputs, sample.inputs) / max(stream.inputs, 1)
    train_stream(est, plan, fitted, stream, outputs is not None)
    return fitted


def train_stream(
    est: DTMGPRegressor, plan: Plan, fitted: Fitted, stream: RunStream, is_spread: bool = False
) -> None:
    """The stages of training, each over everything."""
    held = stream.found.held_out
    validation = None
    if held is not None:
        validation = Runs(*(part.to(plan.device) for part in stream.group_of(held)))
    stages = [dataclasses.replace(s, fixed=False) for s in stages_of(plan, stream.inputs, fitted.start)]
    course = [(stage, stream_settings(plan, stage, stream.inputs, stream.total)) for stage in stages]
    log.info(
        "epochs of %d batches of %d inputs", stream.steps(course[0][1].batch_size), course[0][1].batch_size
    )
    mark = ""
    if est.checkpoint is not None:
        mark = fingerprint_of(repr(plan), est.cube_.low, est.cube_.high, is_spread)
    with report_progress(est.verbose if plan.processes.first else 0) as watch:
        run_stages(
            plan,
            fitted,
            course,
            lambda stage: (stream, validation),
            callbacks=[*est.callbacks, *watch],
            checkpoint=None if est.checkpoint is None else Path(est.checkpoint),
            checkpoint_every=1,  # epochs are long
            fingerprint=mark,
        )


def stream_settings(plan: Plan, stage: Stage, inputs: int, runs: int) -> Settings:
    """A stage in whole epochs, at least one; batches as in memory, and up to 8000 inputs where there are many."""
    own = settings_of(plan, stage, inputs)
    most = max(1, BATCH_RUNS * inputs // runs)
    batch = plan.batch_size or min(max(own.batch_size, inputs // BATCHES), MOST_BATCH, most)
    steps = max(1, -(-inputs // batch))
    epochs = plan.max_epochs or max(1, min(round(stage.steps / steps), 300))
    return dataclasses.replace(own, epochs=epochs, batch_size=batch)


def spread(seed: int) -> Outputs:
    """Whole numbers moved inside their unit intervals, each by a number of its row."""

    def moved(y: Float[Array, "n W"], key: UInt64[Array, " n"]) -> Float[Array, "n W"]:
        return y + row_uniforms(key, y.shape[1], seed) - 0.5

    return moved


def inside(cube: Cube) -> Check:
    """Refuse a row outside the declared box, by row group and number."""

    def check(block: Block) -> None:
        outside = (block.x < cube.low) | (block.x > cube.high)
        if outside.any():
            row, column = (int(k) for k in np.argwhere(outside)[0])
            raise cube.outside(column, float(block.x[row, column]), block.place(row))

    return check


def allowed(likelihood: AbstractLikelihood) -> Check:
    """Refuse outputs that a likelihood has no density for, by row group and number."""

    def check(block: Block) -> None:
        try:
            likelihood.check_targets(block.y)
        except InputError as error:
            row = first_refused(likelihood.check_targets, block.y)
            raise InputError(
                f"outputs {', '.join(np.format_float_positional(v, trim='-') for v in block.y[row])}",
                got=f"them in {block.place(row)}",
                expected=f"what {type(likelihood).__name__} allows",
                cause=str(error).rstrip("."),
            ) from None

    return check


def first_refused(check: Callable[[Array], None], y: Float[Array, "n W"]) -> int:
    """The first row that a check refuses on its own, by halving."""

    def refused(rows: Sequence[int] | slice) -> bool:
        try:
            check(y[rows])
        except InputError:
            return True
        return False

    low, high = 0, len(y)  # it is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(slice(low, middle)) else (middle, high)
    return low
