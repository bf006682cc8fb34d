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

__all__ = [
    "above_all", "above_horizon", "as_bright", "at_upper_edge", "behind_wires", "find_plain",
    "find_sky", "find_smooth", "mean_grey", "open_sky",
]  # fmt: skip

Array = npt.NDArray[Any]

# The largest difference of grey values, 0 to 255, within a square of so many pixels that is plain.
_PLAIN, _SQUARE = 14, 5
# The deviation of grey values from a slope of brightness within a square of so many pixels, about
# those of patches, below which there is no pattern; less contrast is none for stereo.
_SMOOTH, _PATCH = 1.0, 9
# How far red and blue beside green, and green, may be from what they are in most of it, of which
# every so many-th row and column tells: logarithms, of what is not quite black.
_TINT, _SOME = (0.35, 0.35, 0.7), 4
_LOGS = np.log(np.arange(256, dtype=np.float32) + 8)
# How far into a plain part patches reach that show what is beside it, in pixels, and the largest
# share of what lies further inside that stereo may have found.
_REACH, _FOUND = 6, 0.03
# The least share of the photo.
_LEAST = 0.003
# How far smaller parts of the sky are from it at most, in pixels, as a wire and its edges are less
# wide, and by how much their mean colours, 0 to 255, may differ from those of it there.
_WIRE, _ALIKE = 10, 20.0
# How far below the horizon sky may be, a tangent, as it is only known about.
_LEVEL = 0.1
# The least brightness of what may be sky, of its mean.
_BRIGHT = 0.8
# The largest share of a part of the sky that lies further below: a wall goes on to the floor.
_BELOW = 0.1


def mean_grey(image: Array) -> Array:
    """The mean of the channels of uint8 [H, W, 3], float32 [H, W]."""
    red, green, blue = np.moveaxis(image, -1, 0)
    return (red.astype(np.float32) + green + blue) / np.float32(3)


def find_plain(image: Array) -> Array:
    """Where a photo has no pattern, bool [H, W], of uint8 [H, W, 3]."""
    from scipy import ndimage

    grey = ndimage.gaussian_filter(mean_grey(image), 1)
    most, least = (f(grey, _SQUARE) for f in (ndimage.maximum_filter, ndimage.minimum_filter))
    return most - least < _PLAIN


def find_smooth(image: Array, even: Array) -> Array:
    """Where large parts of one tint have no more than a slope of brightness, bool [H, W].

    As lenses darken corners, the sky has one in small photos. Slopes are alike wherever they are
    put, so that patches of them agree with any depth, and first with that of the roof beside them.

    Args:
        image: uint8 [H, W, 3].
        even: bool [H, W], where it may be, of what has no pattern. Most of it tells the tint.
    """
    from scipy import ndimage

    grey = mean_grey(image)
    mean = ndimage.uniform_filter(grey, _PATCH)
    rest = ndimage.uniform_filter(grey * grey, _PATCH) - mean * mean
    steps = np.arange(_PATCH, dtype=np.float32) - _PATCH // 2
    for axis in (0, 1):
        across = ndimage.uniform_filter1d(grey, _PATCH, 1 - axis)
        slope = ndimage.correlate1d(across, steps / _PATCH, axis)
        rest -= slope**2 / np.square(steps).mean()
    smooth = (rest < _SMOOTH**2) & even
    every = slice(None, None, _SOME), slice(None, None, _SOME)
    if not smooth[every].any():
        return smooth & False
    # A finger before the lens is as smooth as the sky that it hides, but of another colour.
    of_all, of_some = _tints(image[smooth]), _tints(image[every][smooth[every]])
    kept, told = np.ones(of_all.shape[1], bool), np.ones(of_some.shape[1], bool)
    for own, judges, most in zip(of_all, of_some, _TINT, strict=True):
        middle = np.quantile(judges[told], 0.5, method="lower")
        kept &= np.abs(own - middle) < most
        told &= np.abs(judges - middle) < most
    smooth[smooth] = kept
    labelled: Any = ndimage.label(smooth)
    size = np.bincount(labelled[0].ravel())
    large = size >= _LEAST * even.size
    large[0] = False  # of single pixels of a wall there are squares beside the sky
    # Up to the borders of the photo and the edges that patches reach across.
    return ndimage.maximum_filter(large[labelled[0]], _PATCH) & even


