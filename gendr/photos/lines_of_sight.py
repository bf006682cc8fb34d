"""The point at which several cameras look, the size of the object there, and what they show."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import check_finite, check_float, check_shape
from gendr.mesh.cameras import Camera

# Mask values below this are noise (JPEG), whose sum over a large image could exceed a small object.
MASK_NOISE = 0.1
# A mask that runs along the image border for this part of its outline counts as cut off.
_CUT = 0.05
# The weight of a cut-off mask, whose centroid is biased, relative to a complete one.
_CUT_WEIGHT = 0.05
# If the mean squared sine between lines of sight is below this (0.2 degrees), they count as
# parallel.
_PARALLEL = 1e-5


def meeting_point(camera: Camera) -> Tensor:
    """The point [3] nearest to the lines of sight through the middles of the images, world.

    Optical axes need not go through the middles, nor through the images.

    Args:
        camera: B >= 2 cameras, not all parallel.

    Raises:
        ValueError: If the lines are parallel, or meet behind the cameras.
    """
    with torch.no_grad():
        exact = camera.to(torch.float64)
        plane = -exact.principal / exact.focal
        eye, way = exact.eye, exact.ahead
        if exact.orthographic:
            eye = eye + plane[:, :1] * exact.right + plane[:, 1:] * exact.up
        else:
            way = way + plane[:, :1] * exact.right + plane[:, 1:] * exact.up
            way = way / torch.linalg.vector_norm(way, dim=-1, keepdim=True)
        centre, depthless = _meeting_point(eye, way, torch.ones_like(eye[:, 0]))
        if depthless is not None:
            raise ValueError(
                f"the lines of sight of the {len(camera)} cameras are parallel and meet nowhere"
            )
        _check_ahead(exact.world_to_camera(centre[None])[:, 0, 2])
        return centre.to(camera.dtype)


def visual_sphere(camera: Camera, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Estimate the place and size of an object from its masks: a sphere to start a fit from.

    The centre is the point nearest, in the least-squares sense, to the lines through the centroids
    of the masks; the radius is the median over views of that of a sphere whose mask has the same
    second moment. Both are measured in solid angle, so they are exact for a sphere anywhere in
    view. Masks that the image border cuts count for little, and only as lower bounds of the radius
    if there are no others. If all lines are parallel (one view, say), the scale of the world is
    not determined, and the radius is chosen to be 1 for perspective cameras.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1].

    Returns:
        Centre [3] and radius [] in world units, without gradient.

    Raises:
        ValueError: If shapes do not fit, no mask shows more than one pixel, a camera is so far from
            the others that nothing of their size can be told, all are at one place, or the lines
            meet behind the cameras.
    """
    with torch.no_grad():
        check_finite("masks", check_float("masks", masks))
        sizes = check_shape("masks", masks, "[B, H, W]")
        exact = camera.expand(sizes["B"]).to(torch.float64)
        alpha = masks.to(exact.device)
        alpha = alpha.masked_fill(alpha < MASK_NOISE, 0.0)
        # One pixel has a place, but no size.
        seen = (alpha.flatten(1).amax(1) >= 0.5) & ((alpha > 0).flatten(1).sum(1) > 1)
        if not bool(seen.any()):
            which = "empty" if not bool((alpha >= 0.5).any()) else "empty or of one pixel"
            raise ValueError(f"all {len(masks)} masks are {which}; no view shows the object")
        # Along its line of sight an orthographic camera may be anywhere.
        together = not exact.orthographic and _check_places(exact.eye, camera.dtype)
        if not bool(seen.all()):
            exact, alpha = exact[seen], alpha[seen]
        whole = ~_is_cut(alpha, exact)
        direction, origin, spread = _lines(exact, alpha)
        weights = torch.where(whole, 1.0, _CUT_WEIGHT).to(torch.float64)
        centre, depthless = _meeting_point(origin, direction, weights)
        if depthless is None and together and len(masks) > 1:
            raise ValueError(
                f"all {len(masks)} cameras are at one place, so nothing says how far away the "
                "object is; give views from several places"
            )
        if depthless is not None:
            # Depth and size cannot both be found: choose the radius, or the distance.
            away = 1 / spread if not exact.orthographic else 1 + 3 * spread
            centre = centre + away.mean() * depthless
        distance = torch.linalg.vector_norm(centre - exact.eye, dim=-1)
        _check_ahead(exact.world_to_camera(centre[None])[:, 0, 2])
        radii = spread if exact.orthographic else distance * spread
        radius = radii[whole].quantile(0.5) if bool(whole.any()) else radii.amax()
        return centre.to(camera.dtype), radius.to(camera.dtype)


def in_view(camera: Camera, points: Tensor, size: tuple[int, int]) -> Tensor:
    """[B, N], whether points [N, 3] are before cameras and within their images."""
    xy, depth = camera.project(points)
    limit = xy.new_tensor([size[1] / min(size), size[0] / min(size)])
    return (depth > 0) & (xy.abs() <= limit).all(-1) & camera.within(xy)


def sample_at(image: Tensor, camera: Camera, points: Tensor) -> tuple[Tensor, Tensor]:
    """What an image [1, C, H, W] shows at points [N, 3]: [N, C]; and where they are in view: [N].

    Out of view, and behind the camera, it shows 0.
    """
    height, width = image.shape[2:]
    inside = in_view(camera, points, (height, width))[0]
    side = min(height, width)
    place = camera.project(points)[0] * points.new_tensor([side / width, -side / height])
    place = torch.where(inside[:, None], place[0], 0.0)
    values = F.grid_sample(image, place[None, None], padding_mode="border", align_corners=False)
    return torch.where(inside[:, None], values[0, :, 0].T, 0.0), inside


