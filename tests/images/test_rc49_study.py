"""Oracle: hand-made tables and pictures; the smallest study, from an HDF5 file, stopped and resumed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.experiments import rc49, rc49_reproduce
from dtmgp.experiments.rc49_figures import draw_all, tiled
from dtmgp.experiments.rc49_train import Output, rendered
from dtmgp.experiments.reproduce import reproduce
from dtmgp.experiments.results import read_csv
from dtmgp.images import load_rc49, write_rc49
from dtmgp.images.judge import Verdict
from dtmgp.images.rc49 import held_out
from dtmgp.images.stream import FileSource

TINY = dataclasses.replace(
    rc49.QUICK, steps=90, images=120, epochs=2, judged=(1, 2), inspector_epochs=1, generator_epochs=1,
    draws=20, angles=(60.0,), classes=8, angles_per_batch=40,
)  # fmt: skip


def test_averages_are_over_angles():
    ones = Verdict(*[1.0] * 6, 1, *[1.0] * 3)
    rows = [
        rc49.row("a", 1, angle, ones._replace(energy=value)) for angle, value in ((5.0, 1.0), (10.0, 3.0))
    ]
    rows.append(rc49.row("a", 2, 5.0, ones))
    found = rc49.averages(rows)
    assert [(r["model"], r["epoch"], r["energy"]) for r in found] == [("a", 1, 2.0), ("a", 2, 1.0)]
    lines = rc49_reproduce.describe(rows)
    assert len(lines) == 3
    assert lines[1].split()[:3] == ["a", "1", "2"]


def test_true_images_lie_in_the_band_and_differ_by_number():
    source = rendered(50, 90, torch.device("cpu"), 0)
    study = rc49.Study(TINY, source, torch.device("cpu"), 0, print)
    images, yaw = study.truth(60.0, 0)
    assert images.shape == (20, 4096)
    assert set(yaw.tolist()) == {60.0}  # steps of a degree have one angle in the band
    again, _ = study.truth(60.0, 0)
    assert torch.equal(images, again)
    assert not torch.equal(images, study.truth(60.0, 1)[0])
    fine = dataclasses.replace(study, scale=dataclasses.replace(TINY, steps=3600, draws=500)).truth(60.0, 0)[
        1
    ]
    assert 59.5 <= float(fine.min()) < 59.6 < 60.4 < float(fine.max()) < 60.5
    assert held_out(fine.numpy()).all()


def test_images_in_memory_are_the_rows_of_the_file(tmp_path):
    write_rc49(tmp_path / "chairs.h5", steps=90)
    memory = rendered(50, 90, torch.device("cpu"), 4)
    with load_rc49(tmp_path / "chairs.h5") as data:
        source = FileSource(data, data.training_rows(50, 4))
        np.testing.assert_array_equal(source.yaw, memory.yaw)
        np.testing.assert_array_equal(source.types, memory.types)
        every = torch.arange(50)
        apart = (source.read(every) - memory.read(every)).abs().max()
        assert float(apart) <= 0.5 / 255 + 1e-6  # grey as bytes in memory


def pictures() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shown = np.arange(10.0, 90.0, 10.0)
    figure = rng.integers(0, 255, (8, 8, 4096), dtype=np.uint8)
    return {
        "shown": shown, "DTMGP_3": figure, "DTMGP_9": figure, "BNN-ReLU_3": figure, "DGP-RFF_3": figure,
        "inferred_figure": figure, "inferred_sixty": figure[0].repeat(8, 0),
        "inferred_turns": rng.integers(0, 255, (8, 21, 4096), dtype=np.uint8),
    }  # fmt: skip


def test_figures_are_drawn_from_samples(tmp_path):
    image = pytest.importorskip("PIL.Image")
    np.savez_compressed(tmp_path / "rc49_samples.npz", **pictures())
    written = draw_all(tmp_path, tmp_path / "figures")
    assert [p.name for p in written] == [
        "rc49_chairs.png",
        "rc49_by_angle.png",
        "rc49_sixty.png",
        "rc49_turn.gif",
    ]
    with image.open(written[1]) as sheet:
        assert sheet.size == (130 + 8 * 66 - 2, 16 + 7 * 66 - 2)  # true, 4 of the paper's, 2 of ours
    with image.open(written[2]) as sheet:
        pixels = np.asarray(sheet)
        np.testing.assert_array_equal(pixels[66:130, :64].ravel(), pictures()["inferred_sixty"][8])
    with image.open(written[3]) as film:
        assert film.n_frames == 7 + 5


def test_tiles_are_where_they_belong():
    images = np.arange(6, dtype=np.uint8).reshape(2, 3, 1, 1)
    assert tiled(images)[0, ::3].tolist() == [0, 1, 2]
    assert tiled(images)[3, ::3].tolist() == [3, 4, 5]


def test_results_of_another_command_are_not_gone_on_with(tmp_path):
    stated = {"command": "one"}
    first = Output(tmp_path, stated)
    first.rows.append(rc49.row("a", 1, 5.0, Verdict(*[1.0] * 6, 1, *[1.0] * 3)))
    first.save(lambda line: None)
    assert Output(tmp_path, stated).has("a", 1)
    assert not Output(tmp_path, {"command": "two"}).has("a", 1)


def test_options_of_other_studies_are_refused(tmp_path):
    with pytest.raises(InputError, match="--figure"):
        reproduce("rc49", tmp_path, figure=tmp_path / "x.png")


@pytest.mark.slow
def test_the_study_runs_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    pytest.importorskip("PIL.Image")
    monkeypatch.setattr(rc49, "QUICK", TINY)
    said: list[str] = []

    def stop(line: str) -> None:
        said.append(line)
        if line.startswith("BNN-ReLU epoch 1/2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce("rc49", tmp_path, command="tiny", say=stop)
    half = read_csv(tmp_path / "rc49_scores.csv").rows
    assert {str(r["model"]) for r in half} >= {"truth", f"{rc49.OURS} (inferred)", "DTMGP"}
    lines = reproduce("rc49", tmp_path, command="tiny", say=lambda line: None)
    rows = read_csv(tmp_path / "rc49_scores.csv").rows
    assert rows[: len(half)] == half
    judged = {(r["model"], r["epoch"]) for r in rows}
    assert {(name, e) for name in ("DTMGP", "BNN-ReLU", "DGP-RFF") for e in (1, 2)} < judged
    assert len(rows) == len(judged) == 1 + 6 + 1
    assert any("rc49_turn.gif" in line for line in lines)
    whole = tmp_path / "whole"
    reproduce("rc49", whole, command="tiny", say=lambda line: None)
    assert read_csv(whole / "rc49_scores.csv").rows == rows  # the same numbers as without the stop
