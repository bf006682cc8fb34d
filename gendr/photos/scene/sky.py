"""Sky: plain parts of photos in which stereo finds nothing.

Its patches beside a roof match by the roof that is in them, so that a fringe of sky gets the depth
of the roof (foreground fattening: Hirschmüller & Scharstein, Evaluation of Stereo Matching Costs on
Images with Radiometric Differences, PAMI 2009, section 4). Depths there are no surface.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.photos.scene.model import Scene

__all__ = ["above_all", "above_horizon", "find_plain", "find_sky"]

Array = npt.NDArray[Any]

# The largest difference of grey values, 0 to 255, within a square of so many pixels that is plain.
_PLAIN, _SQUARE = 14, 5
# How far into a plain part patches reach that show what is beside it, in pixels, and the largest
# share of what lies further inside that stereo may have found.
_REACH, _FOUND = 6, 0.03
# The least share of the photo.
_LEAST = 0.003
# How far below the horizon sky may be, a tangent, as it is only known about.
_LEVEL = 0.1


def find_plain(image: Array) -> Array:
    """Where a photo has no pattern, bool [H, W], of uint8 [H, W, 3]."""
    from scipy import ndimage

    grey = ndimage.gaussian_filter(image.mean(2, dtype=np.float32), 1)
    most, least = (f(grey, _SQUARE) for f in (ndimage.maximum_filter, ndimage.minimum_filter))
    return most - least < _PLAIN


def find_sky(even: Array, found: Array) -> Array:
    """Where a photo shows no surface: bool [H, W].

    A wall without a pattern is the same to stereo; it loses the fringe by which it was found.

    Args:
        even: bool [H, W], where the photo has no pattern.
        found: bool [H, W], where stereo found something.
    """
    from scipy import ndimage

    labelled: Any = ndimage.label(even)
    parts = labelled[0]
    inner = np.where(ndimage.minimum_filter(even, 2 * _REACH + 1), parts, 0)
    size, within, matched = (
        np.bincount(each.ravel(), minlength=int(parts.max()) + 1)
        for each in (parts, inner, inner[found])
    )
    good = (size >= _LEAST * even.size) & (within > 0) & (matched <= _FOUND * within)
    good[0] = False
    # Up to the pixel beside an edge.
    return ndimage.maximum_filter(good[parts], _SQUARE)


def above_horizon(scene: Scene, i: int, up: Array) -> Array:
    """Where a photo looks upwards or hardly down, bool [H, W]: all that may be sky.

    From above a bright roof at the upper edge of a photo, or snow, looks like sky.

    Args:
        scene: the photos.
        i: the photo.
        up: [3], what is up in the scene, about.
    """
    height, width = scene.images[i].shape[:2]
    across, down, ahead = np.linalg.inv(scene.K[i]).T @ (scene.R[i] @ up)
    return across * np.arange(width) + (down * np.arange(height) + ahead)[:, None] > -_LEVEL


def above_all(image: Array, sky: Array, quarters: int) -> Array:
    """The parts of `find_sky` that are sky and no wall: bool [H, W].

    They reach the upper edge of the photo and are brighter than what is no part of them.

    Args:
        image: uint8 [H, W, 3].
        sky: bool [H, W].
        quarters: turns to the right that make the photo upright.
    """
    from scipy import ndimage

    labelled: Any = ndimage.label(sky)
    parts = labelled[0]
    upper = np.unique(np.rot90(parts, -quarters)[0])
    found = np.isin(parts, upper[upper > 0])
    if found.any() and not found.all():
        grey = image.mean(2, dtype=np.float32)
        found &= bool(grey[found].mean() > grey[~found].mean())
    else:
        found[:] = False
    return found
