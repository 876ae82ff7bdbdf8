"""Oracle: the arrays that were written, read by h5py itself and rendered again."""

from __future__ import annotations

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

from dtmgp.errors import InputError  # noqa: E402
from dtmgp.images import load_rc49, write_rc49  # noqa: E402
from dtmgp.images.rc49 import held_out, turntable  # noqa: E402
from dtmgp.simulators.rotated_chairs import RotatedChairs, grey  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("rc49") / "chairs.h5"
    write_rc49(target, steps=90)
    return target


def test_the_file_has_the_layout_of_rc49(path):
    with h5py.File(path) as file:
        assert file["images"].shape == (49 * 90, 3, 64, 64)
        assert file["images"].dtype == np.uint8
        assert sorted(set(file) - {"images"}) == ["indx_train", "labels", "types"]
        np.testing.assert_array_equal(np.unique(file["types"][:]), np.arange(49))
        assert file["labels"][:].min() == 0.0
        assert file["labels"][:].max() == 89.0
    assert not list(path.parent.glob(".*.part"))


def test_images_are_read_lazily_in_the_order_asked(path):
    with load_rc49(path) as data:
        rows = np.array([4000, 3, 3, 777])
        expected = grey(RotatedChairs().render(data.labels[rows], data.types[rows]))
        found = data.images(rows)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
        assert len(data) == 49 * 90
        assert repr(data) == "RC49(chairs.h5: 4,410 images of 49 chairs)"
        assert data.images([]).shape == (0, 64, 64)


def test_held_out_angles_are_held_out_and_nothing_else(path):
    with load_rc49(path) as data:
        rows = data.training_rows()
        left = np.setdiff1d(np.arange(len(data)), rows)
        assert sorted(set(data.labels[left])) == list(range(5, 90, 5))
        assert np.bincount(data.types[rows]).tolist() == [90 - 17] * 49
        some = data.training_rows(100, random_state=0)
        assert len(np.unique(some)) == 100
        assert not held_out(data.labels[some]).any()
        np.testing.assert_array_equal(some, data.training_rows(100, random_state=0))
        with pytest.raises(InputError, match="training rows"):
            data.training_rows(10**6)


def test_a_fifth_of_the_paper_s_angles_is_held_out():
    yaw, types = turntable(49, 3600)
    assert len(yaw) == len(types) == 176_400
    assert held_out(yaw).mean() == pytest.approx(17 / 90, abs=1e-12)


def test_grey_files_are_read_too(tmp_path):
    target = tmp_path / "grey.h5"
    with h5py.File(target, "w") as file:
        file["images"] = np.full((3, 1, 64, 64), 51, np.uint8)
        file["labels"], file["types"], file["indx_train"] = [0.0, 5.0, 10.5], [0, 1, 1], [0, 1, 2]
    with load_rc49(target) as data:
        np.testing.assert_allclose(data.images([1]), 0.2, rtol=1e-6)
        assert data.training_rows().tolist() == [0, 2]


def test_missing_broken_and_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no file .*missing\.h5.*CcGAN"):
        load_rc49(tmp_path / "missing.h5")
    broken = tmp_path / "broken.h5"
    broken.write_bytes(b"not HDF5")
    with pytest.raises(InputError, match="expected an HDF5 file"):
        load_rc49(broken)
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["images"] = np.zeros((3, 64, 64), np.uint8)
    with pytest.raises(InputError, match="no labels, types, indx_train"):
        load_rc49(other)


def test_rows_outside_are_refused(path):
    with load_rc49(path) as data, pytest.raises(InputError, match="rows of images"):
        data.images([-1])
