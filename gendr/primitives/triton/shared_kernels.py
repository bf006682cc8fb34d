"""What the kernels of the primitives share: corners of triangles, and how they are searched.

Coordinates are float64 blocks.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.functions import compiled
from gendr.primitives import formulas

cross, of_product = compiled(formulas.cross), compiled(formulas.of_product)


@triton.jit
def corner(pos, vertex, on):
    """The x, y, z, w of vertices; those of no vertex are 0."""
    at = pos + vertex.to(tl.int64) * 4
    x, y = tl.load(at, on, 0.0), tl.load(at + 1, on, 0.0)
    z, w = tl.load(at + 2, on, 0.0), tl.load(at + 3, on, 0.0)
    return x.to(tl.float64), y.to(tl.float64), z.to(tl.float64), w.to(tl.float64)


@triton.jit
def vertices_of(tri, t, on):
    """The three vertices of triangles."""
    at = tri + t.to(tl.int64) * 3
    return tl.load(at, on, 0), tl.load(at + 1, on, 0), tl.load(at + 2, on, 0)


@triton.jit
def corners_of(pos, tri, t, base, on):
    """The three corners of triangles."""
    va, vb, vc = vertices_of(tri, t, on)
    return corner(pos, base + va, on), corner(pos, base + vb, on), corner(pos, base + vc, on)


@triton.jit
def centre(i, n):
    """The coordinate in NDC of the centres of pixels i of n."""
    return (2 * i + 1 - n).to(tl.float64) / n.to(tl.float64)


@triton.jit
def place_among(ends, count, x):
    """The first of `count` rising ends that is above x, for a block of x below the last."""
    low, high = tl.zeros_like(x), tl.zeros_like(x) + count
    left = count
    while left > 0:
        searching, middle = low < high, (low + high) // 2
        beyond = searching & (tl.load(ends + middle, searching, 0) <= x)
        high = tl.where(searching & ~beyond, middle, high)
        low = tl.where(beyond, middle + 1, low)
        left //= 2
    return low


@triton.jit
def fours(a, b, c, d):
    """Rows of four numbers, for one store: [.., 4]."""
    pairs = tl.join(tl.join(a, c), tl.join(b, d))
    return tl.reshape(pairs, [a.shape[0], 4])
