"""Bites of masks where the object lies in shadow, before a backdrop as black as it is there.

That a photo shows the backdrop beside a lit part of the object says that nothing is there. Beside a
dark part it says little, for an attached shadow fades out, and a cast one ends, as the object does;
nor is a lit part's edge always the object's, but it is that of a shadow in few photos. Dim cloth in
shadow is as bright as the object may be in its own. So what few photos carve is kept: others, lit
from elsewhere or seen from the other side, show where the object ends. Silhouettes are joined in a
grid as evidence, none of which is certain (Franco & Boyer, Fusion of Multi-View Silhouette Cues
Using a Space Occupancy Grid, 2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.kernels.threads import mapped
from gendr.mesh.cameras import Camera
from gendr.photos.lines_of_sight import visual_sphere
from gendr.photos.suspicious_masks import LEAST_VIEWS

__all__ = ["DARK", "without_shadow_bites"]

Array = npt.NDArray[Any]

# A backdrop is dark up to this brightness.
DARK = 0.1
# Photos are compared at about this shorter side, in a grid of so many points along an axis, first
# out to so many radii of the object as it seems.
_SIDE, _POINTS, _REACH = 240, 96, 2.0
# An outline is lit where the object is so bright, of its usual brightness, up to so many pixels
# within.
_LIT, _WITHIN = 0.5, 3
# This part of the photos must show backdrop for nothing to be there: beside what is lit, for the
# sharp edge of a cast shadow looks like the end of the object; and beside what is dark.
_SHARES = 0.08, 0.25
# Or this part, where it may be a dim cloth in shadow, or the object in shadow before it: brighter
# than the dark by so much, and unlike what is there in most photos that show backdrop, of which
# such a part are alike.
_DIM_SHARE, _DIM, _UNLIKE, _ALIKE = 0.5, 0.02, 0.012, 0.5
# Thinner bites are as wide as cells, pixels.
_THICK = 3


def without_shadow_bites(camera: Camera, images: Tensor, masks: Tensor) -> Tensor:
    """Masks with what lies in shadow, as other photos show it.

    Args:
        camera: B perspective cameras of photos without distortion.
        images: [B, 3, H, W] in [0, 1], with their backdrop.
        masks: [B, H, W], 0 or 1, none of them empty.

    Returns:
        Masks like those given; these themselves if there are fewer than eight, a backdrop is not
        dark, or the cameras do not look at one place, which is said where the shape is made.
    """
    count, height, width = masks.shape
    if count < LEAST_VIEWS or camera.orthographic:
        return masks
    factor = max(1, min(height, width) // _SIDE)
    both = torch.cat([images.mean(1, keepdim=True), masks[:, None]], 1).float().cpu()
    light, small = F.avg_pool2d(both, factor).unbind(1)
    inside = small > 0.5
    if not bool((inside.flatten(1).any(1) & ~inside.flatten(1).all(1)).all()):
        return masks
    behind = [float(light[i][~inside[i]].median()) for i in range(count)]
    if max(behind) > DARK:
        return masks
    dim = _dim(light, inside, torch.tensor(behind))
    denied = mapped(
        lambda i: _denied(light[i].numpy() - behind[i], inside[i].numpy(), dim[i].numpy(), count),
        range(count),
    )
    try:
        shown = _projected(camera, inside, denied)
    except ValueError:
        return masks
    found = masks.clone()
    for i, (some, weight) in enumerate(zip(shown, denied, strict=True)):
        more = _thick_and_joined(some & (weight > 0) & (weight < 1), inside[i].numpy())
        if more.any():
            wide = torch.from_numpy(more).repeat_interleave(factor, 0).repeat_interleave(factor, 1)
            found[i, : wide.shape[0], : wide.shape[1]][wide.to(found.device)] = 1
    return found


def _dim(light: Tensor, inside: Tensor, behind: Tensor) -> Tensor:
    """Which pixels [B, H, W] may show a dim cloth in shadow, or the object.

    Args:
        light: [B, H, W].
        inside: [B, H, W], the masks.
        behind: [B], the dark behind.
    """

    def wider(reach: int) -> Tensor:
        return F.max_pool2d(inside.float()[:, None], 2 * reach + 1, 1, reach)[:, 0] > 0

    clear = ~wider(2)
    usual = light.where(clear, light.new_tensor(torch.nan)).nanmedian(0).values.nan_to_num(0.0)
    alike = ((light - usual).abs() < 2 * _UNLIKE) & clear
    known = alike.sum(0) >= _ALIKE * clear.sum(0)
    # Means over a few pixels, without those that the object covers in part.
    free = (~wider(1)).float()
    seen, share = (F.avg_pool2d(part[:, None], 3, 1, 1)[:, 0] for part in (light * free, free))
    mean = torch.where(share > 0, seen / share.clamp(min=1e-6), usual)
    return known & (mean > behind[:, None, None] + _DIM) & ((mean - usual).abs() > _UNLIKE)


def _denied(light: Array, inside: Array, dim: Array, count: int) -> Array:
    """How much each pixel [H, W] says that the object is not there: 0 to 1.

    Args:
        light: [H, W], how much brighter than the backdrop it is.
        inside: [H, W], the mask.
        dim: [H, W], where it may be a shadow, or the object.
        count: how many photos there are.
    """
    from scipy.ndimage import distance_transform_edt, uniform_filter

    deep: Any = distance_transform_edt(inside)
    rim = (inside & (deep <= _WITHIN)).astype(np.float32)
    side = 2 * _WITHIN - 1
    near = uniform_filter(light * rim, side) / np.maximum(uniform_filter(rim, side), 1e-6)
    at: Any = distance_transform_edt(~inside, return_distances=False, return_indices=True)
    lit = (near > _LIT * np.median(light[inside]))[at[0], at[1]]
    least = [max(1.0, share * count) for share in (*_SHARES, _DIM_SHARE)]
    weight = np.where(dim, 1 / least[2], np.where(lit, 1 / least[0], 1 / least[1]))
    return np.where(inside, 0, weight).astype(np.float32)


def _projected(camera: Camera, inside: Tensor, denied: list[Array]) -> list[Array]:
    """The pixels [H, W] of each photo that show what too few deny."""
    size = inside.shape[1], inside.shape[2]
    exact = camera.detach().to(dtype=torch.float64, device="cpu").with_origin(None)
    turn, shift, k = exact.to_opencv(size, pixel_centre=0)
    projections = (k @ torch.cat([turn, shift[..., None]], -1)).float()
    centre, radius = visual_sphere(exact, inside.double())
    reach = _REACH * radius
    body = _left(projections, _box(centre - reach, centre + reach), denied)
    if not len(body):
        return [np.zeros(size, bool) for _ in denied]
    cell = 2 * reach / (_POINTS - 1)
    low, high = body.amin(0) - 2 * cell, body.amax(0) + 2 * cell
    body = _left(projections, _box(low, high), denied)
    half = float((high - low).amax()) / (_POINTS - 1) / 2

    def seen(i: int) -> Array:
        at, depth = _places(projections[i], body, size)
        image = torch.zeros(1, 1, *size)
        image.view(-1)[at[at >= 0]] = 1
        focal = float(k[i, 0, 0]) / float(depth.median()) if len(depth) else 0.0
        reach = max(1, round(half * focal))
        wide = F.max_pool2d(image, 2 * reach + 1, 1, reach)
        return -F.max_pool2d(-wide, 2 * reach + 1, 1, reach)[0, 0].numpy() > 0

    return mapped(seen, range(len(denied)))


def _box(low: Tensor, high: Tensor) -> Tensor:
    """Points [P, 3] of a grid between two corners."""
    lines = [torch.linspace(float(a), float(b), _POINTS) for a, b in zip(low, high, strict=True)]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 3)


def _left(projections: Tensor, points: Tensor, denied: list[Array]) -> Tensor:
    """Those of points [P, 3] that the photos together do not deny to be in the object."""
    size = denied[0].shape
    total = torch.zeros(len(points))
    for projection, weight in zip(projections, denied, strict=True):
        at, _ = _places(projection, points, (size[0], size[1]))
        total += torch.where(at >= 0, torch.from_numpy(weight).flatten()[at.clamp(min=0)], 0.0)
        points, total = points[total < 1], total[total < 1]  # most are denied by a few
    return points


def _places(projection: Tensor, points: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The pixels [P] at which points [P, 3] are seen, -1 outside, and their depths [P]."""
    x, y, depth = (points @ projection[:, :3].T + projection[:, 3]).unbind(1)
    safe = depth.clamp(min=1e-12)
    column, row = (x / safe).round().long(), (y / safe).round().long()
    within = (depth > 0) & (column >= 0) & (column < size[1]) & (row >= 0) & (row < size[0])
    return torch.where(within, row * size[1] + column, -1), depth


def _thick_and_joined(some: Array, inside: Array) -> Array:
    """What of some pixels [H, W] is thick, and joined to a mask."""
    from scipy.ndimage import binary_opening, label

    thick = np.asarray(binary_opening(some, np.ones((_THICK, _THICK))), bool)
    labelled: Any = label(thick | inside)
    parts: npt.NDArray[np.int32] = labelled[0]
    return thick & np.isin(parts, parts[inside])
