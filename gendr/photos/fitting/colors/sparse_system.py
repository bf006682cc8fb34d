"""The linear system between the colours of a surface and the pixels of photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.kernels.threads import run

__all__ = ["SparseSystem", "gains_of", "mixed", "trusted"]

Array = NDArray[Any]

# A photo that is off by this counts a quarter.
OFF = 0.1
# How strongly a correction is held near 0, and near that of its neighbours: relative to what the
# photos say about an average point.
_HOLD, _SMOOTH = 0.02, 0.1
# Steps of the conjugate gradients.
_STEPS = 15
# Exposures are held at 1 by this much, relative to what the photos say.
_HOLD_EXPOSURE = 1e-3


def trusted(square: Any) -> Any:
    """Weight of what is off by this squared difference: 1 to 0 (Geman-McClure)."""
    return 1 / (1 + square / OFF**2) ** 2


def gains_of(both: Any, own: Any) -> Any:
    """Factors [B, 3] with which colours meet photos, held near 1; their mean over photos is 1.

    Args:
        both: [B, 3], weighted sums of colours times photos.
        own: [B, 3], weighted sums of squared colours.
    """
    hold = _HOLD_EXPOSURE * own.mean() + 1e-12
    gains = (both + hold) / (own + hold)
    return gains / gains.mean(0)


@dataclass(frozen=True, eq=False)
class SparseSystem:
    """Pixels of photos as mixtures of the colours of points, all float32.

    Attributes:
        columns: int32 [P, M], the points of each pixel.
        values: [P, M], their parts, whose sum is 1.
        photo: [P, 3], the colours of the pixels.
        weight: [P], >= 0.
        shade: [P, 3], the factors of the photos over the colours of points.
        view: int [P], the photo of each pixel.
    """

    columns: Array
    values: Array
    photo: Array
    weight: Array
    shade: Array
    view: Array

    def mixed(self, colors: Array) -> Array:
        """SparseSystem [P, 3] of colours [K, 3]."""
        return mixed(self.columns, self.values, colors)

    def spread(self, pixels: Array, count: int, power: int = 1) -> Array:
        """The transpose: [K, C] of pixels [P, C], K the count; or that with squared parts."""
        from gendr.photos.fitting.colors import kernels

        out = np.zeros((count, pixels.shape[1]), np.float32)
        run(
            kernels.spread, pixels.shape[1], self.columns, self.values, pixels, power, out, pieces=3
        )  # by channels, so that the order of sums is always the same
        return out

    def exposures(self, colors: Array) -> Array:
        """Further factors [B, 3] of the photos with which colours [K, 3] meet them best."""
        shown = self.mixed(colors)
        shown *= self.shade
        weight = self.weight * trusted(np.square(self.photo - shown).mean(1))
        both, own = (
            np.stack(
                [np.bincount(self.view, weight * (other[:, c] * shown[:, c])) for c in range(3)], 1
            )
            for other in (self.photo, shown)
        )
        return gains_of(both, own).astype(np.float32)

    def corrected(self, smooth: Any, start: Array, colors: Array) -> Array:
        """Colours [K, 3] that meet the photos best, near `start` and smoothly so.

        Args:
            smooth: Sparse [K, K], the Laplacian of the points.
            start: [K, 3], from which the correction counts.
            colors: [K, 3], by which it is judged how far each pixel is to be trusted.
        """
        off = self.mixed(colors)
        off *= self.shade
        np.subtract(self.photo, off, out=off)
        # One matrix for all channels, as the factors of a photo differ little by channel.
        scale = self.shade.mean(1)
        weight = self.weight * trusted(np.square(off, out=off).mean(1)) * scale * scale
        del off
        weight = weight.astype(np.float32)[:, None]
        diagonal = self.spread(weight, len(start), 2)[:, 0]
        hold, stiff = _HOLD * float(diagonal.mean()), _SMOOTH * float(diagonal.mean())
        hold, stiff = np.float32(hold), np.float32(stiff)

        def normal(x: Array) -> Array:
            pixels = self.mixed(x)
            pixels *= weight
            seen = self.spread(pixels, len(start))
            return seen + hold * x + stiff * (smooth @ x)

        diagonal = diagonal + hold + stiff * smooth.diagonal()
        right = self.spread(weight * (self.photo / self.shade - self.mixed(start)), len(start))
        return start + conjugate_gradients(normal, diagonal, right, _STEPS)


def mixed(columns: Array, values: Array, colors: Array) -> Array:
    """SparseSystem [P, C] of rows of `colors` [K, C]: columns and values are [P, M]."""
    from gendr.photos.fitting.colors import kernels

    out = np.empty((len(columns), colors.shape[1]), np.float32)
    run(kernels.mix, len(columns), columns, values, colors, out)
    return out


def conjugate_gradients(
    matrix: Callable[[Array], Array], diagonal: Array, right: Array, steps: int
) -> Array:
    """Solve matrix(x) = right for columns [K, C], preconditioned by the diagonal [K].

    Source: Hestenes, Stiefel, Methods of Conjugate Gradients for Solving Linear Systems, 1952.
    """
    inverse = 1 / diagonal[:, None]
    x = np.zeros_like(right)
    r = right.copy()
    z = inverse * r
    p, rz = z, (r * z).sum(0)
    for _ in range(steps):
        alive = rz > 0
        if not alive.any():
            break
        ap = matrix(p)
        step = np.where(alive, rz / np.where(alive, (p * ap).sum(0), 1), 0)
        x, r = x + step * p, r - step * ap
        z = inverse * r
        new = (r * z).sum(0)
        p = z + np.where(alive, new / np.where(alive, rz, 1), 0) * p
        rz = new
    return x
