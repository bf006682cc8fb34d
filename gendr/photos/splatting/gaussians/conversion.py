"""Gaussians as triangles of equal mean and integral, and the moments of triangles' windows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.vectors import length
from gendr.distributions import Distribution
from gendr.photos.splatting.gaussians.cloud import Cloud

__all__ = ["Triangles", "covariances", "moments", "power_of", "powers", "triangles_of"]

# Points of the law at which the moments of a window are summed; its tails count up to windows of so
# many times the size of the triangle, as those of heavy laws have no moments.
_NODES, _WIDEST = 64, 3.0
# Gaussians that become triangles at once, the least size of their axes in parts of the longest, and
# their least opacity.
_CHUNK, _THIN, _FAINT = 1 << 18, 1e-6, 1e-3

Array = NDArray[Any]
Powers = tuple[Tensor, Tensor, Tensor]


class Triangles(NamedTuple):
    """What triangles have that Gaussians say: [N, 3, 3], [N, K, 3] and [N], float32."""

    vertices: Tensor
    harmonics: Tensor
    opacity: Tensor


def triangles_of(
    cloud: Cloud,
    origin: Tensor,
    unit: str,
    law: Distribution,
    scale: float,
    shape: float | None,
    count: int,
) -> Triangles:
    """A triangle for each Gaussian: of its mean, its integral, and a window of its size.

    The corners are c + f (sx cos(2 pi k / 3) a + sy sin(2 pi k / 3) b), k = 0, 1, 2, with sx a and
    sy b the two longer axes, and f such that the window has the variance sx^2 + sy^2. The opacity
    makes the integral of the window 2 pi sx sy opacity, as far as 1 allows it.

    Args:
        cloud: Gaussians.
        origin: [3], where vertices count from.
        unit: Of the scale.
        law: Of the window.
        scale: Of all.
        shape: Of the law, or None.
        count: Of harmonics: those beyond are left out, those that are missing are 0.
    """
    parts = cloud.parts
    assert parts is not None
    one = torch.ones(1, dtype=torch.float64)
    of_all = powers(unit, law, scale * one, None if shape is None else shape * one)
    found: list[Triangles] = []
    for first in range(0, len(cloud), _CHUNK):
        harmonics, opacity, sizes, turns, points = (
            torch.from_numpy(part[first : first + _CHUNK]) for part in (*parts, cloud.points)
        )
        harmonics = harmonics[:, :count]
        longest, order = sizes.double().sort(dim=1, descending=True)
        # Sizes such that no product of some of them leaves the range of numbers.
        longest = longest.clamp(1e-60, 1e60)
        longest = torch.maximum(longest, _THIN * longest[:, :1])[:, :2]
        axes = _axes(turns.double()).gather(2, order[:, None].expand(-1, 3, -1))[:, :, :2]
        angles = torch.arange(3, dtype=torch.float64) * (2 * math.pi / 3)
        corners = torch.stack([angles.cos(), angles.sin()]).T @ (axes * longest[:, None]).mT
        # Triangles of any one size tell by how much theirs is wrong, as lengths scale together.
        mean, spread, mass = moments(corners, of_all)
        wide = spread.diagonal(dim1=1, dim2=2).sum(1).clamp(min=1e-300)
        ratio = longest.square().sum(1) / wide
        moved = (corners - mean[:, None]) * ratio.sqrt()[:, None, None]
        integral = opacity.double() * 2 * math.pi * longest[:, 0] * longest[:, 1]
        found.append(Triangles(
            ((points.double() - origin)[:, None] + moved).float(),
            F.pad(harmonics, (0, 0, 0, count - harmonics.shape[1])),
            (integral / (mass * ratio).clamp(min=1e-300)).clamp(_FAINT, 1.0).float(),
        ))  # fmt: skip
    return Triangles(*(torch.cat(column) for column in zip(*found, strict=True)))


def moments(vertices: Tensor, of: Powers) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [N, 3], covariance [N, 3, 3] and integral [N] of windows in space.

    Args:
        vertices: float64 [N, 3, 3].
        of: `powers`.
    """
    v = vertices
    sides = length(v.roll(-1, 1) - v.roll(1, 1))  # opposite to each corner
    around = sides.sum(1, keepdim=True)
    weights = torch.where(around > 0, sides / around.clamp(min=1e-300), 1 / 3)
    incentre = (weights[..., None] * v).sum(1)
    area = length(torch.linalg.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])) / 2
    centre = v.mean(1)
    off, about = centre - incentre, v - centre[:, None]
    second = (about.mT @ about) / 12 + off[:, :, None] * off[:, None, :]
    two, three, four = of
    middle = (three / two)[:, None] * off
    spread = (four / two)[:, None, None] * second - middle[:, :, None] * middle[:, None, :]
    return incentre + middle, spread, two * area


def power_of(dist: Distribution) -> float:
    """Of a length in its scale: 1, 2 if it is squared, less with the replacement trick."""
    return 2.0 if dist.is_squared else 1.0 - dist.art_exponent


def powers(unit: str, law: Distribution, scale: Tensor, shape: Tensor | None) -> Powers:
    """Means of k^2, k^3 and k^4 [N], k the size of the triangle at a distance of -scale z.

    Args:
        unit: Of the scale.
        law: Of z.
        scale: float64 [N].
        shape: float64 [N] of the law, or None.
    """
    if unit != "inradius":
        one = torch.ones_like(scale)
        return one, one, one
    q = (torch.arange(_NODES, dtype=torch.float64) + 0.5) / _NODES
    if shape is not None:
        law = law.with_shape(shape[:, None])
        q = q.expand(len(shape), -1)
    k = (1 - scale[:, None] ** (1 / power_of(law)) * law.icdf(q)).clamp(0, _WIDEST)
    two, three, four = (k.pow(power).mean(1) for power in (2, 3, 4))
    return two.clamp(min=1e-12), three, four


def covariances(sizes: Array, turns: Array) -> Array:
    """Covariances [N, 3, 3], float32, of sizes [N, 3] and unit quaternions w, x, y, z [N, 4]."""
    found = np.empty((len(sizes), 3, 3), np.float32)
    for first in range(0, len(sizes), _CHUNK):
        some = slice(first, first + _CHUNK)
        axes = _axes(torch.from_numpy(turns[some])).numpy() * sizes[some, None]
        found[some] = axes @ axes.transpose(0, 2, 1)
    return found


def _axes(turns: Tensor) -> Tensor:
    """Rotations [N, 3, 3] of unit quaternions w, x, y, z [N, 4]."""
    from scipy.spatial.transform import Rotation

    return torch.from_numpy(Rotation.from_quat(turns.numpy()[:, [1, 2, 3, 0]]).as_matrix())
