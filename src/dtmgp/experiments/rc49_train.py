"""``python -m dtmgp.experiments.rc49_train``: the whole study from rendered images in memory, on any device.

Needs neither h5py nor matplotlib; writes tables, weights in half precision and image samples that
``dtmgp.experiments.rc49_figures`` draws. `run` is the study itself, for images from wherever.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import shlex
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.experiments import rc49
from dtmgp.experiments.results import origin, read_csv, write_csv
from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.paper import PAPER
from dtmgp.images.rc49 import STEPS, held_out, turntable
from dtmgp.images.stream import RIGHT_ANGLE, ArraySource, Report
from dtmgp.inference.trainer import Training
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey

PARTS = ("steps", "inferred", "paper", "given")
SHOWN = np.arange(10.0, 90.0, 10.0)  # angles of the paper's figure; 90 itself is outside [0, 90)


def rendered(count: int, steps: int, device: torch.device, seed: int) -> ArraySource:
    """``count`` training images as bytes on the device: rows that `RC49.training_rows` draws from a whole file."""
    simulator = RotatedChairs()
    yaw, types = turntable(simulator.chairs, steps)
    rows = np.sort(
        np.random.default_rng(seed).choice(np.flatnonzero(~held_out(yaw)), size=count, replace=False)
    )
    images = np.empty((count, 64 * 64), np.uint8)
    for begin in range(0, count, 4096):
        part = rows[begin : begin + 4096]
        pixels = grey(simulator.render(yaw[part], types[part])).reshape(len(part), -1)
        images[begin : begin + 4096] = np.rint(255 * pixels)
    return ArraySource(torch.from_numpy(images).to(device), yaw[rows], types[rows])


def as_bytes(images: Tensor) -> np.ndarray:
    """Images in [0, 1] as bytes."""
    return (255 * images.clamp(0, 1)).round().to(torch.uint8).cpu().numpy()


def samples(model: nn.Module, study: rc49.Study, per_angle: int = 8) -> np.ndarray:
    """(angles, per_angle, pixels) at the angles of the paper's figure."""
    yaw = torch.tensor(np.repeat(SHOWN, per_angle), dtype=torch.float32, device=study.device)
    images = rc49.draw(model, yaw, study.generator(5))
    return as_bytes(images).reshape(len(SHOWN), per_angle, -1)


@torch.no_grad()
def turns(model: LatentClassDTMGP, device: torch.device, frames: int = 91) -> np.ndarray:
    """(classes, frames, pixels): every class over the whole range of angles."""
    x = torch.linspace(0.0, 90.0 * (1 - 1 / STEPS), frames, device=device).unsqueeze(1) / RIGHT_ANGLE
    return np.concatenate([as_bytes(model(part)) for part in x.split(13)], axis=1)


def half(model: nn.Module) -> dict[str, np.ndarray]:
    """Parameters in half precision."""
    return {name: value.detach().half().cpu().numpy() for name, value in model.state_dict().items()}


