"""Compiled loops of the expansion: the contraction tree of the features and the Kronecker columns of the factor.

Framework-free and cached on disk. Arrays are laid out by ``Layout`` and ``LineColumns``; nothing here knows kernels.
"""

from __future__ import annotations

import numba
import numpy as np

SMALLEST_ROOT = 1e-100  # below this the ratio to the level-1 value is not formed


@numba.njit(cache=True, nogil=True)
def tensor_features(
    values, index, parents, last_dim, last_level, levels, counts, offset, scale, data, columns
):
    """Fill row by row: value(t) = value(parent) * ratio(dim, level), row(t) = offset(t) + local(parent) * count + i.

    values, index (n, d, L); data, columns (n, T). O(n (T + d L)). Rows whose level-1 value underflows take the plain
    product over all coordinates instead of ratios.
    """
    rows, dims, width = values.shape
    count = parents.shape[0]
    # what does not depend on the row, and one row's values without strides: 3 times faster than reading the tables
    slot = np.zeros(count, dtype=np.int64)
    stride = np.ones(count, dtype=np.int64)
    for t in range(1, count):
        slot[t] = last_dim[t] * width + last_level[t] - 1
        stride[t] = counts[last_dim[t], last_level[t]]
    ratio = np.empty(dims * width)
    place = np.empty(dims * width, dtype=np.int64)
    value = np.empty(count)
    local = np.zeros(count, dtype=np.int64)
    for n in range(rows):
        root = scale
        smallest = np.inf
        for j in range(dims):
            first = values[n, j, 0]
            smallest = min(smallest, first)
            root *= first
        value[0] = root
        data[n, 0] = root
        columns[n, 0] = 0
        for j in range(dims):
            for k in range(width):
                place[j * width + k] = index[n, j, k]
        if smallest > SMALLEST_ROOT and root > SMALLEST_ROOT:
            for j in range(dims):
                inverse = 1.0 / values[n, j, 0]
                for k in range(width):
                    ratio[j * width + k] = values[n, j, k] * inverse
            for t in range(1, count):
                parent = parents[t]
                product = value[parent] * ratio[slot[t]]
                position = local[parent] * stride[t] + place[slot[t]]
                value[t] = product
                local[t] = position
                data[n, t] = product
                columns[n, t] = offset[t] + position
        else:
            for t in range(1, count):
                product = scale
                for i in range(dims):
                    product *= values[n, i, levels[t, i] - 1]
                local[t] = local[parents[t]] * stride[t] + place[slot[t]]
                data[n, t] = product
                columns[n, t] = offset[t] + local[t]


@numba.njit(cache=True, nogil=True)
def column_counts(raised_start, raised_dim, raised_level, counts, line_start, entry_start, line_of, nonzeros):
    """Non-zeros of every column of the tensor factor: the product of the one-dimensional numbers."""
    column = 0
    digits = np.zeros(64, dtype=np.int64)
    for t in range(raised_start.shape[0] - 1):
        first = raised_start[t]
        slots = raised_start[t + 1] - first
        digits[:slots] = 0
        while True:
            product = 1
            for r in range(slots):
                j, g = raised_dim[first + r], raised_level[first + r]
                q = line_start[line_of[j], g - 1] + digits[r]
                product *= entry_start[q + 1] - entry_start[q]
            nonzeros[column] = product
            column += 1
            r = slots - 1
            while r >= 0:
                digits[r] += 1
                if digits[r] < counts[raised_dim[first + r], raised_level[first + r]]:
                    break
                digits[r] = 0
                r -= 1
            if r < 0:
                break


