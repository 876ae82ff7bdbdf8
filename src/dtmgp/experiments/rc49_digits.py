"""``python -m dtmgp.experiments.rc49_digits``: turned handwritten digits, the paper's model and ours."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import numpy as np
import torch

from dtmgp.experiments import rc49
from dtmgp.experiments.rc49_train import reporter
from dtmgp.experiments.results import origin, write_csv
from dtmgp.images.digits import rotated_digits
from dtmgp.images.judge import energy_distance, nearest, sliced_wasserstein, spread
from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.paper import paper_dtmgp
from dtmgp.images.rc49 import held_out
from dtmgp.images.stream import ArraySource, Objective, RandomImages, WholeAngles, stream_train
from dtmgp.inference.trainer import Settings

ANGLES = (20.0, 45.0, 70.0)  # held out; judged with the angles half a degree to both sides
PIXELS = 16 * 16


def study(
    images: int, epochs: tuple[int, int], classes: int, seed: int, report: rc49.Report
) -> list[rc49.Row]:
    """Train both models on half of the digits' draws, judge them at held-out angles: one row per model and angle."""
    data = rotated_digits(images, seed)
    kept = ~held_out(data.labels)
    source = ArraySource(data.images[kept], data.labels[kept], data.types[kept])
    start = torch.Generator().manual_seed(seed)
    paper = paper_dtmgp(PIXELS, start)
    ours = LatentClassDTMGP(classes, 32, 128, PIXELS, 5, generator=start)

    def fit(name: str, objective: Objective, batching: RandomImages | WholeAngles, count: int) -> None:
        settings = Settings(epochs=count, learning_rate=0.01, warm_up=0.1)
        generator = torch.Generator().manual_seed(seed)
        model = paper if name == "DTMGP" else ours
        stream_train(
            model, source, objective, batching, settings, generator=generator, report=report, name=name
        )

    fit("DTMGP", rc49.bound, RandomImages(128), epochs[0])
    fit(rc49.OURS, rc49.inferred, WholeAngles(8), epochs[1])
    rows: list[rc49.Row] = []
    for number, angle in enumerate(ANGLES):
        first, second = (_true(angle, seed + 1 + k) for k in (2 * number, 2 * number + 1))
        yaw = torch.full((len(first),), angle)
        sets = {"truth": second}
        for name, model in (("DTMGP", paper), (rc49.OURS, ours)):
            sets[name] = rc49.draw(model, yaw, torch.Generator().manual_seed(seed))
        train = source.store
        median = nearest(second, train).median()
        for name, drawn in sets.items():
            row: rc49.Row = {
                "model": name,
                "angle": angle,
                "energy": energy_distance(drawn, first),
                "sliced": sliced_wasserstein(drawn, first, torch.Generator().manual_seed(seed)),
                "spread": spread(drawn),
                "nearer": float((nearest(drawn, train) < median).float().mean()),
            }
            rows.append(row)
    return rows


def _true(angle: float, seed: int, count: int = 500) -> torch.Tensor:
    """Fresh turned digits at an angle."""
    return torch.from_numpy(rotated_digits(count, seed, yaw=np.full(count, angle)).images).flatten(1)


def main(arguments: list[str] | None = None) -> None:
    """Write ``rc49_digits.csv``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, nargs=2, default=(9, 40))
    parser.add_argument("--classes", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args(arguments)
    words = sys.argv[1:] if arguments is None else arguments
    stated = origin(shlex.join(["python", "-m", "dtmgp.experiments.rc49_digits", *words]), told.seed)
    rows = study(told.images, tuple(told.epochs), told.classes, told.seed, reporter())
    write_csv(told.out / "rc49_digits.csv", rows, stated)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
