"""A fit in a process of its own, killed by its test: ``python killed_fit.py CHECKPOINT RESULT [PAUSE]``."""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from quick import quick, wave


def result(checkpoint, callbacks=()):
    """All that a fit predicts, and its trace without seconds."""
    torch.set_num_threads(1)
    x, y = wave(50, 2)
    est = quick(
        checkpoint=checkpoint,
        callbacks=callbacks,
        max_epochs=40,
        learning_rate=0.02,
        batch_size=16,
        latent_inputs=1,
    ).fit(x, y)
    return {
        "mean": est.predict(x),
        "draws": est.sample_y(x, 3, 0),
        "trace": np.array([line[:-1] for line in est.trace_]),
        **{name: value.numpy() for name, value in est.model_.state_dict().items()},
    }


def main() -> None:
    """Says when it begins and which epoch is done, so that the test can kill at a moment of its choice."""
    checkpoint, target = sys.argv[1:3]
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    print("begin", flush=True)

    def report(state):
        print(state.epoch, flush=True)
        time.sleep(pause)

    np.savez(target, **result(checkpoint, [report]))


if __name__ == "__main__":
    main()
