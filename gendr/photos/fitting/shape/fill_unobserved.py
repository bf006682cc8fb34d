"""What no photo sees of a body on a grid: it ends there in a surface of least area.

Lines of sight that go through an opening see all of a hollow but for places in its depth, and from
above nobody sees what is below. The hull would fill the former, and lets the latter bulge. Bodies
of least area within what photos leave open are minima of a convex functional, the total variation
of a function between 0 and 1 (Chan et al. 2006), found by primal and dual steps (Chambolle & Pock
2011), first on a coarse grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import run

__all__ = ["filled_by_least_area"]

Array = npt.NDArray[Any]
Body = npt.NDArray[np.bool_]

# Cells along an axis that make one of the coarse grids, and the steps there.
_FACTORS, _STEPS = (4, 2), (300, 60)
# What photos say counts for so many faces of a cell.
_STRONG = 10.0
# What nobody knows is rather inside: the gain of a volume, as a part of that of the area of what
# is as wide as the object.
_INSIDE = 0.05
# Cells of the coarsest grid below a surface that was found in a hollow, which are inside.
_BELOW = 2
# Less than this nobody has said.
_UNOBSERVED = 0.05
# Cells of the finest over which the function is averaged.
_SMOOTH = 0.7
# The steps' length, both ways: its square times twelve, the norm of slopes, is below 1.
_STEP = np.float32(0.28)


def filled_by_least_area(votes: Array, within: Body) -> Array:
    """A body where photos say nothing, as a function that is more than a half inside.

    First hollows, as if all outside the hull were filled: their surface has least area, but is not
    bought by a hole through what is below. Then the outside.

    Args:
        votes: float32 [X, Y, Z], what photos say: from -1, outside, to 1, inside; 0 for nothing.
        within: [X, Y, Z], which cells are in the hull.

    Returns:
        float32 [X, Y, Z] in [0, 1].
    """
    from scipy.ndimage import gaussian_filter

    hollows: tuple[Array, Array] | None = None
    whole: tuple[Array, Array] | None = None
    for factor, steps in zip(_FACTORS, _STEPS, strict=True):
        said, share = (_means(a.astype(np.float32), factor) for a in (votes, within))
        inside = share >= 0.5
        data = _STRONG * said + np.float32(_INSIDE / _diagonal(inside))
        hollows = _solved(np.where(inside, data, 0), inside, steps, hollows)
        hollow = inside & (hollows[0] <= 0.5) & (np.abs(said) < _UNOBSERVED)
        depth = _BELOW * _FACTORS[0] // factor
        data[_grown(hollow, depth) & inside & (said >= 0)] = _STRONG
        data[hollow] = -_STRONG
        data[~inside] = -_STRONG
        whole = _solved(data, np.ones_like(inside), steps, whole)
    assert whole is not None  # for the type checker
    even: Any = gaussian_filter(whole[0], _SMOOTH)
    return _spread(even, votes.shape, _FACTORS[-1])


def _means(values: Array, factor: int) -> Array:
    """Means over cubes of cells; at the ends the last cell counts for those beyond."""
    shape = [-(-n // factor) for n in values.shape]
    wide = [(0, factor * n - m) for n, m in zip(shape, values.shape, strict=True)]
    cut = np.pad(values, wide, mode="edge").reshape(
        shape[0], factor, shape[1], factor, shape[2], factor
    )
    return cut.mean((1, 3, 5), dtype=np.float32)


def _diagonal(inside: Body) -> float:
    """That of what is inside, in cells."""
    places = np.nonzero(inside)
    return float(np.linalg.norm([np.ptp(p) + 1 for p in places])) if len(places[0]) else 1.0


def _grown(body: Body, cells: int) -> Body:
    from scipy.ndimage import binary_dilation

    grown: Any = binary_dilation(body, np.ones((3, 3, 3)), iterations=cells)
    return grown


def _solved(
    data: Array, domain: Body, steps: int, start: tuple[Array, Array] | None
) -> tuple[Array, Array]:
    """The function, and its dual fields, after some steps, from those of a grid half as fine."""
    from gendr.photos.fitting.shape import fill_unobserved_kernels as kernels

    if start is None:
        body = (data >= 0).astype(np.float32)
        along = np.zeros((3, *data.shape), np.float32)
    else:
        body = _spread(start[0], data.shape, 2)
        along = np.stack([_spread(part, data.shape, 2) for part in start[1]])
    data, ahead, count = data.astype(np.float32), body.copy(), len(data)
    for _ in range(steps):
        run(kernels.steepen, count, ahead, domain, along, _STEP)
        run(kernels.settle, count, body, ahead, data, along, _STEP)
    return body, along


def _spread(values: Array, shape: tuple[int, ...], factor: int) -> Array:
    """Values of a coarse grid at the cells of a fine one, between them linearly."""
    for axis, count in enumerate(shape):
        last = values.shape[axis] - 1
        place = ((np.arange(count) - (factor - 1) / 2) / factor).clip(0, last)
        low = place.astype(np.int64)
        part = (place - low).astype(np.float32)
        part = part.reshape([-1 if i == axis else 1 for i in range(3)])
        below, above = values.take(low, axis), values.take(np.minimum(low + 1, last), axis)
        values = below + part * (above - below)
    return np.ascontiguousarray(values)
