"""Bites: what a few masks deny and all others show, as where a shadow is as dark as the backdrop.

The hull of masks is strict: a bite in one carves through the whole object. Of right masks, what one
denies alone is no more than a thin shell, if others look from nearly the same direction.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera
from gendr.photos import visual, visual_hull
from gendr.photos.suspicious_masks import LEAST_VIEWS, contradicted_points

__all__ = ["without_bites"]

# Cells that a bite is thick, and the part of the object that its mask alone carves away.
_THICK, _CARVES = 3, 0.003
# Of a mask with bites, so many others look from directions that differ by at most this, degrees:
# alone it may be the only one that sees a slit.
_OTHERS, _NEAR = 2, 16.0
# Of more masks with bites, the others do not say what is there.
_MOST = 0.25
# As `contradicted_points` has it: of masks of this shorter side, one pixel outside says nothing.
_SIDE = 96


def without_bites(camera: Camera, masks: Tensor) -> Tensor:
    """Masks in which bites are filled with what the others show there; those given if none has any.

    Args:
        camera: B cameras. Of fewer than eight none is thought to have bites.
        masks: [B, H, W] in [0, 1].
    """
    count = len(masks)
    if count < LEAST_VIEWS or not bool((masks > 0.5).flatten(1).any(1).all()):
        return masks
    points, outside = contradicted_points(camera, masks)
    bitten = _bitten(camera, points, outside)
    if not 0 < len(bitten) <= _MOST * count:
        return masks
    rest = [i for i in range(count) if i not in bitten]
    try:
        hull = visual_hull(camera[rest], masks[rest])
    except ValueError:  # they contradict each other anyway
        return masks
    found, size = masks.clone(), (masks.shape[1], masks.shape[2])
    shared = ~outside[rest].any(0)
    cell = float((points[1] - points[0]).norm())
    for b in bitten:
        one = camera[b]
        shown = visual.silhouettes(hull, one, size)[0] > 0.5
        eaten = _thick(outside[b] & shared)
        near = _around(one.with_origin(None), points[eaten], size, cell).to(shown.device)
        found[b][shown & near] = 1
    return found


def _thick(some: Tensor) -> Tensor:
    """Of some points of a cube, bool [N^3], those in parts that are a few cells thick."""
    from scipy.ndimage import binary_opening

    side = round(len(some) ** (1 / 3))
    body = some.reshape(side, side, side).numpy()
    return torch.from_numpy(binary_opening(body, np.ones((_THICK,) * 3))).flatten()


def _bitten(camera: Camera, points: Tensor, outside: Tensor) -> list[int]:
    """The masks with bites, by which of them deny which points."""
    number = outside.sum(0)
    body = number == 0
    if not bool(body.any()):
        return []
    alone = _thick(number == 1)
    carved = (outside & alone).sum(1).double() / int(body.sum())
    exact = camera.detach().to(dtype=torch.float64, device="cpu").with_origin(None)
    if exact.orthographic:
        ways = -exact.ahead
    else:
        ways = F.normalize(exact.eye - points[body].mean(0), dim=-1)
    near = (ways @ ways.T).clamp(-1, 1).acos().rad2deg() <= _NEAR
    whole = carved <= _CARVES
    enough = (near & whole).sum(1) >= _OTHERS
    return (~whole & enough).nonzero()[:, 0].tolist()


def _around(camera: Camera, points: Tensor, size: tuple[int, int], cell: float) -> Tensor:
    """The pixels, bool [H, W], about points [P, 3] of a grid that one camera sees."""
    height, width = size
    exact = camera.detach().to(dtype=torch.float64, device="cpu")
    xy, depth = (part[0] for part in exact.project(points[None]))
    x = ((xy[:, 0] * min(size) + width) / 2).floor().long()
    y = ((height - xy[:, 1] * min(size)) / 2).floor().long()
    kept = (depth > 0) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
    image = torch.zeros(1, 1, height, width)
    image[0, 0, y[kept], x[kept]] = 1
    # As wide as the cells, and what the smaller masks do not deny beside outlines.
    least = depth.new_ones(()) if exact.orthographic else depth[kept].min()
    wide = cell * float(exact.focal.mean()) * min(size) / 2 / float(least)
    reach = round(wide + 2 * max(1, min(size) // _SIDE)) + 1
    return F.max_pool2d(image, 2 * reach + 1, 1, reach)[0, 0] > 0
