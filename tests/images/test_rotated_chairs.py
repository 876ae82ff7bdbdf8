"""Oracle: a ray caster that intersects every ray with every solid, plane by plane, from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.errors import InputError
from dtmgp.simulators import RotatedChairs
from dtmgp.simulators.rotated_chairs import _jit, camera, grey
from dtmgp.simulators.rotated_chairs.designs import ARMS, BACKS, CHAIRS, chair, tablet, tub
from dtmgp.simulators.rotated_chairs.simulator import Model
from dtmgp.simulators.rotated_chairs.solids import bar, box, disc


def cast(model: Model, yaw: float, size: int, fine: int) -> np.ndarray:
    """The image (3, size, size), before rounding, of rays through the middles of the samples."""
    turns, shifts = camera.views(np.array([yaw]))
    turn, shift = turns[0], shifts[0]
    eye = -turn.T @ shift
    wide = size * fine
    middle = (2 * np.arange(wide) + 1 - wide) / wide / camera.FOCAL
    v, u = np.meshgrid(middle, middle, indexing="ij")
    rays = np.stack([u, v, np.ones_like(u)], axis=-1) @ turn  # in chair coordinates
    nearest = np.full(u.shape, np.inf)
    colour = np.ones((*u.shape, 3))
    for part in range(len(model.plane_start) - 1):
        planes = model.planes[model.plane_start[part] : model.plane_start[part + 1]]
        enter, leave = np.zeros(u.shape), np.full(u.shape, np.inf)
        normal = np.zeros((*u.shape, 3))
        for *n, d in planes:
            speed, gap = rays @ n, d - np.dot(n, eye)
            with np.errstate(divide="ignore", invalid="ignore"):
                t = gap / speed
            inwards = (speed < 0) & (t > enter)
            enter = np.where(inwards, t, enter)
            normal = np.where(inwards[..., None], n, normal)
            leave = np.where(speed > 0, np.minimum(leave, t), leave)
            leave = np.where((speed == 0) & (gap < 0), -np.inf, leave)
        hit = (enter < leave) & (enter > 0) & (enter < nearest)
        seen = normal @ turn.T
        bright = (
            camera.WEIGHTS[0]
            + camera.WEIGHTS[1] * np.maximum(0, -(seen @ camera.LIGHT))
            + camera.WEIGHTS[2] * np.maximum(0, -seen[..., 2])
        )
        lit = np.minimum(1.0, bright[..., None] * model.albedo[part])
        nearest, colour = np.where(hit, enter, nearest), np.where(hit[..., None], lit, colour)
    return 255 * colour.reshape(size, fine, size, fine, 3).mean((1, 3)).transpose(2, 0, 1)


@pytest.mark.parametrize("number", [3, 10, 22, 32, 40, 48])
@pytest.mark.parametrize("yaw", [0.0, 33.7, 90.0])
def test_images_are_those_of_a_ray_caster(number, yaw):
    model = Model.of(chair(number))
    turns, shifts = camera.views(np.array([yaw]))
    out = np.zeros((1, 3, 24, 24), np.uint8)
    _jit.render(*model, turns, shifts, camera.FOCAL, 24, 2, camera.LIGHT, camera.WEIGHTS, out)
    off = np.abs(out[0] - cast(model, yaw, 24, 2))
    # rounding to 1/255 of a pixel; samples whose ray grazes an edge may fall to either side
    assert np.mean(off > 0.51) < 0.005
    assert np.mean(out < 250) > 0.05  # there is a chair


def test_solids_hold_their_corners():
    for solid in [s for number in range(CHAIRS) for s in chair(number)]:
        inside = solid.corners @ solid.planes[:, :3].T - solid.planes[:, 3]
        assert inside.max() < 1e-9  # convex: every corner on the inner side of every face
        assert (np.abs(inside) < 1e-9).sum(0).min() >= 3  # tight: each plane carries a face
        np.testing.assert_allclose(np.linalg.norm(solid.planes[:, :3], axis=1), 1.0, atol=1e-12)


def test_moved_solids_keep_their_corners():
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for solid in (box((0, 0, 0), (1, 2, 3), (1, 1, 1)), disc((0, 0), (1, 2), (0, 1), (1, 1, 1)),
                  bar((0, 0, 0), (1, 1, 1), (0.1, 0.2), (1, 1, 1), 0.5, 6)):  # fmt: skip
        there = solid.moved(turn, (1.0, 2.0, 3.0))
        inside = there.corners @ there.planes[:, :3].T - there.planes[:, 3]
        assert abs(inside.max()) < 1e-12


def test_the_paper_s_numbers():
    assert CHAIRS == RotatedChairs().chairs == 49
    assert RotatedChairs().bounds.tolist() == [[0.0, 90.0]]


def test_symmetric_and_asymmetric_chairs_exist():
    kinds = {
        number: BACKS[number % 7] is not tub and ARMS[(number // 7 + 2 * (number % 7)) % 7] is tablet
        for number in range(CHAIRS)
    }
    outline = (RotatedChairs().render(np.zeros(49), np.arange(49)) < 250).any(1)
    difference = (outline != outline[:, :, ::-1]).mean((1, 2))
    # five-footed bases and discs of even sides are symmetric too: all chairs but those with a writing board are
    for number, lopsided in kinds.items():
        assert (difference[number] > 0.01) == lopsided, number
    assert 0 < sum(kinds.values()) < CHAIRS


def test_pixels_covered_vary_with_yaw():
    images = RotatedChairs().render(np.tile([0.0, 45.0, 90.0], 49), np.repeat(np.arange(49), 3))
    covered = (images < 250).any(1).mean((1, 2)).reshape(49, 3)
    assert (covered.std(1) / covered.mean(1)).mean() > 0.05
    assert covered.min() > 0.05
    assert covered.max() < 0.6
    border = np.concatenate(
        [images[..., 0, :], images[..., -1, :], images[..., :, 0], images[..., :, -1]], axis=-1
    )
    assert (border == 255).all()  # nothing is cut off


def test_chairs_are_apart():
    """No two chairs look alike: the nearest two differ by more than five degrees of turning."""
    simulator = RotatedChairs()
    still = grey(simulator.render(np.full(49, 45.0), np.arange(49))).reshape(49, -1)
    turned = grey(simulator.render(np.full(49, 50.0), np.arange(49))).reshape(49, -1)
    apart = np.linalg.norm(still[:, None] - still[None], axis=-1) + 1e9 * np.eye(49)
    assert apart.min() > np.linalg.norm(still - turned, axis=1).mean()


def test_sample_draws_chairs_alike_and_row_by_row():
    simulator = RotatedChairs()
    draws = simulator.sample([[10.0], [60.0]], n_replicates=5, random_state=3)
    assert draws.dtype == np.float32
    assert draws.shape == (2, 5, 64, 64)
    assert 0.0 <= draws.min() < draws.max() == 1.0
    np.testing.assert_array_equal(draws[:1], simulator.sample([[10.0]], n_replicates=5, random_state=3))
    many = simulator.sample([[45.0]], n_replicates=980, random_state=0)[0].reshape(980, -1)
    known = grey(simulator.render(np.full(49, 45.0), np.arange(49))).reshape(49, -1)
    nearest = np.linalg.norm(many[:, None, ::16] - known[None, :, ::16], axis=-1).argmin(1)
    counts = np.bincount(nearest, minlength=49)
    # chi-square of 49 cells, 20 expected: above 94 with probability 1e-4 (fixed seed)
    assert ((counts - 20) ** 2 / 20).sum() < 94


def test_grey_is_the_luminance():
    colours = np.zeros((1, 3, 1, 2), np.uint8)
    colours[0, :, 0, 0] = 200, 100, 50
    assert grey(colours)[0, 0, 0] == pytest.approx((0.299 * 200 + 0.587 * 100 + 0.114 * 50) / 255, abs=1e-6)
    assert grey(colours[:, :1])[0, 0, 0] == np.float32(200) / np.float32(255)


@pytest.mark.parametrize("bad", [49, -1, 1.5])
def test_unknown_chairs_are_refused(bad):
    with pytest.raises(InputError, match="chair"):
        RotatedChairs().render([0.0], [bad])


def test_angles_outside_are_refused_by_sample_only():
    with pytest.raises(InputError, match="yaw"):
        RotatedChairs().sample([[91.0]])
    assert RotatedChairs().render([-30.0, 270.0], [0, 0]).shape == (2, 3, 64, 64)
