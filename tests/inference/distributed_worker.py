"""A training run for torchrun: ``distributed_worker.py RESULT CASES``; every process writes what it ends with."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from small import small_model, small_runs

from dtmgp.inference import ELBO, Energy, Predictive
from dtmgp.inference.distributed import join
from dtmgp.inference.trainer import Settings, train
from dtmgp.inference.validation import negative_log_density
from dtmgp.likelihoods import GaussianLikelihood, HeteroscedasticGaussian, MixtureOfNormals, StudentT

OBJECTIVES = {"ELBO": ELBO(2), "Predictive": Predictive(4), "Energy": Energy(4)}
LIKELIHOODS = {
    kind.__name__: kind for kind in (GaussianLikelihood, HeteroscedasticGaussian, MixtureOfNormals, StudentT)
}


def result(
    processes,
    *,
    objective="Predictive",
    likelihood="GaussianLikelihood",
    dtype="float64",
    inputs=41,
    batch_size=8,
    epochs=6,
    latent=1,
    checkpoint=None,
    replicates=None,
    callbacks=(),
    levels=None,
):
    """Everything that a run leaves behind, as arrays."""
    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    model = small_model(2, LIKELIHOODS[likelihood](), dtype=kind, latent_inputs=latent)
    runs = small_runs(inputs, 2, dtype=kind)
    if replicates is not None:  # unequal numbers of replicates
        runs = runs.take(torch.arange(inputs))
        keep = torch.ones(len(runs.y), dtype=torch.bool)
        keep[1 : 2 * replicates : 2] = False
        counts = runs.counts.clone()
        counts[:replicates] = 1
        runs = runs._replace(y=runs.y[keep], start=torch.cat([counts[:1] * 0, counts.cumsum(0)]))
    state = train(
        model,
        runs,
        OBJECTIVES[objective],
        Settings(epochs=epochs, batch_size=batch_size, learning_rate=0.05, kl_warm_up=0.3, scores=3),
        generator=torch.Generator().manual_seed(5),
        validation=small_runs(7, 2, seed=1, dtype=kind),
        score=negative_log_density,
        checkpoint=checkpoint,
        checkpoint_every=1,
        callbacks=callbacks,
        processes=processes,
    )
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    arrays["trace"] = np.array([line[:-1] for line in state.trace])  # without seconds
    arrays["generator"] = state.generator.get_state().numpy()
    arrays["best"] = np.array([state.best_score, state.best_epoch])
    return arrays


def main() -> None:
    """One or several cases: a JSON list of keyword arguments."""
    target, cases = sys.argv[1], json.loads(sys.argv[2])
    processes = join()
    for number, case in enumerate(cases):
        np.savez(f"{target}.{number}.{processes.rank}.npz", **result(processes, **case))


if __name__ == "__main__":
    main()