def _check_places(eye: Tensor, dtype: torch.dtype) -> bool:
    """Check that no eye [B, 3] is so far from most others that these are one point beside it.

    Args:
        eye: float64, world units.
        dtype: that the cameras are given in.

    Returns:
        Whether all are at one place.

    Raises:
        ValueError: if one is.
    """
    away = torch.linalg.vector_norm(eye - eye.median(0).values, dim=-1)
    precision = torch.finfo(dtype).eps
    typical, farthest = float(away.quantile(0.5)), float(away.amax())  # of two, neither is most
    if 0 < typical < precision * farthest:
        raise ValueError(
            f"camera {int(away.argmax())} is {farthest:.3g} away from the others, half of which "
            f"are within {typical:.3g} of their middle; correct its translation or leave it out"
        )
    return farthest <= precision * float(eye.abs().amax())


def _check_ahead(depth: Tensor) -> None:
    """Check that a point with these depths [B] lies ahead of most cameras."""
    if float((depth > 0).double().mean()) <= 0.5:
        raise ValueError(
            "the lines of sight meet behind the cameras; is transform_matrix camera to world, "
            "in OpenGL's convention (the camera looks along -z)? If they were projection "
            "matrices, their world is mirrored: negate the third column of each"
        )


def _is_cut(alpha: Tensor, camera: Camera) -> Tensor:
    """[B], whether much of a mask's outline runs along the border of its photo; [B, H, W]."""
    photo = camera.photo((alpha.shape[1], alpha.shape[2]))
    whole = torch.ones_like(alpha[:1]) if photo is None else photo.to(alpha)
    inner = -F.max_pool2d(-F.pad(whole, (1, 1, 1, 1))[:, None], 3, 1)[:, 0]
    rim = (whole - inner).expand_as(alpha)
    border = torch.stack([(a.double() * b).sum() for a, b in zip(alpha, rim, strict=True)])
    area = torch.stack([a.double().sum() for a in alpha])
    outline = 2 * torch.sqrt(math.pi * area)  # outline of a disc of equal area
    return border > _CUT * outline


def _lines(camera: Camera, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The lines through the centroids of the masks, and how far the masks spread about them.

    Returns:
        Unit directions [B, 3], points on the lines [B, 3], and [B] the sine of the angle (the
        length, if orthographic) that a sphere of the same second moment would span.
    """
    batch, height, width = alpha.shape
    like: dict[str, Any] = {"dtype": torch.float64, "device": alpha.device}
    side = min(height, width)
    y = -(2 * torch.arange(height, **like) + 1 - height) / side
    x = (2 * torch.arange(width, **like) + 1 - width) / side
    xy = torch.cartesian_prod(y, x).flip(1)  # [H W, 2]
    eye, spread = camera.eye, []
    directions, origins = [], []
    for i in range(batch):  # one view at a time, to save memory
        weight = alpha[i].reshape(-1).double()
        seen = weight.nonzero().squeeze(-1)  # what is not has no part in the sums
        weight, plane = weight[seen], (xy[seen] - camera.principal[i]) / camera.focal[i]
        rotation = camera.rotation[i]
        if camera.orthographic:
            total = weight.sum()
            middle = weight @ plane / total
            variance = (weight @ (plane - middle).square().sum(-1)) / total
            spread.append((2 * variance).sqrt())  # of a disc: R^2 / 2
            directions.append(rotation[2])
            origins.append(eye[i] + middle @ rotation[:2])
            continue
        slope = (plane.square().sum(-1) + 1).rsqrt()  # cosine to the optical axis
        weight = weight * slope**3  # solid angle of a pixel
        rays = torch.cat([plane, torch.ones_like(plane[:, :1])], 1) * slope[:, None]
        mean = weight @ rays / weight.sum()
        # Over the cap that a sphere covers, the mean ray has length (1 + cos) / 2.
        length = torch.linalg.vector_norm(mean)
        cosine = (2 * length - 1).clamp(-1, 1)
        spread.append((1 - cosine.square()).clamp(min=0).sqrt())
        directions.append(mean / length @ rotation)
        origins.append(eye[i])
    return torch.stack(directions), torch.stack(origins), torch.stack(spread)


def _meeting_point(
    origin: Tensor, direction: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The point [3] nearest to lines [B, 3], by weighted least squares.

    Returns:
        The point; and None, or the direction [3] if all are nearly the same, along which the point
        could be anywhere (it is then the one nearest to the mean origin).
    """
    eye = torch.eye(3, dtype=origin.dtype, device=origin.device)
    across = eye - direction[:, :, None] * direction[:, None, :]
    weight = (weight / weight.sum())[:, None]
    # Relative to the mean origin, so that a world far from 0 loses no digits.
    about = (weight * origin).sum(0)
    matrix = (weight[..., None] * across).sum(0)
    side = (weight * (across @ (origin - about)[..., None]).squeeze(-1)).sum(0)
    values, vectors = torch.linalg.eigh(matrix)
    inverse = torch.where(values < _PARALLEL, 0.0, 1 / values.clamp(min=_PARALLEL))
    point = about + vectors @ (inverse * (vectors.T @ side))
    mean = (weight * direction).sum(0)
    length = torch.linalg.vector_norm(mean)
    # Views from opposite sides are parallel too, but their object is between them, at the mean.
    free = bool(values[0] < _PARALLEL) and float(length) > 0.5
    return point, mean / length if free else None
