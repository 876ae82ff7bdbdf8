"""``python -m dtmgp.experiments.rc49_train``: the whole study from rendered images in memory, on any device.

Needs neither h5py nor matplotlib; writes tables, weights in half precision and image samples that
``dtmgp.experiments.rc49_figures`` draws. On one NVIDIA H200 the full study takes minutes, on two cores hours.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.experiments import rc49
from dtmgp.experiments.results import origin, write_csv
from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.paper import PAPER
from dtmgp.images.rc49 import STEPS, held_out, turntable
from dtmgp.images.stream import RIGHT_ANGLE, ArraySource
from dtmgp.inference.trainer import Training
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey

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


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--images", type=int)
    parser.add_argument("--epochs", type=int, help="of the generators")
    parser.add_argument("--generator-rate", type=float)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--seconds", type=float, help="stop starting generators when so many have passed")
    parser.add_argument(
        "--only", nargs="*", choices=["paper", "inferred", "given"], default=["inferred", "paper", "given"]
    )
    told = parser.parse_args(arguments)
    begun = time.perf_counter()
    torch.set_float32_matmul_precision("high")
    device = torch.device(told.device)
    scale = rc49.QUICK if told.quick else rc49.FULL
    changes = {
        "images": told.images,
        "generator_epochs": told.epochs,
        "draws": told.draws,
        "generator_rate": told.generator_rate,
    }
    scale = dataclasses.replace(scale, **{k: v for k, v in changes.items() if v is not None})

    def report(line: str) -> None:
        print(f"{time.perf_counter() - begun:7.1f} s  {line}", flush=True)

    words = sys.argv[1:] if arguments is None else arguments
    stated = origin(shlex.join(["python", "-m", "dtmgp.experiments.rc49_train", *words]), told.seed)
    if device.type == "cuda":
        stated["device"] = torch.cuda.get_device_name(device)
    told.out.mkdir(parents=True, exist_ok=True)
    study = rc49.Study(
        scale, rendered(scale.images, scale.steps, device, told.seed), device, told.seed, report
    )
    report(f"{scale.images:,} images rendered")
    write_csv(told.out / "rc49_step_times.csv", rc49.step_times(study), stated)
    inspector = rc49.train_inspector(study)
    np.savez(told.out / "inspector.npz", **half(inspector))  # type: ignore[arg-type]
    judges = rc49.Judges(study, inspector)
    rows: list[rc49.Row] = list(judges.floor())
    times: list[rc49.Row] = []
    shown: dict[str, np.ndarray] = {}

    def save() -> None:
        write_csv(told.out / "rc49_scores.csv", rows, stated)
        if times:
            write_csv(told.out / "rc49_training.csv", times, stated)
        np.savez_compressed(told.out / "samples.npz", shown=SHOWN, **shown)  # type: ignore[arg-type]
        for line in rc49.averages(rows)[-1:]:
            report(str({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}))

    save()

    def generator(name: str) -> None:
        objective = rc49.inferred if name == "inferred" else rc49.given
        title = f"{rc49.OURS} ({name})"
        classes = 64 if name == "inferred" else study.simulator.chairs
        done = rc49.train_ours(study, objective, title, classes=classes)
        model = done.model
        assert isinstance(model, LatentClassDTMGP)
        times.extend(
            {
                "model": title,
                "epoch": e.number,
                "loss": e.loss,
                "seconds": e.seconds,
                "rate": scale.generator_rate,
            }
            for e in done.trace
        )
        rows.extend(judges.judge(model, title, done.epoch))
        shown[f"{name}_figure"] = samples(model, study)
        sixty = torch.full((64,), 60.0, device=device)
        shown[f"{name}_sixty"] = as_bytes(rc49.draw(model, sixty, study.generator(6)))
        weights = torch.softmax(model.logits.detach(), 0).cpu().numpy()
        shown[f"{name}_weights"] = weights
        kept = np.argsort(-weights)[:8]
        shown[f"{name}_turns"] = turns(model, device)[kept]
        np.savez_compressed(told.out / f"generator_{name}.npz", **half(model))  # type: ignore[arg-type]
        save()

    if "inferred" in told.only:
        generator("inferred")
    for name in PAPER if "paper" in told.only else ():

        def after(state: Training, name: str = name) -> None:
            if state.epoch in scale.judged:
                assert isinstance(state.model, nn.Module)
                rows.extend(judges.judge(state.model, name, state.epoch))
                shown[f"{name}_{state.epoch}"] = samples(state.model, study)
                save()

        done, rate = rc49.train_paper(name, study, after)
        times.extend(
            {"model": name, "epoch": e.number, "loss": e.loss, "seconds": e.seconds, "rate": rate}
            for e in done.trace
        )
        save()
    passed = time.perf_counter() - begun
    if "given" in told.only and (told.seconds is None or passed < told.seconds):
        generator("given")
    report("done")


if __name__ == "__main__":
    main()
