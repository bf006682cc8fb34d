"""Lenses that bend or shear what they show, and their photos as a pinhole would have taken them.

Sources: OpenCV's documentation of calib3d, for its radial, tangential and thin prism terms, and of
its fisheye model (Kannala & Brandt 2006, (6)); Devernay & Faugeras, Straight Lines Have to Be
Straight (2001), (13), for "FOV".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = ["BENDS", "Lens", "Rows", "Straightening", "coefficients", "straightening"]

Array = npt.NDArray[Any]  # floating
Rows = Callable[[int, int], npt.NDArray[np.float64]]

# Kinds of lenses, and the coefficients of each, in the order of `Lens.bend`.
BENDS = {
    "radial": ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2", "s1", "s2", "s3", "s4"),
    "fisheye": ("k1", "k2", "k3", "k4"),
    "fov": ("omega",),
}
# Pixels that are as good as none.
_ROUNDING = 1e-6
# What moves no pixel by more than this is a pinhole.
_VISIBLE = 0.25
# The least part of each side that must be left where the margins of a photo are cut off.
_LEFT = 0.5
# Steps in which the range of a lens is looked for, in which a larger angle lies further out.
_STEPS = 2000


@final
@dataclass(frozen=True)
class Lens:
    """How a camera takes directions to pixels; the centre of the first pixel is at 0.5.

    Attributes:
        fx: and fy, focal lengths in pixels.
        fy: see fx.
        cx: and cy, the principal point.
        cy: see cx.
        skew: by how many pixels x grows where y / z grows by 1.
        kind: one of `BENDS`.
        bend: its coefficients.
    """

    fx: float
    fy: float
    cx: float
    cy: float
    skew: float = 0.0
    kind: str = "radial"
    bend: tuple[float, ...] = (0.0,) * len(BENDS["radial"])

    def scaled(self, x: float, y: float) -> Lens:
        """The lens for an image of other numbers of pixels."""
        return replace(
            self, fx=self.fx * x, fy=self.fy * y, cx=self.cx * x, cy=self.cy * y, skew=self.skew * x
        )

    def zoomed(self, factor: float) -> Lens:
        """The lens of other focal lengths for which a photo, straightened, looks the same.

        So it is for a radial lens; that of another is bent as before.
        """
        bend = self.bend
        if self.kind == "radial":
            powers = (2, 4, 6, 2, 4, 6, 1, 1, 1, 3, 1, 3)
            bend = tuple(k * factor**power for k, power in zip(bend, powers, strict=True))
        fx, fy, skew = (factor * x for x in (self.fx, self.fy, self.skew))
        return replace(self, fx=fx, fy=fy, skew=skew, bend=bend)

    def pixels(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Where directions (x, y, 1) are seen; NaN where the lens sees them not or twice."""
        with np.errstate(all="ignore"):
            radius = np.hypot(x, y)
            bent = radius <= self._range(float(np.max(radius, initial=0.0)))
            factor = np.where(bent, self._factor(radius), np.nan)
            x, y = x * factor + self._shift(x, y), y * factor + self._shift(y, x, first=2)
            return self.fx * x + self.skew * y + self.cx, self.fy * y + self.cy

    def _factor(self, radius: Array) -> Array:
        """By what a direction so far from the axis is multiplied."""
        if self.kind == "radial":
            s, k = radius * radius, self.bend
            above = 1 + s * (k[0] + s * (k[1] + s * k[2]))
            return above / (1 + s * (k[3] + s * (k[4] + s * k[5])))
        far = np.maximum(radius, 1e-12)
        if self.kind == "fov":
            half = self.bend[0] / 2
            return np.arctan(2 * far * math.tan(half)) / (2 * half * far)
        angle = np.arctan(far)
        s, k = angle * angle, self.bend
        return angle * (1 + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3])))) / far

    def _shift(self, along: Array, across: Array, first: int = 0) -> Array | float:
        """What is added to a coordinate: tangential and thin prism terms."""
        if self.kind != "radial" or not any(self.bend[6:]):
            return 0.0
        p1, p2 = self.bend[6:8] if first == 0 else self.bend[7:5:-1]
        s = along * along + across * across
        prism = s * (self.bend[8 + first] + self.bend[9 + first] * s)
        return 2 * p1 * along * across + p2 * (s + 2 * along * along) + prism

    def _range(self, most: float) -> float:
        """The distance from the axis up to which more of it is more in the image, at most this."""
        if not math.isfinite(most):
            return 0.0
        radius = np.linspace(0, most, _STEPS)
        grows = np.diff(radius * self._factor(radius)) > 0
        return most if grows.all() else float(radius[int(np.argmin(grows))])

    def source(self, u: Array, v: Array, height: int) -> tuple[Array, Array]:
        """Where the pixels of the straightened photo, before margins are cut off, are in it."""
        fx, fy, cx, cy = self.straight(height)
        return self.pixels((u - cx) / fx, (v - cy) / fy)

    def straight(self, height: int) -> tuple[float, float, float, float]:
        """(fx, fy, cx, cy) of the pinhole; skew is undone about the middle row."""
        return self.fx, self.fy, self.cx - self.skew / self.fy * (self.cy - height / 2), self.cy

    def bends(self, size: tuple[int, int]) -> float:
        """By how many pixels the border of an image (H, W) lies elsewhere than with a pinhole."""
        u, v = _border(size, (0, 0))
        x, y = self.pixels((u - self.cx) / self.fx, (v - self.cy) / self.fy)
        most = float(np.max(np.hypot(x - u, y - v)))
        return most if math.isfinite(most) else math.inf


