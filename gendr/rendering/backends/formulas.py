"""Formulas of rendering in the words of `gendr.kernels.vocabulary`: one text for both compilers.

The place of a point on a triangle, which is at the corners (ax, ay), (bx, by) and (cx, cy) on the
screen. Its barycentric coordinates v there are the parts of the area over their sum. Clamped to
[0, 1] and corrected for perspective they are the weights of the corners.
"""

from __future__ import annotations

from gendr.kernels.vocabulary import Block, fabs, where


def clamped(v: Block) -> Block:
    """The nearest number in [0, 1]; 0 for NaN."""
    return where(v > 0.0, where(v < 1.0, v, 1.0), 0.0)


def area_parts(
    x: Block, y: Block, ax: Block, ay: Block, bx: Block, by: Block, cx: Block, cy: Block
) -> tuple[Block, Block, Block]:
    """Twice the signed areas of the triangles of a point and a side; their sum is the face's."""
    return (
        (cx - bx) * (y - by) - (cy - by) * (x - bx),
        (ax - cx) * (y - cy) - (ay - cy) * (x - cx),
        (bx - ax) * (y - ay) - (by - ay) * (x - ax),
    )


def has_area(
    area: Block, ax: Block, ay: Block, bx: Block, by: Block, cx: Block, cy: Block
) -> Block:
    """Whether twice the area of a face is more than float32 may make of none.

    Rounding moves corners by a part of their coordinates: about 1, or the size of a larger face. A
    face without area has no barycentric coordinates; thirds take their place. The bound is that of
    float32 in float64 too, so that all backends agree on which faces these are.
    """
    span = fabs(bx - ax) + fabs(by - ay) + fabs(cx - ax) + fabs(cy - ay)
    return fabs(area) > span * (1.0 + span) * 1e-6


def area_parts_backward(
    x: Block, y: Block, ax: Block, ay: Block, bx: Block, by: Block, cx: Block, cy: Block,
    g0: Block, g1: Block, g2: Block,
) -> tuple[Block, Block, Block, Block, Block, Block]:  # fmt: skip
    """The gradients of the six coordinates of the corners, from those of `area_parts`."""
    return (
        g1 * (y - cy) + g2 * (by - y),
        g1 * (cx - x) + g2 * (x - bx),
        g2 * (y - ay) + g0 * (cy - y),
        g2 * (ax - x) + g0 * (x - cx),
        g0 * (y - by) + g1 * (ay - y),
        g0 * (bx - x) + g1 * (x - ax),
    )


def corner_weights(
    v0: Block, v1: Block, v2: Block, i0: Block, i1: Block, i2: Block
) -> tuple[Block, Block, Block, Block]:
    """The weights of the corners, and the inverse of their sum before it was divided out.

    The clamped coordinates need not be divided by their sum, which cancels here.

    Args:
        v0: barycentric coordinate on the screen; one of the three is positive.
        v1: the second.
        v2: the third.
        i0: 1 / w of corner 0; w is its depth, or 1 for orthographic cameras.
        i1: of corner 1.
        i2: of corner 2.
    """
    w0, w1, w2 = clamped(v0) * i0, clamped(v1) * i1, clamped(v2) * i2
    inverse = 1.0 / (w0 + w1 + w2)
    return w0 * inverse, w1 * inverse, w2 * inverse, inverse


def corner_weights_backward(
    v0: Block, v1: Block, v2: Block, i0: Block, i1: Block, i2: Block,
    g0: Block, g1: Block, g2: Block,
) -> tuple[Block, Block, Block, Block, Block, Block]:  # fmt: skip
    """The gradients of `area_parts`, times the area, and of i, from those of the weights."""
    w0, w1, w2, inverse = corner_weights(v0, v1, v2, i0, i1, i2)
    mean = g0 * w0 + g1 * w1 + g2 * w2
    g0, g1, g2 = (g0 - mean) * inverse, (g1 - mean) * inverse, (g2 - mean) * inverse
    s0, s1, s2 = clamped(v0), clamped(v1), clamped(v2)
    of_i0, of_i1, of_i2 = g0 * s0, g1 * s1, g2 * s2
    g0 = where((v0 >= 0.0) & (v0 <= 1.0), g0 * i0, 0.0)
    g1 = where((v1 >= 0.0) & (v1 <= 1.0), g1 * i1, 0.0)
    g2 = where((v2 >= 0.0) & (v2 <= 1.0), g2 * i2, 0.0)
    # v is s where g is not 0, and elsewhere it may be infinite.
    mean = g0 * s0 + g1 * s1 + g2 * s2
    return g0 - mean, g1 - mean, g2 - mean, of_i0, of_i1, of_i2