class Output:
    """Tables and samples of a study in a folder, written as they come; a run of the same command goes on with them."""

    def __init__(self, folder: Path, stated: dict[str, str]) -> None:
        self.folder, self.stated = folder, stated
        self.rows: list[rc49.Row] = []
        self.times: list[rc49.Row] = []
        self.shown: dict[str, np.ndarray] = {"shown": SHOWN}
        folder.mkdir(parents=True, exist_ok=True)
        scores, pictures = folder / "rc49_scores.csv", folder / "rc49_samples.npz"
        if scores.exists() and pictures.exists():
            old = read_csv(scores)
            if old.origin.get("command") == stated["command"]:
                self.rows = list(old.rows)
                self.shown = dict(np.load(pictures))

    def has(self, model: str, epoch: int) -> bool:
        """Whether a model was judged after an epoch."""
        return any(row["model"] == model and row["epoch"] == epoch for row in self.rows)

    def save(self, report: Report) -> None:
        """Write everything; report the last average."""
        write_csv(self.folder / "rc49_scores.csv", self.rows, self.stated)
        if self.times:
            write_csv(self.folder / "rc49_training.csv", self.times, self.stated)
        self.store("rc49_samples.npz", self.shown)
        last = rc49.averages(self.rows)[-1]
        report(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in last.items()))

    def store(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Arrays in one compressed file, replaced in one step."""
        part = self.folder / f".{name}.part.npz"
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
        part.replace(self.folder / name)

    def trained(self, name: str, done: Training, rate: float) -> None:
        """The trace of a training."""
        self.times += [
            {"model": name, "epoch": e.number, "loss": e.loss, "seconds": e.seconds, "rate": rate}
            for e in done.trace
        ]


def run(
    study: rc49.Study,
    output: Output,
    *,
    only: Collection[str] = PARTS,
    seconds: float = math.inf,
    checkpoints: Path | None = None,
) -> None:
    """The study: step times, inspector, floor, our generator, the paper's models, our generator with given chairs.

    The last is left out if ``seconds`` have passed. With a folder for ``checkpoints`` every training goes on where it
    stopped.
    """
    begun, report = time.perf_counter(), study.report
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)

    def state(name: str) -> str | None:
        return None if checkpoints is None else str(checkpoints / f"{name}.checkpoint")

    if "steps" in only:
        write_csv(output.folder / "rc49_step_times.csv", rc49.step_times(study), output.stated)
        if len(only) == 1:
            return
    inspector = rc49.train_inspector(study, state("inspector"))
    output.store("rc49_inspector.npz", half(inspector))
    judges = rc49.Judges(study, inspector)
    if not output.has("truth", 0):
        output.rows += judges.floor()
    output.save(report)

    def generator(name: str) -> None:
        title = f"{rc49.OURS} ({name})"
        objective = rc49.inferred if name == "inferred" else rc49.given
        classes = study.scale.classes if name == "inferred" else study.simulator.chairs
        done = rc49.train_ours(study, objective, title, classes=classes, checkpoint=state(name))
        model = done.model
        assert isinstance(model, LatentClassDTMGP)
        output.trained(title, done, study.scale.generator_rate)
        if not output.has(title, done.epoch):
            output.rows += judges.judge(model, title, done.epoch)
        sixty = torch.full((64,), 60.0, device=study.device)
        middle = torch.linspace(0.05, 0.95, 19, device=study.device).unsqueeze(1)
        weights = model.log_chances(middle).detach().exp().mean(0).cpu().numpy()
        output.shown |= {
            f"{name}_figure": samples(model, study),
            f"{name}_sixty": as_bytes(rc49.draw(model, sixty, study.generator(6))),
            f"{name}_weights": weights,
            f"{name}_turns": turns(model, study.device)[np.argsort(-weights)[:8]],
        }
        output.store(f"rc49_generator_{name}.npz", half(model))
        output.save(report)

    if "inferred" in only:
        generator("inferred")
    for name in PAPER if "paper" in only else ():

        def after(training: Training, name: str = name) -> None:
            if training.epoch in study.scale.judged and not output.has(name, training.epoch):
                assert isinstance(training.model, nn.Module)
                output.rows += judges.judge(training.model, name, training.epoch)
                output.shown[f"{name}_{training.epoch}"] = samples(training.model, study)
                output.save(report)

        done, rate = rc49.train_paper(name, study, after, state(name))
        output.trained(name, done, rate)
        output.save(report)
    if "given" in only and time.perf_counter() - begun < seconds:
        generator("given")


def reporter() -> Report:
    """Lines with the seconds since now in front."""
    begun = time.perf_counter()
    return lambda line: print(f"{time.perf_counter() - begun:7.1f} s  {line}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    numbers = {"images": int, "generator_epochs": int, "generator_rate": float, "draws": int, "epochs": int}
    for name, kind in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="leave out the last part after so many"
    )
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    told = parser.parse_args(arguments)
    report = reporter()
    torch.set_float32_matmul_precision("high")
    device = torch.device(told.device)
    given = {name: getattr(told, name) for name in numbers if getattr(told, name) is not None}
    scale = dataclasses.replace(rc49.QUICK if told.quick else rc49.FULL, **given)
    words = sys.argv[1:] if arguments is None else arguments
    stated = origin(shlex.join(["python", "-m", "dtmgp.experiments.rc49_train", *words]), told.seed)
    if device.type == "cuda":
        stated["device"] = torch.cuda.get_device_name(device)
    source = rendered(scale.images, scale.steps, device, told.seed)
    report(f"{scale.images:,} images rendered")
    study = rc49.Study(scale, source, device, told.seed, report)
    run(study, Output(told.out, stated), only=told.only, seconds=told.seconds)
    report("done")


if __name__ == "__main__":
    main()