@final
@dataclass(frozen=True)
class Straightening:
    """How a photo is straightened.

    Attributes:
        lens: of the photo.
        margin: rows that are cut off above and below, and columns on either side.
    """

    lens: Lens
    margin: tuple[int, int]

    def size(self, size: tuple[int, int]) -> tuple[int, int]:
        """(H, W) of what becomes of a photo of (H, W)."""
        return size[0] - 2 * self.margin[0], size[1] - 2 * self.margin[1]

    def pinhole(self, size: tuple[int, int]) -> Lens:
        """The lens of what becomes of a photo of (H, W)."""
        fx, fy, cx, cy = self.lens.straight(size[0])
        return Lens(fx, fy, cx - self.margin[1], cy - self.margin[0])

    def undone(self, rows: Rows, size: tuple[int, int]) -> Rows:
        """Bands of rows of a photo (H, W), straightened by linear interpolation.

        Args:
            rows: rows(start, stop) gives [C, stop - start, W].
            size: of the photo.
        """
        height, width = size
        from gendr.kernels.threads import run
        from gendr.photos.camera_files.lens_kernels import interpolate

        down, across = self.margin
        u = np.arange(across, width - across) + 0.5

        def straight(start: int, stop: int) -> npt.NDArray[np.float64]:
            v = np.arange(start, stop)[:, None] + down + 0.5
            x, y = self.lens.source(u, v, height)
            x, y = x - 0.5, y - 0.5
            first = min(max(math.floor(y.min()), 0), max(height - 2, 0))
            planes = rows(first, min(max(math.floor(y.max()), 0) + 2, height))
            straightened = np.empty((len(planes), *x.shape))
            run(interpolate, len(x), planes, first, height, x, y, straightened)
            return straightened

        return straight


def straightening(
    lenses: list[Lens], sizes: list[tuple[int, int]], names: list[str]
) -> tuple[Straightening | None, ...]:
    """How photos are straightened; those of one size lose the same margins. None for pinholes.

    A pinhole among others of its size is cut by the same margins.

    Args:
        lenses: of each photo.
        sizes: (H, W) of each.
        names: of each, for messages.

    Raises:
        ValueError: if too little of a photo is left.
    """
    bent = [lens.bends(size) > _VISIBLE for lens, size in zip(lenses, sizes, strict=True)]
    margins: dict[tuple[int, int], tuple[int, int]] = {}
    for lens, size, name, is_bent in zip(lenses, sizes, names, bent, strict=True):
        if not is_bent:
            continue
        found = _margin(lens, size)
        if found is None:
            raise ValueError(
                f"{name}: the lens bends the photo so much that less than half of it is left as a "
                "pinhole sees it; are its coefficients right? They are "
                + ", ".join(f"{k} = {v:g}" for k, v in coefficients(lens).items())
            )
        rows, columns = margins.get(size, (0, 0))
        margins[size] = max(rows, found[0]), max(columns, found[1])
    return tuple(
        Straightening(lens, margins[size]) if size in margins else None
        for lens, size in zip(lenses, sizes, strict=True)
    )


def coefficients(lens: Lens) -> dict[str, Any]:
    """What bends or shears, by name; what is 0 is left out."""
    named = dict(zip(BENDS[lens.kind], lens.bend, strict=True))
    return {k: v for k, v in {"skew": lens.skew, **named}.items() if v}


@lru_cache(maxsize=64)
def _margin(lens: Lens, size: tuple[int, int]) -> tuple[int, int] | None:
    """What must be cut off a straightened photo so that the lens saw all of it; None if too much.

    That is rows above and below, and columns on either side.
    """
    height, width = size
    rows = columns = 0
    while min(height * (1 - _LEFT) - 2 * rows, width * (1 - _LEFT) - 2 * columns) >= 0:
        u, v = _border(size, (rows, columns))
        x, y = lens.source(u, v, height)
        if not np.isfinite(x + y).all():
            rows, columns = rows + max(1, height // 100), columns + max(1, width // 100)
            continue
        # By how many pixels it lies further out than the outermost centres.
        down = 0.5 + max(-float(y.min()), float(y.max()) - height)
        across = 0.5 + max(-float(x.min()), float(x.max()) - width)
        if max(down, across) <= _ROUNDING:
            return rows, columns
        # Less than what sticks out at a corner, where both ways lead inside.
        rows += math.ceil(down / 2) if down > _ROUNDING else 0
        columns += math.ceil(across / 2) if across > _ROUNDING else 0
    return None


def _border(size: tuple[int, int], margin: tuple[int, int]) -> tuple[Array, Array]:
    """The centres (u, v) of the pixels all around an image (H, W), inside of these margins."""
    v = np.arange(margin[0], size[0] - margin[0]) + 0.5
    u = np.arange(margin[1], size[1] - margin[1]) + 0.5
    sides = [(np.full_like(v, u[0]), v), (np.full_like(v, u[-1]), v),
             (u, np.full_like(u, v[0])), (u, np.full_like(u, v[-1]))]  # fmt: skip
    return np.concatenate([s[0] for s in sides]), np.concatenate([s[1] for s in sides])
