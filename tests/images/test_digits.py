"""Oracle: scikit-learn's digits themselves, and rotation by scipy.ndimage in the middle of the image."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from dtmgp.images.digits import rotated_digits


def test_labels_and_types_are_those_of_the_digits():
    data = rotated_digits(200, random_state=1)
    assert data.images.shape == (200, 16, 16)
    assert 0.0 <= data.images.min() < data.images.max() <= 1.0
    assert 0.0 <= data.labels.min() < 10 < 80 < data.labels.max() < 90.0
    assert set(data.types) == set(range(10))
    np.testing.assert_array_equal(data.images, rotated_digits(200, random_state=1).images)


def test_turning_back_gives_the_digit():
    """The enlarged image at the places of the old pixels, turned by hand, is the old image up to interpolation."""
    from scipy.ndimage import map_coordinates

    source, data = load_digits(), rotated_digits(40, random_state=2)
    rng = np.random.default_rng(2)
    which = rng.integers(len(source.images), size=40)
    rows, columns = np.meshgrid(np.arange(1.0, 7.0), np.arange(1.0, 7.0), indexing="ij")
    errors = np.empty((40, 2))
    for number, way in np.ndindex(40, 2):
        angle = (1 - 2 * way) * np.radians(data.labels[number])
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        place = turn @ np.stack([rows.ravel() - 3.5, columns.ravel() - 3.5]) / 0.625 + 7.5
        back = map_coordinates(data.images[number], place, order=3)
        truth = source.images[which[number], 1:7, 1:7].ravel() / 16
        errors[number, way] = np.abs(back - truth).mean()
    assert errors[:, 0].max() < 0.05  # measured 0.030; clipping at 0 and 1 is in it
    assert np.median(errors[:, 1]) > 0.15  # turned the wrong way
