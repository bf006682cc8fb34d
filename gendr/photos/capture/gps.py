"""Where photos were taken by their GPS fixes, and what that says of cameras that were found."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = ["Placement", "metres", "place_by_gps", "read_fix"]

Array = npt.NDArray[Any]

_GPS = 0x8825  # the directory of EXIF: 1 to 6 are latitude, longitude and altitude
# WGS 84: the longer half-axis in metres, and the squared eccentricity.
_AXIS, _ECCENTRICITY = 6378137.0, 6.69437999014e-3
# Samples of two or three photos that are tried, at most; how many deviations off a fix is wrong;
# metres to which none is better; and the deviation in parts of the spread above which fixes say
# nothing of the scale, as if its own error is as large, and nothing of what is up.
_SAMPLES, _WRONG, _FLOOR, _USELESS, _TILTED = 2000, 3.0, 0.1, 0.25, 0.1
_LEAST = 3


@final
@dataclass(frozen=True, eq=False)
class Placement:
    """A similarity by which found cameras come to stand where GPS says.

    Attributes:
        turn: [3, 3], to axes x east, y up, z south.
        scale: metres for a unit.
        used: rows of the photos whose fixes agree.
        wrong: rows of those whose fixes do not.
        error: metres, the root of the mean square of what these are off: in space where their
            heights count, too (see `place_by_gps`), else horizontally.
        size_error: by which part sizes may be off, with 95 % confidence, if fixes are off each by
            chance.
        latitude: of the mean of the fixes that agree, degrees.
        longitude: of it, degrees.
        altitude: of it, metres; None if too few fixes have one.
        middle: [3], the point of the world of the cameras that is there.
    """

    turn: Array
    scale: float
    used: tuple[int, ...]
    wrong: tuple[int, ...]
    error: float
    size_error: float
    latitude: float
    longitude: float
    altitude: float | None
    middle: Array


def read_fix(image: Any) -> tuple[float, float, float] | None:
    """Latitude and longitude in degrees and altitude in metres of an opened image, by its EXIF.

    The altitude is NaN if there is none. None if there is no fix.
    """
    with suppress(Exception):  # of anything that cameras write there
        said = image.getexif().get_ifd(_GPS)
        place: list[float] = []
        for key, negative in ((1, "S"), (3, "W")):
            parts = [float(x) for x in said[key + 1]]
            degrees = sum(x / 60**k for k, x in enumerate(parts))
            place.append(-degrees if str(said[key]).strip().upper() == negative else degrees)
        height = float(said.get(6, np.nan))
        below = said.get(5, 0) in (1, b"\x01")
        latitude, longitude = place
        if abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude or longitude):
            return latitude, longitude, -height if below else height
    return None


def _gone_on(longitudes: Array) -> Array:
    """Longitudes that go on across 180 degrees, from the first."""
    return longitudes[0] + (longitudes - longitudes[0] + 180) % 360 - 180


def metres(fixes: Array) -> Array:
    """East, north and up of fixes [N, 3] about their median, in metres; a part of a sphere."""
    fixes = np.column_stack([fixes[:, 0], _gone_on(fixes[:, 1]), fixes[:, 2]])
    known = [x[np.isfinite(x)] for x in fixes.T]
    middle = np.array([np.median(x) if len(x) else 0.0 for x in known])
    phi = np.radians(middle[0])
    bent = 1 - _ECCENTRICITY * np.sin(phi) ** 2
    east = np.radians(fixes[:, 1] - middle[1]) * _AXIS / bent**0.5 * np.cos(phi)
    north = np.radians(fixes[:, 0] - middle[0]) * _AXIS * (1 - _ECCENTRICITY) / bent**1.5
    return np.stack([east, north, fixes[:, 2] - middle[2]], 1)


def _similarity(a: Array, b: Array) -> tuple[float, Array, Array]:
    """s, R, t with b = s R a + t of least squares; a point a row.

    Source: Umeyama, Least-Squares Estimation of Transformation Parameters, PAMI 13 (1991), eq. 40.
    """
    mean_a, mean_b = a.mean(0), b.mean(0)
    u, d, v = np.linalg.svd((b - mean_b).T @ (a - mean_a))
    signs = np.ones(len(d))
    signs[-1] = np.sign(np.linalg.det(u @ v))
    turn = (u * signs) @ v
    scale = float((d * signs).sum() / max(((a - mean_a) ** 2).sum(), 1e-300))
    return scale, turn, mean_b - scale * turn @ mean_a


def _agreed(a: Array, b: Array) -> tuple[float, Array, Array, float]:
    """The similarity on which most rows agree, which of them do, and by how much they are off.

    Of samples of as many points as there are dimensions that of the least median, then least
    squares of all that are near it (Rousseeuw, Least Median of Squares Regression, 1984).
    """
    count, dims = a.shape
    if comb(count, dims) <= _SAMPLES:
        samples = np.array(list(combinations(range(count), dims)))
    else:
        dice = np.random.default_rng(0)
        samples = np.stack([dice.permutation(count)[:dims] for _ in range(_SAMPLES)])
    best, good = np.inf, np.ones(count, bool)
    for sample in samples:
        s, turn, shift = _similarity(a[sample], b[sample])
        off = np.linalg.norm(s * a @ turn.T + shift - b, axis=1)
        middle = float(np.median(off))
        if middle < best:
            # A deviation by the median of what is off; Rousseeuw's factor for few rows.
            deviation = 1.4826 * (1 + 5 / max(1, count - dims)) * middle
            best, good = middle, off <= _WRONG * max(deviation, _FLOOR)
    s, turn, shift = _similarity(a[good], b[good])
    off = s * a[good] @ turn.T + shift - b[good]
    return s, turn, good, float((off**2).sum(1).mean() ** 0.5)


def _size_error(error: float, spread: float, count: int) -> float:
    """By which part a scale by the places of so many fixes on a map may be off.

    Args:
        error: the root of the mean square of what they are off; in space, where heights count.
        spread: that of how far they are from their mean.
        count: of them.

    Returns: half of the interval that holds 95 %, as the scale is a parameter of least squares: of
    their 2 N numbers four parameters are found.
    """
    from scipy.special import stdtrit

    freedom = 2 * count - 4
    return float(stdtrit(freedom, 0.975)) * error / (spread * freedom**0.5)


def place_by_gps(
    eyes: Array, up: Array, fixes: list[tuple[float, float, float] | None]
) -> Placement | None:
    """How cameras stand on the earth.

    The horizontal places of the fixes give the scale and north; what is up, too, where they spread
    over an area and agree with the cameras to a tenth of it, as of a drone; else that is taken from
    the cameras. Wrong fixes, less than half, are found.

    Args:
        eyes: [N, 3], where the cameras stand.
        up: [3], a unit vector, by the cameras.
        fixes: of each photo, see `read_fix`.

    Returns: None if fewer than three photos have fixes, or these do not agree with the cameras.
    """
    rows = np.array([i for i, fix in enumerate(fixes) if fix is not None])
    if len(rows) < _LEAST:
        return None
    known = np.array([fixes[i] for i in rows], np.float64)
    a, b = eyes[rows], metres(known)
    found: tuple[float, Array, Array, float] | None = None
    if np.isfinite(b).all():
        s, turn, good, error = _agreed(a, b)
        ways = np.linalg.svd(b[good] - b[good].mean(0), compute_uv=False) / good.sum() ** 0.5
        if good.sum() > _LEAST and error <= _TILTED * ways[1]:
            found = s, turn, good, error
    if found is None:
        aside = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
        aside /= np.linalg.norm(aside)
        level = np.stack([aside, np.cross(up, aside), up])  # to x, y, and z up
        s, flat, good, error = _agreed((a @ level.T)[:, :2], b[:, :2])
        turn = np.eye(3)
        turn[:2, :2] = flat
        found = s, turn @ level, good, error
    s, turn, good, error = found
    count = int(good.sum())
    spread = float(((b[good, :2] - b[good, :2].mean(0)) ** 2).sum(1).mean() ** 0.5)
    if count < max(_LEAST, len(rows) / 2) or not max(error, _FLOOR) <= _USELESS * spread:
        return None
    # Few fixes agree better by chance than any are.
    size_error = _size_error(max(error, _FLOOR), spread, count)
    if size_error > _USELESS:  # of few fixes
        return None
    heights = known[good, 2][np.isfinite(known[good, 2])]
    latitude = float(known[good, 0].mean())
    longitude = (float(_gone_on(known[good, 1]).mean()) + 180) % 360 - 180
    return Placement(
        np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]) @ turn, s, tuple(rows[good].tolist()),
        tuple(rows[~good].tolist()), error, size_error, latitude, longitude,
        float(heights.mean()) if 2 * len(heights) > count else None, a[good].mean(0),
    )  # fmt: skip
