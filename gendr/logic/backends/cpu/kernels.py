"""The compiled kernels of layers of gates.

Plain loops, compiled by Numba at first use and cached on disk. The batch is the last dimension of
all arrays, so that the innermost loops run over neighbours in memory, in vectors. A kernel works on
a range of units, gates or features, to which no other thread writes, and the order of sums does not
depend on the range: any number of threads gives the same bits. Arithmetic is in the dtype of the
features.

For two inputs, a step reads four rows of the batch per wire and writes one per feature: the bytes
that it moves are what it costs. The backward pass goes by features, not by gates. It walks the
readers of each, so that no two threads add to one row, and the thread that owns the first input of
a gate finds the gradient of its table on the way, from rows that it has in hand.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.prefetch import prefetch_row

# Sums over the batch are taken in vectors, and products may be fused with them.
_OPTIONS = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
# Rows of the batch that a gate of many inputs works on at a time: 2^6 vectors of them stay in the
# nearest cache.
LANES = 32
# The rows of a reader are fetched so many readers before its turn: they lie anywhere in memory,
# and the processor waited for them.
AHEAD = 4


@kernel(**_OPTIONS)
def pairs(x, wires, tables, y, start, stop):
    """Outputs of gates of two inputs: y[j] for the gates of a range."""
    batch = x.shape[1]
    for j in range(start, stop):
        t00, t01, t10, t11 = tables[j, 0], tables[j, 1], tables[j, 2], tables[j, 3]
        one, ca, cb, cab = t00, t10 - t00, t01 - t00, (t11 - t10) - (t01 - t00)
        a, b, out = x[wires[0, j]], x[wires[1, j]], y[j]
        for i in range(batch):
            out[i] = (one + ca * a[i]) + (cb + cab * a[i]) * b[i]


@inner(**_OPTIONS)
def _store_table(grad_tables, k, s0, sa, sb, sab):
    """The gradient of a table from the sums of the output's gradient g, g a, g b and g a b."""
    grad_tables[k, 0] = (s0 - sa) - (sb - sab)
    grad_tables[k, 1] = sb - sab
    grad_tables[k, 2] = sa - sab
    grad_tables[k, 3] = sab


@kernel(**_OPTIONS)
def pairs_back(x, wires, tables, offsets, readers, slots, grad, grad_x, grad_tables, start, stop):
    """Gradients of a range of features, and of the tables whose first input they are."""
    batch = x.shape[1]
    zero = x.dtype.type(0)
    last = offsets[stop]
    for f in range(start, stop):
        row, own = grad_x[f], x[f]
        for i in range(batch):
            row[i] = zero
        for e in range(offsets[f], offsets[f + 1]):
            if e + AHEAD < last:
                k = readers[e + AHEAD]
                prefetch_row(grad, k)
                prefetch_row(x, wires[1 - slots[e + AHEAD], k])
            k, slot = readers[e], slots[e]
            t00, t01, t10, t11 = tables[k, 0], tables[k, 1], tables[k, 2], tables[k, 3]
            both = (t11 - t10) - (t01 - t00)
            g, other = grad[k], x[wires[1 - slot, k]]
            if slot == 1:
                one = t01 - t00
                for i in range(batch):
                    row[i] += g[i] * (one + both * other[i])
            else:
                one = t10 - t00
                s0, sa, sb, sab = zero, zero, zero, zero
                for i in range(batch):
                    go = g[i] * other[i]
                    row[i] += one * g[i] + both * go
                    s0 += g[i]
                    sa += g[i] * own[i]
                    sb += go
                    sab += go * own[i]
                _store_table(grad_tables, k, s0, sa, sb, sab)


