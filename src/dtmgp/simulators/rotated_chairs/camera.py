"""One fixed pinhole camera for all chairs: above and in front, the chair turning on the spot."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

ELEVATION = np.radians(22.0)
DISTANCE = 4.0  # chair heights from the camera to the middle of the chair
FOCAL = 6.4  # image half-widths at unit distance: a sphere of radius 0.57 around the middle fills the image
LIGHT = np.array([0.45, 0.75, 0.45])  # its direction in camera coordinates (right, down, forward)
LIGHT = LIGHT / np.linalg.norm(LIGHT)
WEIGHTS = np.array([0.38, 0.70, 0.20])  # ambient, main light, fill light from the camera


def views(yaw: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, "n 3 3"], Float[np.ndarray, "n 3"]]:
    """Rotation and shift from chair coordinates to camera coordinates (right, down, forward), yaw in degrees.

    At yaw 0 the camera faces the front of the chair; at 90 it sees the side.

    >>> turns, shifts = views(np.array([0.0]))
    >>> bool((abs(turns[0] @ turns[0].T - np.eye(3)) < 1e-12).all()), shifts[0].tolist()
    (True, [0.0, 0.0, 4.0])
    """
    angle = np.radians(np.asarray(yaw, dtype=np.float64))
    cos, sin, zero = np.cos(angle), np.sin(angle), np.zeros_like(angle)
    turn = np.stack([cos, -sin, zero, sin, cos, zero, zero, zero, zero + 1.0], axis=-1).reshape(-1, 3, 3)
    low, high = np.sin(ELEVATION), np.cos(ELEVATION)
    # the camera looks along (0, cos e, -sin e); down is (0, -sin e, -cos e)
    camera = np.array([[1.0, 0.0, 0.0], [0.0, -low, -high], [0.0, high, -low]])
    return camera @ turn, np.tile([0.0, 0.0, DISTANCE], (len(angle), 1))
