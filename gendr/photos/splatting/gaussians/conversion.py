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

# Points of the distribution at which the moments of a window are summed; its tails count up to so
# many inradii from the triangle, as those of heavy distributions have no moments.
_NODES, _WIDEST = 64, 2.0
# Gaussians that become triangles at once, the least size of their axes in parts of the longest, and
# their least opacity.
_CHUNK, _THIN, _FAINT = 1 << 18, 1e-6, 1e-3

Array = NDArray[Any]


class Powers(NamedTuple):
    """Means over the level sets of windows, each [N].

    Within the triangle a level set is the triangle times k <= 1 about the incentre; outside, all
    within r inradii of it.

    Attributes:
        inside: of k^2, k^3, k^4, where there is such a k, else 0.
        outside: of 1, r, r^2, r^3, r^4, where there is such an r, else 0.
    """

    inside: tuple[Tensor, ...]
    outside: tuple[Tensor, ...]


class Triangles(NamedTuple):
    """What triangles have that Gaussians say: [N, 3, 3], [N, K, 3] and [N], float32."""

    vertices: Tensor
    harmonics: Tensor
    opacity: Tensor


def triangles_of(
    cloud: Cloud,
    origin: Tensor,
    unit: str,
    dist: Distribution,
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
        dist: Of the window.
        scale: Of all.
        shape: Of the distribution, or None.
        count: Of harmonics: those beyond are left out, those that are missing are 0.
    """
    parts = cloud.parts
    assert parts is not None
    one = torch.ones(1, dtype=torch.float64)
    of_all = powers(unit, dist, scale * one, None if shape is None else shape * one)
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

    Level sets outside are those of Steiner's formula: the triangle, a rectangle at each side and a
    sector at each corner, whose moments are polynomials of r.

    Args:
        vertices: float64 [N, 3, 3].
        of: `powers`.
    """
    sides = vertices.roll(-1, 1) - vertices  # from each corner to the next
    lengths = length(sides)
    around = lengths.sum(1)
    weights = torch.where(
        around[:, None] > 0, lengths.roll(-1, 1) / around.clamp(min=1e-300)[:, None], 1 / 3
    )
    incentre = (weights[..., None] * vertices).sum(1)
    v = vertices - incentre[:, None]
    normal = torch.linalg.cross(sides[:, 0], sides[:, 1])
    area = length(normal) / 2
    inradius = 2 * area / around.clamp(min=1e-300)
    before = sides.roll(1, 1)
    turns = torch.atan2(length(torch.linalg.cross(before, sides)), (before * sides).sum(2))
    middles = v + sides / 2
    along = sides / lengths.clamp(min=1e-300)[..., None]
    normal = normal / (2 * area).clamp(min=1e-300)[:, None]
    plane = torch.eye(3).to(v) - _outer(normal, normal)

    def squares(x: Tensor, shares: Tensor) -> Tensor:
        return (x * shares[..., None]).mT @ x

    centre = v.mean(1)
    about = v - centre[:, None]
    second = (about.mT @ about) / 12 + _outer(centre, centre)
    # What the powers of r come with: in the area, and in the first and second moments.
    masses = area, around, area.new_full((), math.pi)
    firsts = (
        area[:, None] * centre, (lengths[..., None] * middles).sum(1),
        (turns[..., None] * v).sum(1) / 2,
    )  # fmt: skip
    spans = squares(along, lengths)
    seconds = (
        area[:, None, None] * second,
        squares(middles, lengths) + squares(along, lengths**3) / 12,
        area[:, None, None] * plane + squares(v, turns) / 2,
        (around[:, None, None] * plane + spans) / 3,
        math.pi / 4 * plane,
    )

    def total(scaled: Tensor, terms: tuple[Tensor, ...]) -> Tensor:
        for i, (power, term) in enumerate(zip(of.outside, terms, strict=False)):
            times = power * inradius**i
            scaled = scaled + times.reshape(-1, *[1] * (scaled.ndim - 1)) * term
        return scaled

    two, three, four = of.inside
    mass = total(two * area, masses)
    shift = total(three[:, None] * firsts[0], firsts) / mass.clamp(min=1e-300)[:, None]
    spread = total(four[:, None, None] * seconds[0], seconds)
    spread = spread / mass.clamp(min=1e-300)[:, None, None] - _outer(shift, shift)
    return incentre + shift, spread, mass


def _outer(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :, None] * y[:, None, :]


def power_of(dist: Distribution) -> float:
    """Of a length in its scale: 1, 2 if it is squared, less with the replacement trick."""
    return 2.0 if dist.is_squared else 1.0 - dist.art_exponent


def powers(unit: str, dist: Distribution, scale: Tensor, shape: Tensor | None) -> Powers:
    """Means over the level sets at 64 quantiles of the distribution.

    Args:
        unit: Of the scale.
        dist: Of z.
        scale: float64 [N].
        shape: float64 [N] of the distribution, or None.
    """
    if unit != "inradius":
        one, zero = torch.ones_like(scale), torch.zeros_like(scale)
        return Powers((one,) * 3, (zero,) * 5)
    q = (torch.arange(_NODES, dtype=torch.float64) + 0.5) / _NODES
    if shape is not None:
        dist = dist.with_shape(shape[:, None])
        q = q.expand(len(shape), -1)
    r = (-(scale[:, None] ** (1 / power_of(dist))) * dist.icdf(q)).clamp(-1, _WIDEST)
    k = (1 + r).masked_fill_(r > 0, 0.0)
    inside = tuple(k.pow(power).mean(1) for power in (2, 3, 4))
    del k
    some = (r > 0).double().mean(1)
    r = r.clamp_(min=0)
    return Powers(inside, (some, *(r.pow(power).mean(1) for power in (1, 2, 3, 4))))


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
