"""Help with choosing the scale: conversion from pixels, a suggested value, and schedules.

The soft image of a closed mesh is not the blurred silhouette of a body, because every face near a
pixel adds its own F(d / scale). If faces are smaller than the reach of the distribution, many of
them add up and alpha becomes too large: the tessellation bounds the scale from above. If the reach
is far below a pixel, no pixel centre lies within it and gradients are noise: the pixel size bounds
the scale from below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_number
from gendr.distributions import Distribution, as_distribution
from gendr.rendering.api import parse_image_size
from gendr.rendering.geometry import project_faces
from gendr.tnorms import Archimedean, TConorm, as_tconorm

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh

__all__ = ["geometric_schedule", "pixels_to_ndc", "suggest_scale"]

# The constants of suggest_scale. docs/scale.md shows the measurements behind them.
REACH_EDGES = 0.2  # the reach of a face in projected edge lengths,
REACH_PIXELS = (0.1, 1.0)  # and its least and largest value in pixels
NEIGHBOURS = 6  # faces, of both sides of a body, in reach of a pixel next to the silhouette
NEAR = 0.25  # the largest alpha of these faces at the distance of the reach
HOLE = 0.05  # the largest 1 - F at that depth inside a face
FAR = 0.1  # the largest alpha of all faces together, at a radius of the body away from it


def pixels_to_ndc(pixels: float, image_size: int | Sequence[int]) -> float:
    """Convert a length in pixels to NDC, in which the shorter image side is 2 long.

    Args:
        pixels: any finite number.
        image_size: int or (H, W).

    Raises:
        TypeError: for what is no number or no size.
        ValueError: for NaN, inf and sizes below 1.
    """
    return check_number("pixels", pixels) * 2 / parse_image_size(image_size).side


def geometric_schedule(start: float, end: float, steps: int) -> tuple[float, ...]:
    """`steps` scales from `start` to `end`, in geometric progression.

    >>> geometric_schedule(4.0, 1.0, 3)
    (4.0, 2.0, 1.0)

    Args:
        start: > 0.
        end: > 0.
        steps: >= 1; with one step the result is `end` alone.

    Raises:
        TypeError: for what is no number.
        ValueError: for numbers out of range.
    """
    start = check_number("start", start, above=0.0)
    end = check_number("end", end, above=0.0)
    last = check_count("steps", steps) - 1
    inner = (start * (end / start) ** (i / last) for i in range(1, last))
    return (start, *inner, end) if last else (end,)


def suggest_scale(
    mesh: Mesh,
    camera: Camera,
    image_size: int | Sequence[int],
    dist: str | Distribution | Callable[[Tensor], Tensor],
    *,
    tconorm: str | TConorm = "probabilistic",
    near: float = 1.0,
    far: float = 100.0,
) -> float:
    """Suggest a scale that is small relative to the faces and large enough for the pixels.

    The reach is r = 0.2 projected edge lengths (their median), but at least 0.1 and at most 1
    pixel. The scale is the largest at which

    - at the distance r outside, six faces join to alpha <= 1/4,
    - at the depth r inside a face, F >= 0.95,
    - at a radius of the mesh outside, all its faces join to alpha <= 1/10; this binds for
      linear tails only, cauchy for example, whose far faces outweigh the near ones.

    So suggestions for different distributions and T-conorms give comparable pictures. Half and
    twice the suggestion also work; for a fit, start at twice the suggestion and end at a third of
    it (`geometric_schedule`).

    Args:
        mesh: one or a batch; for a fit, the mesh to start from.
        camera: one or a batch.
        image_size: int or (H, W), pixels.
        dist: a distribution, its name, or a callable CDF.
        tconorm: a T-conorm or its name.
        near: as for `Renderer`.
        far: as for `Renderer`.

    Returns:
        The scale in the units that a renderer of this distribution takes: NDC, NDC^2 if it is
        squared. One pixel for heaviside, where every scale gives the same picture.

    Raises:
        TypeError: for wrong types.
        ValueError: when no face is in front of any camera, or as for `Renderer`.
    """
    from gendr.mesh import Camera, Mesh

    if not isinstance(mesh, Mesh) or not isinstance(camera, Camera):
        raise TypeError(
            "suggest_scale takes a gendr.Mesh and a gendr.Camera, got "
            f"{type(mesh).__name__} and {type(camera).__name__}"
        )
    dist, conorm = as_distribution(dist), as_tconorm(tconorm)
    pixel = pixels_to_ndc(1.0, image_size)
    edge, extent, count = _measure(mesh, camera, near, far)
    low, high = REACH_PIXELS
    reach = min(max(REACH_EDGES * edge, low * pixel), high * pixel)
    outside = _share(conorm, NEAR, NEIGHBOURS)
    # Pairs of a length at scale 1 and the length in the image that it must not exceed.
    bounds = (
        (reach, -_quantile(dist, outside, "cdf")),
        (reach, _quantile(dist, HOLE, "sf")),
        (extent, -_quantile(dist, _share(conorm, FAR, count), "cdf")),
    )
    power = 2.0 if dist.is_squared else 1.0 - dist.art_exponent
    scales = [_power(length / width, power) for length, width in bounds if width > 0]
    return min(scales, default=_power(pixel, power))


def _power(x: float, exponent: float) -> float:
    """x^exponent, limited to positive normal numbers of float32."""
    info = torch.finfo(torch.float32)
    return min(max(x**exponent, info.tiny), info.max)


def _quantile(dist: Distribution, q: float, part: str) -> float:
    z = torch.tensor(q, dtype=torch.float64, device="cpu")
    with torch.no_grad():
        value = float((dist.icdf(z) if part == "cdf" else dist.isf(z)).max())
    # It may be infinite for a user's CDF that never reaches q.
    return min(max(value, -1e300), 1e300)


def _share(tconorm: TConorm, total: float, count: int) -> float:
    """The coverage of which `count` equal ones are joined to `total`."""
    if not isinstance(tconorm, Archimedean):
        return total  # idempotent
    with torch.no_grad():
        a = torch.tensor(total, dtype=torch.float64, device="cpu")
        return float(tconorm.inverse(tconorm.generator(a, 1 - a) / count)[0].min())


@torch.no_grad()
def _measure(mesh: Mesh, camera: Camera, near: float, far: float) -> tuple[float, float, int]:
    """The median projected edge length and the radius on the screen in NDC, and faces per image.

    Raises:
        ValueError: no face is between near and far.
    """
    faces, _ = project_faces(mesh.detach(), camera.detach(), near, far)
    corners = faces.corners.double()
    if not len(corners):
        raise ValueError(
            f"no face lies between near = {near:g} and far = {far:g} of a camera; turn the camera "
            "to the mesh or change near and far"
        )
    edges = (corners[:, :3] - corners[:, :3].roll(1, 1)).norm(dim=-1)
    radii = [
        (part.amax((0, 1)) - part.amin((0, 1))).norm().item() / 2
        for part in corners.split(faces.counts)
        if len(part)
    ]
    floor = torch.finfo(torch.float32).eps
    return max(edges.median().item(), floor), max(max(radii), floor), max(faces.counts)
