"""Section 6 of the paper: train its three models and ours on turned chairs, and judge what they generate."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.experiments.results import Value
from dtmgp.images.inspector import Inspector, inspect_loss
from dtmgp.images.judge import Jury, Verdict
from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.losses import ClassMixture, CollapsedELBO
from dtmgp.images.paper import PAPER
from dtmgp.images.rc49 import STEPS, WIDTH
from dtmgp.images.stream import (
    RIGHT_ANGLE,
    ImageBatch,
    Objective,
    RandomImages,
    Report,
    Source,
    WholeAngles,
    stream_train,
)
from dtmgp.inference.objectives import Loss
from dtmgp.inference.trainer import Settings, Training
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey

OURS = "LatentClassDTMGP"
NEAR = 2.5  # degrees: training images that a generated one may be a copy of
Row = dict[str, Value]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is done: images, epochs, batches, and how much is drawn to judge it."""

    steps: int = STEPS
    images: int = 80_000
    epochs: int = 9
    judged: tuple[int, ...] = (3, 6, 9)
    batch: int = 256
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    inspector_epochs: int = 6
    generator_epochs: int = 50
    generator_rate: float = 0.006
    classes: int = 64
    codes: int = 128
    width: int = 1024
    angles_per_batch: int = 16
    draws: int = 500
    angles: tuple[float, ...] = tuple(np.arange(5.0, 90.0, 5.0).tolist())


FULL = Scale()
QUICK = Scale(
    steps=180,
    images=5_000,
    epochs=3,
    judged=(1, 2, 3),
    rates=(3e-3,),
    inspector_epochs=8,
    generator_epochs=60,
    generator_rate=0.01,
    codes=64,
    width=512,
    angles_per_batch=8,
    draws=200,
    angles=(20.0, 60.0),
)


@dataclasses.dataclass(frozen=True)
class Study:
    """Where the study runs and what it works on."""

    scale: Scale
    training: Source
    device: torch.device
    seed: int
    report: Report
    simulator: RotatedChairs = dataclasses.field(default_factory=RotatedChairs)

    def generator(self, *key: int) -> torch.Generator:
        """Random numbers for one purpose, on the device of the models."""
        seed = int(np.random.SeedSequence([self.seed, *key]).generate_state(1)[0])
        return torch.Generator(self.device).manual_seed(seed)

    def truth(self, angle: float, number: int) -> tuple[Tensor, Tensor]:
        """True images (draws, pixels) and their angles within half a degree: set ``number`` of as many as one likes."""
        rng = np.random.default_rng([self.seed, round(1000 * angle), number])
        yaw = self.yaw(angle, rng)
        images = grey(self.simulator.render(yaw, rng.integers(self.simulator.chairs, size=len(yaw))))
        return torch.from_numpy(images).flatten(1).to(self.device), torch.from_numpy(yaw).float().to(
            self.device
        )

    def yaw(self, angle: float, rng: np.random.Generator) -> np.ndarray:
        """Angles of the data set in the band around one that is held out."""
        grid = RIGHT_ANGLE * np.arange(self.scale.steps) / self.scale.steps
        band = grid[(grid >= angle - 0.5 * WIDTH) & (grid < angle + 0.5 * WIDTH)]
        return rng.choice(band, size=self.scale.draws)


# -- training -------------------------------------------------------------------------------------------------
def bound(model: nn.Module, part: ImageBatch, generator: torch.Generator, progress: float) -> Loss:
    """The paper's objective."""
    return CollapsedELBO()(model, part.batch, generator)  # type: ignore[arg-type]


def inferred(model: nn.Module, part: ImageBatch, generator: torch.Generator, progress: float) -> Loss:
    """Ours, the classes being inferred."""
    return ClassMixture()(model, part.batch, generator, progress)  # type: ignore[arg-type]


def given(model: nn.Module, part: ImageBatch, generator: torch.Generator, progress: float) -> Loss:
    """Ours with the chairs known in training: what inference can reach at best."""
    return ClassMixture()(model, part.batch, generator, progress, part.types)  # type: ignore[arg-type]


def train_inspector(study: Study, checkpoint: str | None = None) -> Inspector:
    """The network that judges."""
    torch.manual_seed(study.seed)
    inspector = Inspector(study.simulator.chairs).to(study.device)
    settings = Settings(epochs=study.scale.inspector_epochs, learning_rate=2e-3, warm_up=0.1)
    stream_train(
        inspector,
        study.training,
        inspect_loss,
        RandomImages(128),
        settings,
        generator=study.generator(0),
        checkpoint=checkpoint,
        report=study.report,
        name="inspector",
    )
    return inspector.eval().requires_grad_(False)


def paper_model(name: str, study: Study) -> nn.Module:
    """One of the paper's models before training."""
    seed = torch.Generator().manual_seed(study.seed)
    return PAPER[name](generator=seed).to(study.device)


def train_paper(
    name: str, study: Study, after: Callable[[Training], None], checkpoint: str | None = None
) -> tuple[Training, float]:
    """Nine epochs at the rate with the lowest training loss after one; ``after`` is called at the end of epochs."""
    scale = study.scale
    losses: dict[float, float] = {}
    run = partial(_run, study=study, objective=bound, batching=RandomImages(scale.batch), name=name)
    for rate in scale.rates if len(scale.rates) > 1 else ():
        try:
            one = run(paper_model(name, study), settings=Settings(epochs=1, learning_rate=rate, warm_up=0.1))
            losses[rate] = one.trace[-1].loss
        except ValueError:
            losses[rate] = float("inf")
    best = min(losses, key=losses.__getitem__) if losses else scale.rates[0]
    settings = Settings(epochs=scale.epochs, learning_rate=best, warm_up=0.1)
    model = paper_model(name, study)
    return run(model, settings=settings, callbacks=[after], checkpoint=checkpoint), best


