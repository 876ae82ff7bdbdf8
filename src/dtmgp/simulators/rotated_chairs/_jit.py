"""The compiled rasteriser: convex solids as linear functions of the image plane, one scan line at a time."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def render(
    planes, plane_start, corners, corner_start, albedo, turns, shifts, focal, size, fine, light, weights, out
):
    """Fill ``out`` (n, C, size, size) with one solid set seen under n rotations.

    A plane ``n . p = d`` of camera coordinates p = (u, v, 1) / w is ``w = n . (u, v, 1) / d``: linear in the image. A
    ray is inside a convex solid for w between the largest of these over planes that the camera is inside of (d > 0)
    and the smallest over the others, and meets the solid at the smallest, with the normal of that plane. On a scan
    line every pair of an upper and a lower plane leaves a half line, so that covered samples are found exactly.
    ``albedo`` (parts, C); ``weights`` of ambient, main and fill light; samples are on a grid of fine x fine per pixel.
    """
    wide = size * fine
    step = 2.0 / (wide * focal)
    count = plane_start.shape[0] - 1
    channels = albedo.shape[1]
    depth = np.empty((wide, wide), np.float32)
    which = np.empty((wide, wide), np.int32)
    total = planes.shape[0]
    upper = np.empty((total, 3), np.float64)
    lower = np.empty((total, 3), np.float64)
    number = np.empty(total, np.int64)
    shade = np.empty((total, channels), np.float32)
    for image in range(turns.shape[0]):
        turn, shift = turns[image], shifts[image]
        depth[:] = 0.0
        which[:] = -1
        top, bottom = wide, 0
        for part in range(count):
            low_u, high_u, low_v, high_v = 1e9, -1e9, 1e9, -1e9
            for corner in range(corner_start[part], corner_start[part + 1]):
                x = y = z = 0.0
                for k in range(3):
                    x += turn[0, k] * corners[corner, k]
                    y += turn[1, k] * corners[corner, k]
                    z += turn[2, k] * corners[corner, k]
                z += shift[2]
                u, v = (x + shift[0]) / z, (y + shift[1]) / z
                low_u, high_u, low_v, high_v = min(low_u, u), max(high_u, u), min(low_v, v), max(high_v, v)
            first_row = max(0, int(np.floor(low_v / step + 0.5 * wide - 0.5)))
            last_row = min(wide - 1, int(np.ceil(high_v / step + 0.5 * wide - 0.5)))
            first_col = max(0, int(np.floor(low_u / step + 0.5 * wide - 0.5)))
            last_col = min(wide - 1, int(np.ceil(high_u / step + 0.5 * wide - 0.5)))
            fronts = backs = 0
            for plane in range(plane_start[part], plane_start[part + 1]):
                nx = ny = nz = 0.0
                for k in range(3):
                    nx += turn[0, k] * planes[plane, k]
                    ny += turn[1, k] * planes[plane, k]
                    nz += turn[2, k] * planes[plane, k]
                d = planes[plane, 3] + nx * shift[0] + ny * shift[1] + nz * shift[2]
                if abs(d) < 1e-9:
                    d = 1e-9
                # w = a + b column + c row
                b, c = nx * step / d, ny * step / d
                a = nz / d - (b + c) * 0.5 * (wide - 1)
                if d < 0.0:
                    upper[fronts, 0], upper[fronts, 1], upper[fronts, 2] = a, b, c
                    number[fronts] = plane
                    fronts += 1
                    facing = max(0.0, -(nx * light[0] + ny * light[1] + nz * light[2]))
                    bright = weights[0] + weights[1] * facing + weights[2] * max(0.0, -nz)
                    for channel in range(channels):
                        shade[plane, channel] = min(1.0, albedo[part, channel] * bright)
                else:
                    lower[backs, 0], lower[backs, 1], lower[backs, 2] = a, b, c
                    backs += 1
            top, bottom = min(top, first_row), max(bottom, last_row)
            for row in range(first_row, last_row + 1):
                begin, end = float(first_col), float(last_col)
                for f in range(fronts):
                    for g in range(backs):
                        start = upper[f, 0] - lower[g, 0] + (upper[f, 2] - lower[g, 2]) * row
                        slope = upper[f, 1] - lower[g, 1]
                        if slope > 1e-15:
                            begin = max(begin, -start / slope)
                        elif slope < -1e-15:
                            end = min(end, -start / slope)
                        elif start < 0.0:
                            end = -1.0
                for column in range(int(np.ceil(begin)), int(np.floor(end)) + 1):
                    best, face = 1e30, 0
                    for f in range(fronts):
                        w = upper[f, 0] + upper[f, 2] * row + upper[f, 1] * column
                        if w < best:
                            best, face = w, f
                    if best > depth[row, column]:
                        depth[row, column] = best
                        which[row, column] = number[face]
        scale = 255.0 / (fine * fine)
        for i in range(size):
            if i < top // fine or i > bottom // fine:
                out[image, :, i, :] = 255
                continue
            for j in range(size):
                for channel in range(channels):
                    value = 0.0
                    for a_ in range(fine):
                        for b_ in range(fine):
                            face = which[i * fine + a_, j * fine + b_]
                            value += 1.0 if face < 0 else shade[face, channel]
                    out[image, channel, i, j] = np.uint8(value * scale + 0.5)
