"""Tasks for torchrun: ``distributed_worker.py FOLDER TASKS``; every process writes what it has found to FOLDER.

TASKS is JSON: a list of [name of a function below, its keyword arguments].
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from small import small_model, small_runs

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.inference import ELBO, Energy, Predictive, reduction
from dtmgp.inference.distributed import Processes, join
from dtmgp.inference.reduction import sum_gradients, sum_rows
from dtmgp.inference.trainer import Settings, train
from dtmgp.inference.validation import negative_log_density
from dtmgp.kernels import Laplace
from dtmgp.kernels import Tensor as TensorKernel
from dtmgp.layers import ExpansionLayer
from dtmgp.likelihoods import GaussianLikelihood, HeteroscedasticGaussian, MixtureOfNormals, StudentT
from dtmgp.model import DTMGP, deep_model
from dtmgp.model.large import with_tables

OBJECTIVES = {"ELBO": ELBO(2), "Predictive": Predictive(4), "Energy": Energy(4)}
KINDS = (GaussianLikelihood, HeteroscedasticGaussian, MixtureOfNormals, StudentT)
LIKELIHOODS = {kind.__name__: kind for kind in KINDS}


def unequal(runs, single):
    """The same runs with one replicate only for the first inputs."""
    keep = torch.ones(len(runs.y), dtype=torch.bool)
    keep[1 : 2 * single : 2] = False
    counts = runs.counts.clone()
    counts[:single] = 1
    return runs._replace(y=runs.y[keep], start=torch.cat([counts[:1] * 0, counts.cumsum(0)]))


def fit(
    processes,
    *,
    objective="Predictive",
    likelihood="GaussianLikelihood",
    dtype="float64",
    inputs=41,
    batch_size=8,
    epochs=2,
    latent=1,
    single=0,
    fine=False,
    spoil=False,
    blocks=False,
    callbacks=(),
    checkpoint=None,
):
    """Everything that a run leaves behind, as arrays."""
    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    noise = LIKELIHOODS[likelihood]()
    if fine:
        generator = torch.Generator().manual_seed(0)
        model = deep_model(2, noise, hidden_widths=(1,), levels=(2, 14), generator=generator).to(kind)
    else:
        model = small_model(2, noise, dtype=kind, latent_inputs=latent)
    if spoil:
        with torch.no_grad():
            model.stack[0].bias[0] = math.nan
    runs = unequal(small_runs(inputs, 2, dtype=kind), single)
    state = train(
        model,
        runs,
        OBJECTIVES[objective],
        Settings(epochs, batch_size, 0.05, kl_warm_up=0.3, scores=3, noise_in_blocks=blocks),
        generator=torch.Generator().manual_seed(5),
        validation=small_runs(7, 2, seed=1, dtype=kind),
        score=negative_log_density,
        callbacks=callbacks,
        checkpoint=checkpoint,
        checkpoint_every=1,
        processes=processes,
    )
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    arrays["trace"] = np.array([line[:-1] for line in state.trace])  # without seconds
    arrays["generator"] = state.generator.get_state().numpy()
    arrays["best"] = np.array([state.best_score, state.best_epoch])
    arrays["reason"] = np.array(state.reason)
    return arrays


def fit_by_rows(processes):
    """A fine table whose gradients go as rows: what the trainer ends with, and how many bytes went which way."""
    went = []
    own, reduction.SPARSE_FROM = reduction.SPARSE_FROM, 1
    original = reduction._sum_rows_of

    def counted(*arguments):
        went.append(original(*arguments))
        return went[-1]

    reduction._sum_rows_of = counted
    try:
        arrays = fit(processes, fine=True, objective="ELBO", batch_size=4, latent=0)
    finally:
        reduction.SPARSE_FROM, reduction._sum_rows_of = own, original
    return {**arrays, "went": np.array(went)}


def fit_table(processes):
    """A layer whose weights are a natural table: rows go to and fro, and each process makes the same step."""
    torch.set_num_threads(1)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        expansion = HierarchicalExpansion(TensorKernel(Laplace(0.8), dim=2), SparseGrid(2, 7))
        layer = ExpansionLayer(expansion, 1, learn_kernel=False)
        model = with_tables(DTMGP([layer], GaussianLikelihood()), table_from=1)
        state = train(
            model,
            small_runs(41, 2, dtype=torch.float64),
            ELBO(),
            Settings(3, 8, 0.01, warm_up=0.02),
            generator=torch.Generator().manual_seed(0),
            processes=processes,
        )
    finally:
        torch.set_default_dtype(default)
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    return {**arrays, "trace": np.array([line[:-1] for line in state.trace])}


def stopped(processes):
    """A run that ends in its second epoch and leaves the checkpoint of the first."""

    def callback(state):
        if state.epoch == 2:
            raise InputError("epoch", got="the second", expected="another")

    try:
        fit(processes, callbacks=[callback], checkpoint=Path(sys.argv[1]) / "half.checkpoint")
    except InputError as error:
        return {"said": np.array(str(error))}


def interrupted(processes, *, rank):
    """Ctrl-C in one process: in a callback of the first one, or after the first epoch of the second one."""
    checks = []

    def callback(state):
        if state.epoch == 2 and rank == 0:
            os.kill(os.getpid(), signal.SIGINT)

    class OneMore(Processes):
        def check_in_step(self, generator, parameters):
            checks.append(0)
            if self.rank == rank == 1 and len(checks) == 2:
                os.kill(os.getpid(), signal.SIGINT)
            super().check_in_step(generator, parameters)

    return fit(OneMore(processes.rank, processes.world), epochs=9, callbacks=[callback])


def gradients(dtype="float64", rank=0, sparse=False, touched=5):
    """Parameters with gradients of which each process knows some, the same in every call."""
    rng = np.random.default_rng([rank, 7])
    kind = getattr(torch, dtype)
    table = torch.nn.Parameter(torch.zeros(50, 3, dtype=kind))
    grad = torch.zeros(50, 3, dtype=kind)
    rows = torch.from_numpy(rng.choice(50, touched + rank, replace=False))
    grad[rows] = torch.from_numpy(rng.normal(size=(len(rows), 3))).to(kind)
    table.grad = grad.to_sparse(1) if sparse else grad
    vector = torch.nn.Parameter(torch.zeros(4, dtype=kind))
    vector.grad = torch.from_numpy(rng.normal(size=4)).to(kind)
    some = torch.nn.Parameter(torch.zeros(2, dtype=kind))
    if rank == 1:
        some.grad = torch.ones(2, dtype=kind)
    return [table, vector, some, torch.nn.Parameter(torch.zeros(3, dtype=kind))]


def reduce(processes, *, sparse=False, touched=5, sparse_from=1):
    """Sums of the gradients above, and the traffic."""
    own, reduction.SPARSE_FROM = reduction.SPARSE_FROM, sparse_from
    parameters = gradients(rank=processes.rank, sparse=sparse, touched=touched)
    try:
        numbers, traffic = sum_gradients(processes, parameters, [1.5, float(processes.rank)])
    finally:
        reduction.SPARSE_FROM = own
    found = {str(k): p.grad.to_dense().numpy() for k, p in enumerate(parameters) if p.grad is not None}
    stayed = parameters[0].grad.is_sparse
    return {**found, "numbers": np.array(numbers), "traffic": np.array(traffic), "sparse": np.array(stayed)}


def add_rows(processes):
    """Rows 2 r, 2 r + 1, 2 r + 2 of process r with values r + 1."""
    rows = 2 * processes.rank + torch.arange(3)
    union, total = sum_rows(processes, rows, torch.full((3, 2), processes.rank + 1.0))
    return {"rows": union.numpy(), "values": total.numpy()}


def refusals(processes):
    """What is said when one process alone has something to refuse, or has other data."""
    said = {}

    def refuse():
        raise InputError("table", got="nothing", expected="rows")

    def tasks():
        yield "together", lambda: processes.together(refuse if processes.rank == 1 else int)
        yield "once", lambda: processes.once(refuse)
        yield "data", lambda: fit(processes, inputs=20 + processes.rank)

    for name, task in tasks():
        try:
            task()
        except InputError as error:
            said[name] = np.array(str(error))
    said["gathered"] = np.array(processes.gather(10 * processes.rank))
    said["decided"] = np.array(processes.once(lambda: 7 + processes.rank))
    return said


def estimator(processes, *, dtype="float64"):
    """The regressor as users call it."""
    from dtmgp import DTMGPRegressor

    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2)).repeat(2, axis=0)
    y = np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=len(x))
    seed = processes.rank  # the first one's counts
    est = DTMGPRegressor((2,), (2, 3), max_epochs=3, random_state=seed, dtype=dtype, verbose=1).fit(x, y)
    return {"mean": est.predict(x), "seed": np.array(est._seed)}


def reporter(processes, checkpoint, pause):
    """A callback that says where a run is, for tests that kill; it leaves the number of this process in a file."""
    place = Path(checkpoint).parent
    (place / f"pid.{os.environ['TORCHELASTIC_RESTART_COUNT']}.{processes.rank}").write_text(str(os.getpid()))

    def report(state):
        print(f"epoch {state.epoch}", flush=True)
        time.sleep(pause)

    return report


def keep_on_fitting(processes, *, checkpoint, pause):
    """A fit of the regressor; its checkpoints are ten epochs apart."""
    from dtmgp import DTMGPRegressor

    report = reporter(processes, checkpoint, pause)
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(50, 2)).repeat(2, axis=0)
    y = np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=len(x))
    options = {"max_epochs": 40, "learning_rate": 0.02, "batch_size": 16, "validation_fraction": 0.0}
    est = DTMGPRegressor((2,), (2, 3), latent_inputs=1, checkpoint=checkpoint, callbacks=[report], **options)
    est.fit(x, y)
    arrays = {name: value.numpy() for name, value in est.model_.state_dict().items()}
    return {**arrays, "trace": np.array([line[:-1] for line in est.trace_]), "mean": est.predict(x)}


def keep_on(processes, *, checkpoint, pause):
    """A longer run of the training loop."""
    report = reporter(processes, checkpoint, pause)
    return fit(processes, epochs=24, batch_size=6, callbacks=[report], checkpoint=checkpoint)


def main() -> None:
    """Run the tasks in order."""
    folder, tasks = Path(sys.argv[1]), json.loads(sys.argv[2])
    processes = join()
    for number, (name, options) in enumerate(tasks):
        np.savez(folder / f"{number}.{processes.rank}.npz", **globals()[name](processes, **options))


if __name__ == "__main__":
    main()