@kernel(**_OPTIONS)
def many(x, wires, tables, y, start, stop):
    """Outputs of gates of any number of inputs, for a range of gates.

    The table is folded: each input halves it, from the outputs at corners to those on edges, faces
    and so on.
    """
    fan_in, batch = wires.shape[0], x.shape[1]
    fold = np.empty((1 << fan_in, LANES), x.dtype)
    for j in range(start, stop):
        for first in range(0, batch, LANES):
            count = min(LANES, batch - first)
            _fold_corners(x[wires[0, j], first : first + count], tables[j], fold)
            half = 1 << (fan_in - 1)
            for s in range(1, fan_in):
                half >>= 1
                values = x[wires[s, j], first : first + count]
                for c in range(half):
                    for i in range(count):
                        fold[c, i] += (fold[c + half, i] - fold[c, i]) * values[i]
            for i in range(count):
                y[j, first + i] = fold[0, i]


@inner(**_OPTIONS)
def _fold_corners(values, table, fold):
    """The first input halves the table, whose entries are single numbers."""
    half = len(table) >> 1
    for c in range(half):
        low, slope = table[c], table[c + half] - table[c]
        for i in range(len(values)):
            fold[c, i] = low + slope * values[i]


@kernel(**_OPTIONS)
def many_back(x, wires, tables, grad, grad_wires, grad_tables, start, stop):
    """Gradients of the tables and of each input of each gate [k, N, B], for a range of gates.

    The folds of the forward pass are made again, all kept, and undone from the last to the first.
    """
    fan_in, batch = wires.shape[0], x.shape[1]
    corners = 1 << fan_in
    zero = x.dtype.type(0)
    # After s inputs the fold has 2^(k - s) rows, which start at row 2^(k - s) of `folds`.
    folds = np.empty((corners, LANES), x.dtype)
    slopes = np.empty((corners, LANES), x.dtype)
    for j in range(start, stop):
        for c in range(corners):
            grad_tables[j, c] = zero
        for first in range(0, batch, LANES):
            count = min(LANES, batch - first)
            half = corners >> 1
            _fold_corners(x[wires[0, j], first : first + count], tables[j], folds[half:])
            for s in range(1, fan_in):
                values = x[wires[s, j], first : first + count]
                rows, half = half, half >> 1
                for c in range(half):
                    low, high, out = folds[rows + c], folds[rows + c + half], folds[half + c]
                    for i in range(count):
                        out[i] = low[i] + (high[i] - low[i]) * values[i]
            for i in range(count):
                slopes[1, i] = grad[j, first + i]
            half = 1
            for s in range(fan_in - 1, 0, -1):
                values = x[wires[s, j], first : first + count]
                out = grad_wires[s, j, first : first + count]
                rows = 2 * half
                for i in range(count):
                    out[i] = zero
                for c in range(half):
                    low, high, above = folds[rows + c], folds[rows + c + half], slopes[half + c]
                    down, up = slopes[rows + c], slopes[rows + c + half]
                    for i in range(count):
                        out[i] += above[i] * (high[i] - low[i])
                        up[i] = above[i] * values[i]
                        down[i] = above[i] - up[i]
                half = rows
            values = x[wires[0, j], first : first + count]
            out = grad_wires[0, j, first : first + count]
            for i in range(count):
                out[i] = zero
            for c in range(half):
                difference, above = tables[j, c + half] - tables[j, c], slopes[half + c]
                whole, upper = zero, zero
                for i in range(count):
                    out[i] += above[i] * difference
                    whole += above[i]
                    upper += above[i] * values[i]
                grad_tables[j, c] += whole - upper
                grad_tables[j, c + half] += upper


@kernel(**_OPTIONS)
def gather(offsets, readers, slots, grad_wires, grad_x, start, stop):
    """Add up, for a range of features, the gradients of the inputs that read them."""
    batch = grad_x.shape[1]
    zero = grad_x.dtype.type(0)
    for f in range(start, stop):
        row = grad_x[f]
        for i in range(batch):
            row[i] = zero
        for e in range(offsets[f], offsets[f + 1]):
            grad_row = grad_wires[slots[e], readers[e]]
            for i in range(batch):
                row[i] += grad_row[i]
