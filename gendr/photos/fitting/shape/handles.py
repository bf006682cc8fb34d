"""Tunnels and handles of a body on a grid that are too narrow to be the object's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import mapped

__all__ = ["euler_number", "without_handles", "without_tunnels"]

Body = npt.NDArray[np.bool_]
# Cells, on each side, by which a body is grown and shrunk to find what is narrow.
_NARROW = 2
# What is larger than so many cells is the object's: thin plates, bars. What is filled may be more,
# for it is never where a photo sees through.
_LARGEST, _LARGEST_FILLED = 250, 1500
_SLABS = 8  # that threads take in turns


def without_tunnels(body: Body, allowed: Body, largest: int = _LARGEST_FILLED) -> Body:
    """A body [X, Y, Z] whose short tunnels of less than about five cells are filled.

    Filled is what a closing adds, in parts of some size, where that takes away a tunnel; a groove
    or a corner stays as it is.

    Args:
        body: which cells are inside.
        allowed: which may be.
        largest: the most cells of a part.
    """
    from scipy.ndimage import binary_dilation, binary_erosion

    ball = _ball()
    grown = _in_slabs(lambda part: binary_dilation(part, ball), body)
    closed = _in_slabs(lambda part: binary_erosion(part, ball, border_value=1), grown)
    found = body.copy()
    for box, part in _parts(closed & allowed & ~body, largest):
        if euler_number(found[box] | part) > euler_number(found[box]):
            found[box] |= part
    return found


def without_handles(body: Body) -> Body:
    """A body [X, Y, Z] whose short handles of less than about five cells are cut.

    Cut is what an opening takes away, in parts of up to 250 cells, where that takes away a handle;
    what would fall off the body, or stands out of it, stays.
    """
    from scipy.ndimage import binary_dilation, binary_erosion, label

    ball = _ball()
    shrunk = _in_slabs(lambda part: binary_erosion(part, ball), body)
    opened = _in_slabs(lambda part: binary_dilation(part, ball), shrunk)
    cut = [
        (box, part) for box, part in _parts(body & ~opened, _LARGEST)
        if euler_number(body[box] & ~part) > euler_number(body[box])
    ]  # fmt: skip
    found = body.copy()
    for box, part in cut:
        found[box] &= ~part
    labelled: Any = label(found)
    names = labelled[0]
    # Those that hold together what is apart without them are brought back; then it is one.
    same = np.arange(int(names.max()) + 1)
    for box, part in cut:
        about = np.unique(same[names[box][binary_dilation(part)]])
        about = about[about > 0]
        if len(about) != 1:
            found[box] |= part
            if len(about):
                same[np.isin(same, about)] = about[0]
    return found


def euler_number(body: Body) -> int:
    """Parts less tunnels plus cavities of a body whose cells are joined through their faces."""
    x, y, z = (body[1:] & body[:-1], body[:, 1:] & body[:, :-1], body[..., 1:] & body[..., :-1])
    xy, yz, zx = x[:, 1:] & x[:, :-1], y[..., 1:] & y[..., :-1], z[1:] & z[:-1]
    cubes = xy[..., 1:] & xy[..., :-1]
    count = [int(np.count_nonzero(cells)) for cells in (body, x, y, z, xy, yz, zx, cubes)]
    return count[0] - sum(count[1:4]) + sum(count[4:7]) - count[7]


def _ball() -> Body:
    """The cells not further than `_NARROW` from the middle one."""
    line = np.arange(-_NARROW, _NARROW + 1)
    x, y, z = np.meshgrid(line, line, line, indexing="ij")
    return x**2 + y**2 + z**2 <= _NARROW**2 + 1


def _in_slabs(function: Callable[[Body], Any], body: Body) -> Body:
    """function(body) slab by slab, where it looks no further than `_NARROW` cells."""
    bounds = np.linspace(0, len(body), _SLABS + 1).astype(int)

    def of(i: int) -> Body:
        start, stop = bounds[i], bounds[i + 1]
        low = max(0, start - _NARROW)
        return function(body[low : stop + _NARROW])[start - low : stop - low]

    return np.concatenate(mapped(of, range(_SLABS)))


def _parts(cells: Body, largest: int) -> Iterator[tuple[tuple[slice, ...], Body]]:
    """The small connected parts of some cells: a box with a margin of one, and the cells in it."""
    from scipy.ndimage import find_objects, label

    labelled: Any = label(cells, np.ones((3, 3, 3)))
    names = labelled[0]
    large = np.bincount(names.ravel()) > largest
    for i, box in enumerate(find_objects(names)):
        if not large[i + 1]:
            wide = tuple(slice(max(0, s.start - 1), s.stop + 1) for s in box)
            yield wide, names[wide] == i + 1
