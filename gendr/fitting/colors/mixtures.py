"""The linear system between the colours of a surface and the pixels of photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mixtures", "gains_of", "trusted"]

Array = NDArray[Any]

# A photo that is off by this counts a quarter.
_OFF = 0.1
# How strongly a correction is held near 0, and near that of its neighbours: relative to what the
# photos say about an average point.
_HOLD, _SMOOTH = 0.02, 0.1
# Steps of the conjugate gradients.
_STEPS = 15
# Exposures are held at 1 by this much, relative to what the photos say.
_HOLD_EXPOSURE = 1e-3


def trusted(square: Any) -> Any:
    """Weight of what is off by this squared difference: 1 to 0 (Geman-McClure)."""
    return 1 / (1 + square / _OFF**2) ** 2


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
class Mixtures:
    """Pixels of photos as mixtures of the colours of points.

    Attributes:
        mixing: Sparse [P, K], a pixel in each row.
        back: Its transpose, for speed.
        photo: [P, 3], the colours of the pixels.
        weight: [P], in [0, 1].
        view: int [P], the photo of each pixel.
        smooth: Sparse [K, K], the Laplacian of the points.
    """

    mixing: Any
    back: Any
    photo: Array
    weight: Array
    view: Array
    smooth: Any

    @staticmethod
    def of(blocks: list[tuple[Any, Array, Array]], smooth: Any) -> Mixtures:
        """The mixtures of several photos, each given as its mixing, photo and weight."""
        from scipy import sparse

        mixing = sparse.vstack([block[0] for block in blocks]).tocsr()
        view = np.repeat(np.arange(len(blocks)), [len(block[1]) for block in blocks])
        photo = np.concatenate([block[1] for block in blocks])
        weight = np.concatenate([block[2] for block in blocks])
        return Mixtures(mixing, mixing.T.tocsr(), photo, weight, view, smooth)

    def gains(self, colors: Array, count: int) -> Array:
        """The exposures [count, 3] of the photos with which colours [K, 3] meet them best."""
        shown = self.mixing @ colors
        both, own = (
            np.stack([np.bincount(self.view, self.weight * c, count) for c in product.T], 1)
            for product in (self.photo * shown, shown * shown)
        )
        return gains_of(both, own).astype(colors.dtype)

    def corrected(self, start: Array, colors: Array, gains: Array) -> Array:
        """Colours [K, 3] that meet the photos best, near `start` and smoothly so.

        Args:
            start: [K, 3], from which the correction counts.
            colors: [K, 3], by which it is judged how far each pixel is to be trusted.
            gains: [B, 3], the exposures.
        """
        scale = gains[self.view]
        off = self.photo - (self.mixing @ colors) * scale
        # One matrix for all channels, as the exposures of a photo differ little by channel.
        weight = self.weight * trusted((off * off).mean(1)) * scale.mean(1) ** 2
        diagonal = self.back.power(2) @ weight
        hold, stiff = _HOLD * float(diagonal.mean()), _SMOOTH * float(diagonal.mean())

        def normal(x: Array) -> Array:
            seen = self.back @ (weight[:, None] * (self.mixing @ x))
            return seen + hold * x + stiff * (self.smooth @ x)

        diagonal = diagonal + hold + stiff * self.smooth.diagonal()
        right = self.back @ (weight[:, None] * (self.photo / scale - self.mixing @ start))
        return start + conjugate_gradients(normal, diagonal, right, _STEPS)


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