def _run(
    model: nn.Module,
    *,
    study: Study,
    objective: Objective,
    batching: RandomImages | WholeAngles,
    settings: Settings,
    name: str,
    callbacks: list[Callable[[Training], None]] | None = None,
    checkpoint: str | None = None,
) -> Training:
    return stream_train(
        model,
        study.training,
        objective,
        batching,
        settings,
        generator=study.generator(1),
        callbacks=callbacks or [],
        checkpoint=checkpoint,
        report=study.report,
        name=name,
    )


def train_ours(
    study: Study,
    objective: Objective,
    name: str,
    *,
    classes: int = 64,
    checkpoint: str | None = None,
    epochs: int | None = None,
) -> Training:
    """The generator with latent classes."""
    scale = study.scale
    start = torch.Generator().manual_seed(study.seed)
    model = LatentClassDTMGP(classes, scale.codes, scale.width, generator=start).to(study.device)
    settings = Settings(
        epochs=epochs or scale.generator_epochs, learning_rate=scale.generator_rate, warm_up=0.1
    )
    batching = WholeAngles(scale.angles_per_batch)
    return _run(
        model,
        study=study,
        objective=objective,
        batching=batching,
        settings=settings,
        name=name,
        checkpoint=checkpoint,
    )


# -- judging --------------------------------------------------------------------------------------------------
@torch.no_grad()
def draw(model: nn.Module, yaw: Tensor, generator: torch.Generator) -> Tensor:
    """One image (n, pixels) per angle in degrees, in [0, 1]; the noise of pixels is not added."""
    x = (yaw / RIGHT_ANGLE).unsqueeze(1)
    if isinstance(model, LatentClassDTMGP):
        return model.sample(x, generator).clamp(0.0, 1.0)
    law = model(x, noise=model.noise(1, len(x), x, generator))  # type: ignore[operator]
    noise = torch.randn(law.mean.shape, generator=generator, device=x.device)
    return law.draw(noise)[0].clamp(0.0, 1.0)


class Judges:
    """The juries of all angles; made once. They compare with training images of near angles, held as bytes."""

    def __init__(self, study: Study, inspector: Inspector) -> None:
        self.study = study
        self.juries: list[tuple[float, Jury, Tensor, Tensor]] = []
        for angle in study.scale.angles:
            first, where = study.truth(angle, 0)
            second, other = study.truth(angle, 1)
            rows = torch.from_numpy(np.flatnonzero(np.abs(study.training.yaw - angle) < NEAR))
            known = [(255 * study.training.read(part)).round().to(torch.uint8) for part in rows.split(2048)]
            jury = Jury(inspector, first, second, torch.cat(known).to(study.device), where)
            self.juries.append((angle, jury, second, other))

    def floor(self) -> Iterator[Row]:
        """Truth against truth."""
        for angle, jury, second, where in self.juries:
            yield row("truth", 0, angle, jury.judge(second, where, self.study.generator(2)))

    def judge(self, model: nn.Module, name: str, epoch: int) -> Iterator[Row]:
        """One row per angle."""
        for number, (angle, jury, _, where) in enumerate(self.juries):
            images = draw(model, where, self.study.generator(3, number))
            yield row(name, epoch, angle, jury.judge(images, where, self.study.generator(2)))


def row(model: str, epoch: int, angle: float, verdict: Verdict) -> Row:
    """A row of the result table."""
    return {"model": model, "epoch": epoch, "angle": angle, **verdict._asdict()}


def averages(rows: list[Row]) -> list[Row]:
    """Means over angles by model and epoch, in the order of appearance."""
    found: list[Row] = []
    for key in dict.fromkeys((r["model"], r["epoch"]) for r in rows):
        own = [r for r in rows if (r["model"], r["epoch"]) == key]
        means = {k: float(np.mean([float(r[k]) for r in own])) for k in Verdict._fields}  # type: ignore[arg-type]
        found.append({"model": key[0], "epoch": key[1], **means})
    return found


# -- time -----------------------------------------------------------------------------------------------------
def step_times(study: Study, rounds: int = 15, warm: int = 2) -> list[Row]:
    """Seconds of one training step of the paper's models, alternating in one run; one row per step and model."""
    batching = RandomImages(study.scale.batch)
    models = {name: paper_model(name, study) for name in PAPER}
    optimisers = {name: torch.optim.Adam(model.parameters(), lr=1e-3) for name, model in models.items()}
    generator = study.generator(4)
    rows: list[Row] = []
    part = next(batching.batches(study.training, torch.Generator().manual_seed(0), study.device))
    for number in range(rounds + warm):
        for name, model in models.items():
            _wait(study.device)
            begun = time.perf_counter()
            optimisers[name].zero_grad(set_to_none=True)
            bound(model, part, generator, 1.0).value.backward()
            optimisers[name].step()
            _wait(study.device)
            if number >= warm:
                rows.append({"model": name, "step": number - warm, "seconds": time.perf_counter() - begun})
    return rows


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
