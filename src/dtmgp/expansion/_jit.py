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
    rows, dims, _ = values.shape
    count = parents.shape[0]
    ratio = np.empty(values.shape[1:])
    for n in range(rows):
        root = scale
        smallest = np.inf
        for j in range(dims):
            first = values[n, j, 0]
            smallest = min(smallest, first)
            root *= first
        columns[n, 0] = 0
        if smallest > SMALLEST_ROOT and root > SMALLEST_ROOT:
            for j in range(dims):
                inverse = 1.0 / values[n, j, 0]
                for k in range(1, values.shape[2]):
                    ratio[j, k] = values[n, j, k] * inverse
            data[n, 0] = root
            for t in range(1, count):
                parent, j, k = parents[t], last_dim[t], last_level[t] - 1
                data[n, t] = data[n, parent] * ratio[j, k]
                local = columns[n, parent] - offset[parent]
                columns[n, t] = offset[t] + local * counts[j, k + 1] + index[n, j, k]
        else:
            data[n, 0] = root
            for t in range(1, count):
                parent, j, k = parents[t], last_dim[t], last_level[t] - 1
                product = scale
                for i in range(dims):
                    product *= values[n, i, levels[t, i] - 1]
                data[n, t] = product
                local = columns[n, parent] - offset[parent]
                columns[n, t] = offset[t] + local * counts[j, k + 1] + index[n, j, k]


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
    data,
    rows,
):
    """Write the columns of ``R^-1`` one after the other: O(1) per non-zero.

    Per multi-index the offsets of all smaller ones in its raised coordinates are looked up once (``box``); every
    entry of a column is then one multiplication and one Horner step away from the previous one.
    """
    box = np.empty(1, dtype=np.int64)
    digits = np.zeros(64, dtype=np.int64)
    entry = np.zeros(64, dtype=np.int64)
    begin = np.zeros(64, dtype=np.int64)
    end = np.zeros(64, dtype=np.int64)
    stride = np.zeros(64, dtype=np.int64)
    part_value = np.empty(65)
    part_box = np.zeros(65, dtype=np.int64)
    part_local = np.zeros(65, dtype=np.int64)
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
        for r in range(slots - 1, -1, -1):
            stride[r] = volume
            volume *= raised_level[first + r]
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
        part_value[0] = root
        while True:
            for r in range(slots):
                j, g = raised_dim[first + r], raised_level[first + r]
                q = line_start[line_of[j], g - 1] + digits[r]
                begin[r] = entry_start[q]
                end[r] = entry_start[q + 1]
            # depth-first over the product of the entry lists; the last coordinate is the inner loop
            depth = 0
            entry[0] = begin[0]
            last = slots - 1
            last_dim = raised_dim[first + last]
            while depth >= 0:
                if depth == last:
                    value, cell, local = part_value[depth], part_box[depth], part_local[depth]
                    for e in range(begin[last], end[last]):
                        g = entry_level[e]
                        data[position] = value * entry_ratio[e]
                        rows[position] = box[cell + g - 1] + local * counts[last_dim, g] + entry_index[e]
                        position += 1
                    depth -= 1
                    continue
                e = entry[depth]
                if e == end[depth]:
                    depth -= 1
                    continue
                entry[depth] = e + 1
                g = entry_level[e]
                part_value[depth + 1] = part_value[depth] * entry_ratio[e]
                part_box[depth + 1] = part_box[depth] + (g - 1) * stride[depth]
                part_local[depth + 1] = (
                    part_local[depth] * counts[raised_dim[first + depth], g] + entry_index[e]
                )
                depth += 1
                entry[depth] = begin[depth]
            r = slots - 1
            while r >= 0:
                digits[r] += 1
                if digits[r] < counts[raised_dim[first + r], raised_level[first + r]]:
                    break
                digits[r] = 0
                r -= 1
            if r < 0:
                break
