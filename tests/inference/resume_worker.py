"""A training run in a process of its own, killed by its test: ``python resume_worker.py CHECKPOINT RESULT [PAUSE]``."""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from small import small_model, small_runs

from dtmgp.inference import Predictive
from dtmgp.inference.trainer import Settings, train
from dtmgp.inference.validation import negative_log_density

SETTINGS = Settings(epochs=24, batch_size=8, learning_rate=0.05, kl_warm_up=0.3, scores=8)


def result(checkpoint, callbacks=()):
    """Everything that a run leaves behind, as arrays."""
    torch.set_num_threads(1)
    model = small_model(2, latent_inputs=1)
    state = train(
        model,
        small_runs(30, 2),
        Predictive(4),
        SETTINGS,
        generator=torch.Generator().manual_seed(5),
        validation=small_runs(6, 2, seed=1),
        score=negative_log_density,
        callbacks=callbacks,
        checkpoint=checkpoint,
        checkpoint_every=3,
        fingerprint="seed 5",
    )
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    arrays["trace"] = np.array([line[:-1] for line in state.trace])  # without seconds
    arrays["generator"] = state.generator.get_state().numpy()
    arrays["best"] = np.array([state.best_score, state.best_epoch])
    return arrays


def main() -> None:
    """Says which epoch is done, so that the test can kill at a moment of its choice."""
    checkpoint, target = sys.argv[1:3]
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0

    def report(state):
        print(state.epoch, flush=True)
        time.sleep(pause)

    np.savez(target, **result(checkpoint, [report]))


if __name__ == "__main__":
    main()
