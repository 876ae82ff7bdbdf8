"""Figures of the study of turned chairs, from its tables and samples only; needs pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from dtmgp.errors import InputError
from dtmgp.images.paper import PAPER
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey

SIZE, EDGE = 64, 2


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise InputError(
            "figures of images", got="no pillow", expected="pillow", do="pip install 'dtmgp[images]'"
        ) from None
    return Image, ImageDraw


def tiled(images: UInt8[np.ndarray, "r c h w"]) -> UInt8[np.ndarray, "H W"]:
    """Rows and columns of images as one, with white lines between.

    >>> tiled(np.zeros((2, 3, 64, 64), np.uint8)).shape
    (130, 196)
    """
    rows, columns, high, wide = images.shape
    sheet = np.full((rows * (high + EDGE) - EDGE, columns * (wide + EDGE) - EDGE), 255, np.uint8)
    for r in range(rows):
        for c in range(columns):
            top, left = r * (high + EDGE), c * (wide + EDGE)
            sheet[top : top + high, left : left + wide] = images[r, c]
    return sheet


def contact_sheet(target: Path, yaw: float = 30.0) -> None:
    """All chairs of the renderer at one angle, in colour."""
    image, _ = _pillow()
    found = RotatedChairs().render(np.full(49, yaw), np.arange(49))
    sheet = np.stack([tiled(found[:, c].reshape(7, 7, SIZE, SIZE)) for c in range(3)], axis=-1)
    _save(image.fromarray(sheet), target)


def by_angle(samples: dict[str, np.ndarray], target: Path) -> None:
    """One row per model and epoch, one column per angle; true images above."""
    image, draw = _pillow()
    angles = samples["shown"]
    truth = grey(RotatedChairs().render(angles, (7 * np.arange(len(angles))) % 49))
    rows = [("true", np.rint(255 * truth).astype(np.uint8))]
    for name in PAPER:
        epochs = sorted(int(key.rsplit("_", 1)[1]) for key in samples if key.startswith(f"{name}_"))
        rows += [(f"{name}, epoch {e}", samples[f"{name}_{e}"][:, 0]) for e in epochs]
    for name, words in (("inferred", "ours"), ("given", "ours, chairs given")):
        if f"{name}_figure" in samples:
            rows += [(words, samples[f"{name}_figure"][:, k]) for k in range(2)]
    sheet = tiled(np.stack([images.reshape(-1, SIZE, SIZE) for _, images in rows]))
    left, above = 130, 16
    canvas = image.new("L", (sheet.shape[1] + left, sheet.shape[0] + above), 255)
    canvas.paste(image.fromarray(sheet), (left, above))
    pen = draw.Draw(canvas)
    for number, (words, _) in enumerate(rows):
        pen.text((4, above + number * (SIZE + EDGE) + 26), words, fill=0)
    for number, angle in enumerate(angles):
        pen.text((left + number * (SIZE + EDGE) + 26, 2), f"{angle:g}", fill=0)
    _save(canvas, target)


def sixty(samples: dict[str, np.ndarray], target: Path, name: str = "inferred") -> None:
    """Sixty-four generated images at 60 degrees."""
    image, _ = _pillow()
    _save(image.fromarray(tiled(samples[f"{name}_sixty"].reshape(8, 8, SIZE, SIZE))), target)


def turning(samples: dict[str, np.ndarray], target: Path, name: str = "inferred") -> None:
    """Eight latent classes turning from 0 to 90 degrees and back, as an animation."""
    image, _ = _pillow()
    turns = samples[f"{name}_turns"]
    frames = turns.reshape(2, 4, -1, SIZE, SIZE).transpose(2, 0, 1, 3, 4)[::3]
    pictures = [image.fromarray(tiled(frame)) for frame in [*frames, *frames[-2:0:-1]]]
    part = target.with_name(f".{target.name}.part")
    pictures[0].save(part, format="GIF", save_all=True, append_images=pictures[1:], duration=90, loop=0)
    part.replace(target)


def draw_all(source: Path, target: Path) -> list[Path]:
    """All figures that the samples in a folder allow, into another."""
    with np.load(source / "rc49_samples.npz") as stored:
        samples = dict(stored)
    target.mkdir(parents=True, exist_ok=True)
    written = [target / "rc49_chairs.png", target / "rc49_by_angle.png"]
    contact_sheet(written[0])
    by_angle(samples, written[1])
    if "inferred_sixty" in samples:
        written += [target / "rc49_sixty.png", target / "rc49_turn.gif"]
        sixty(samples, written[2])
        turning(samples, written[3])
    return written


def _save(picture: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    picture.save(part, format="PNG", optimize=True)
    part.replace(target)