@numba.njit(cache=True, nogil=True)
def kronecker_columns(
    raised_start,
    raised_dim,
    raised_level,
    counts,
    offset,
    hash_weights,
    keys,
    key_order,
    line_start,
    entry_start,
    entry_level,
    entry_index,
    entry_ratio,
    line_of,
    root,
    widest,
    data,
    rows,
):
    """Write the columns of ``R^-1`` one after the other, rows increasing: O(1) per non-zero.

    Per multi-index the offsets of all smaller ones in its raised coordinates are looked up once (``box``). Partial
    products over the leading coordinates are kept (``part_*``) and shared by the columns that differ in the trailing
    ones only. Entries of one dimension come by increasing level, so products come in lexicographic order of their
    multi-indices; dealing them out by ``|l|_1`` (a counting sort) gives the required order without comparisons.
    """
    deepest = 0
    highest = 0
    for t in range(raised_start.shape[0] - 1):
        first, stop = raised_start[t], raised_start[t + 1]
        total = 0
        for r in range(first, stop):
            total += raised_level[r]
        deepest = max(deepest, stop - first)
        highest = max(highest, total)
    box = np.empty(1, dtype=np.int64)
    digits = np.zeros(deepest, dtype=np.int64)
    stride = np.zeros(deepest, dtype=np.int64)
    # stage r: products of the entries of the first r raised coordinates
    part_count = np.ones(deepest + 1, dtype=np.int64)
    part_value = np.empty((deepest + 1, widest))
    part_box = np.zeros((deepest + 1, widest), dtype=np.int64)
    part_local = np.zeros((deepest + 1, widest), dtype=np.int64)
    part_total = np.zeros((deepest + 1, widest), dtype=np.int64)
    part_value[0, 0] = root
    place = np.empty(highest + 2, dtype=np.int64)
    position = 0
    for t in range(raised_start.shape[0] - 1):
        first = raised_start[t]
        slots = raised_start[t + 1] - first
        if slots == 0:
            data[position] = root
            rows[position] = 0
            position += 1
            continue
        volume = 1
        total = 0
        for r in range(slots - 1, -1, -1):
            stride[r] = volume
            volume *= raised_level[first + r]
            total += raised_level[first + r]
        if volume > box.shape[0]:
            box = np.empty(volume, dtype=np.int64)
        for cell in range(volume):
            key = np.uint64(0)
            rest = cell
            for r in range(slots):
                key += hash_weights[raised_dim[first + r], rest // stride[r] + 1]
                rest = rest % stride[r]
            box[cell] = offset[key_order[np.searchsorted(keys, key)]]
        digits[:slots] = 0
        last = slots - 1
        last_dim, last_level = raised_dim[first + last], raised_level[first + last]
        last_start = line_start[line_of[last_dim], last_level - 1]
        last_count = counts[last_dim, last_level]
        stage = 0  # the first stage whose coordinate has moved on
        while stage >= 0:
            for r in range(stage, last):
                j, level = raised_dim[first + r], raised_level[first + r]
                q = line_start[line_of[j], level - 1] + digits[r]
                count = 0
                for k in range(part_count[r]):
                    for e in range(entry_start[q], entry_start[q + 1]):
                        g = entry_level[e]
                        part_value[r + 1, count] = part_value[r, k] * entry_ratio[e]
                        part_box[r + 1, count] = part_box[r, k] + (g - 1) * stride[r]
                        part_local[r + 1, count] = part_local[r, k] * counts[j, g] + entry_index[e]
                        part_total[r + 1, count] = part_total[r, k] + g
                        count += 1
                part_count[r + 1] = count
            parts = part_count[last]
            for q in range(last_start, last_start + last_count):
                begin, end = entry_start[q], entry_start[q + 1]
                place[: total + 2] = 0
                for k in range(parts):
                    for e in range(begin, end):
                        place[part_total[last, k] + entry_level[e] + 1] += 1
                place[0] = position
                for s in range(1, total + 2):
                    place[s] += place[s - 1]
                for k in range(parts):
                    value, cell, local = part_value[last, k], part_box[last, k] - 1, part_local[last, k]
                    level_total = part_total[last, k]
                    for e in range(begin, end):
                        g = entry_level[e]
                        at = place[level_total + g]
                        place[level_total + g] = at + 1
                        data[at] = value * entry_ratio[e]
                        rows[at] = box[cell + g] + local * counts[last_dim, g] + entry_index[e]
                position += parts * (end - begin)
            stage = last - 1
            while stage >= 0:
                digits[stage] += 1
                if digits[stage] < counts[raised_dim[first + stage], raised_level[first + stage]]:
                    break
                digits[stage] = 0
                stage -= 1
