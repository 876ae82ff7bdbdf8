"""Convex solids that chairs are made of: a list of outward planes and the corners between them.

Axes: x to the right, y to the back, z up, as the sitter sees them; lengths in metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Point = Sequence[float] | np.ndarray
Colour = tuple[float, float, float]
# corners of a hexahedron: bit 0 is x, bit 1 is y, bit 2 is z
HEXAHEDRON = ((0, 2, 6, 4), (1, 3, 7, 5), (0, 1, 5, 4), (2, 3, 7, 6), (0, 1, 3, 2), (4, 5, 7, 6))


class Solid(NamedTuple):
    """``planes`` (P, 4): ``n . x <= d`` with unit outward normals; ``corners`` (V, 3); ``colour`` RGB in [0, 1]."""

    planes: Float[np.ndarray, "P 4"]
    corners: Float[np.ndarray, "V 3"]
    colour: Colour

    def moved(self, rotation: Float[np.ndarray, "3 3"], shift: Point) -> Solid:
        """The solid after ``x -> rotation x + shift``, rotation orthogonal."""
        normals = self.planes[:, :3] @ rotation.T
        offsets = self.planes[:, 3] + normals @ np.asarray(shift, dtype=float)
        return Solid(
            np.column_stack([normals, offsets]), self.corners @ rotation.T + np.asarray(shift), self.colour
        )


def hull(corners: Float[np.ndarray, "V 3"], faces: Sequence[Sequence[int]], colour: Colour) -> Solid:
    """The solid with these plane faces; the order of a face's corners does not matter for the side."""
    centre = corners.mean(0)
    planes = []
    for face in faces:
        first, second, third = corners[list(face[:3])]
        normal = np.cross(second - first, third - first)
        normal /= np.linalg.norm(normal)
        offset = normal @ first
        if normal @ centre > offset:
            normal, offset = -normal, -offset
        planes.append([*normal, offset])
    return Solid(np.array(planes), corners, colour)


def box(low: Point, high: Point, colour: Colour) -> Solid:
    """An upright box.

    >>> box((0, 0, 0), (1, 2, 3), (0.5, 0.5, 0.5)).planes[1]
    array([1., 0., 0., 1.])
    """
    ends = np.array([low, high], dtype=float)
    corners = np.array([[ends[i & 1, 0], ends[i >> 1 & 1, 1], ends[i >> 2, 2]] for i in range(8)])
    return hull(corners, HEXAHEDRON, colour)


def slab(bottom: Float[np.ndarray, "4 2"], top: Float[np.ndarray, "4 2"], z: Point, colour: Colour) -> Solid:
    """Between two rectangles or trapezia with parallel sides, corners in the order of `box`, at two heights."""
    corners = np.concatenate(
        [np.column_stack([np.asarray(part, dtype=float), np.full(4, h)]) for part, h in zip((bottom, top), z)]
    )
    return hull(corners, HEXAHEDRON, colour)


def cushion(low: Point, high: Point, bevel: float, colour: Colour) -> list[Solid]:
    """A box whose upper edges are bevelled."""
    (x0, y0, _), (x1, y1, z1) = low, high
    outer = np.array([[x0, y0], [x1, y0], [x0, y1], [x1, y1]])
    inner = outer + bevel * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    middle = z1 - 0.8 * bevel
    return [box(low, (x1, y1, middle), colour), slab(outer, inner, (middle, z1), colour)]


def bar(start: Point, end: Point, size: Point, colour: Colour, taper: float = 1.0, sides: int = 4) -> Solid:
    """A bar from one point to another: ``size`` its two half widths, ``taper`` their factor at the end."""
    first, last = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    axis = (last - first) / np.linalg.norm(last - first)
    across = np.cross([0.0, 1.0, 0.0] if abs(axis[1]) < 0.9 else [0.0, 0.0, 1.0], axis)
    across /= np.linalg.norm(across)
    frame = np.stack([across, np.cross(axis, across)])
    turn = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    ring = np.column_stack([np.cos(turn), np.sin(turn)]) / np.cos(np.pi / sides) * np.asarray(size)
    corners = np.concatenate([first + ring @ frame, last + taper * ring @ frame])
    return hull(corners, _prism_faces(sides), colour)


def disc(centre: Point, radius: Point, z: Point, colour: Colour, sides: int = 16) -> Solid:
    """An upright prism over a regular polygon, ``radius`` below and above."""
    turn = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    ring = np.column_stack([np.cos(turn), np.sin(turn)])
    corners = np.concatenate(
        [
            np.column_stack([r * ring + np.asarray(centre, dtype=float), np.full(sides, h)])
            for r, h in zip(radius, z)
        ]
    )
    return hull(corners, _prism_faces(sides), colour)


def _prism_faces(sides: int) -> list[list[int]]:
    around = [[k, (k + 1) % sides, (k + 1) % sides + sides, k + sides] for k in range(sides)]
    return [list(range(sides)), list(range(sides, 2 * sides)), *around]


def arc_wall(
    centre: Point, radii: Point, turn: Point, foot: float, tops: Sequence[float], colour: Colour
) -> list[Solid]:
    """A wall along part of an ellipse: ``radii`` of its middle line, ``turn`` two angles from +x; 4 cm thick.

    It is one piece shorter than ``tops``, the heights at the ends of the pieces.
    """
    angles = np.linspace(turn[0], turn[1], len(tops))
    around = np.column_stack([np.cos(angles), np.sin(angles)])
    inside, outside = (np.asarray(centre) + around * (np.asarray(radii) + part) for part in (-0.02, 0.02))
    found = []
    for k in range(len(tops) - 1):
        plan = np.array([inside[k], outside[k], inside[k + 1], outside[k + 1]])
        ends = 0.5 * (plan[:2].sum(0)), 0.5 * (plan[2:].sum(0))
        chord = ends[1] - ends[0]
        roof = tops[k] + (tops[k + 1] - tops[k]) * ((plan - ends[0]) @ chord) / (chord @ chord)  # one plane
        corners = np.concatenate([np.column_stack([plan, np.full(4, foot)]), np.column_stack([plan, roof])])
        found.append(hull(corners, HEXAHEDRON, colour))
    return found