def _tints(colors: Array) -> Array:
    """Logarithms of red and blue over green, and of green, [3, P], of uint8 [P, 3]."""
    red, green, blue = _LOGS[colors].T
    return np.stack([red - green, blue - green, green])


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
    found = at_upper_edge(sky, quarters)
    if found.any() and not found.all():
        grey = mean_grey(image)
        found &= bool(grey[found].mean() > grey[~found].mean())
    else:
        found[:] = False
    return found


def at_upper_edge(sky: Array, quarters: int) -> Array:
    """The parts of bool [H, W] that reach the upper edge of a photo, turned upright."""
    from scipy import ndimage

    labelled: Any = ndimage.label(sky)
    upper = np.unique(np.rot90(labelled[0], -quarters)[0])
    return np.isin(labelled[0], upper[upper > 0])


def behind_wires(image: Array, even: Array, found: Array, sky: Array) -> Array:
    """The small parts of the sky that wires or twigs cut off, as between two houses: bool [H, W].

    They are of the colour of the sky given, from which they are a few pixels away, or from others
    that are. Stereo tells little about them, as patches in them show what is beside them, but
    nothing may be found further inside; boards between joints are too thin to have an inside.

    Args:
        image: uint8 [H, W, 3].
        even: bool [H, W], where the photo has no pattern, and may show sky.
        found: bool [H, W], where stereo found something.
        sky: bool [H, W], what is known of it.
    """
    from scipy import ndimage

    labelled: Any = ndimage.label(even & ~sky)
    size = np.bincount(labelled[0].ravel())
    small = (size >= _SQUARE**2) & (size < _LEAST * even.size)
    small[0] = False
    parts, known = np.where(small[labelled[0]], labelled[0], 0), sky
    colors = image.copy()  # with parts in that of the sky given, so that none drift away from it
    boxes = ndimage.find_objects(parts)
    while known.any():
        near: Any = ndimage.maximum_filter(known, 2 * _WIRE + 1)
        new = np.zeros_like(sky)
        for part in np.flatnonzero(np.bincount(parts[near], minlength=1)[1:]) + 1:
            if not small[part]:
                continue
            small[part] = False
            box = tuple(slice(max(s.start - _WIRE, 0), s.stop + _WIRE) for s in boxes[part - 1])
            own = parts[box] == part
            inner: Any = ndimage.minimum_filter(own, 2 * _REACH + 1)
            around: Any = ndimage.maximum_filter(own, 2 * _WIRE + 1)
            beside = (known & even)[box] & around
            if not (beside.any() and inner.any()) or found[box][inner].mean() > _FOUND:
                continue
            mean = colors[box][beside].mean(0)
            if np.abs(image[box][own].mean(0) - mean).max() <= _ALIKE:
                # Up to the pixel beside an edge.
                whole: Any = ndimage.maximum_filter(own, _SQUARE)
                new[box] |= whole
                colors[box][whole] = np.rint(mean)
        if not new.any():
            break
        known = known | new
    return known & ~sky


def as_bright(image: Array, sky: Array) -> Array:
    """Where a photo is as bright as its sky, bool [H, W]: what is seen of it through an arch, say.

    Args:
        image: uint8 [H, W, 3].
        sky: bool [H, W].
    """
    grey = mean_grey(image)
    return grey >= _BRIGHT * grey[sky].mean() if sky.any() else np.zeros_like(sky)


def open_sky(scene: Scene, i: int, covered: Array, up: Array) -> Array:
    """What of a photo is sky that no mesh could cover, bool [H, W].

    Args:
        scene: the photos.
        i: the photo.
        covered: bool [H, W], where it shows the mesh.
        up: [3], what is up in the scene, about.
    """
    from scipy import ndimage

    image = scene.images[i]
    bare = find_sky(find_plain(image), covered) & ~covered
    rises = above_horizon(scene, i, up)
    labelled: Any = ndimage.label(bare)
    size, low = (np.bincount(x.ravel()) for x in (labelled[0], labelled[0][~rises]))
    low = np.pad(low, (0, len(size) - len(low)))
    return above_all(image, bare & rises & (low <= _BELOW * size)[labelled[0]], scene.quarters[i])
