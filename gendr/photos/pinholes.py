"""Pinholes of masks that were found: tunnels of their hull that one mask makes.

The hull of masks is strict: a hole in one is a tunnel through the whole object. What one sees
through, one sees through from several of many directions, unless it is as narrow as it is deep.
Gaps at the rim of a mask stay: those that one shows alone are right as often as not.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.kernels.threads import mapped
from gendr.mesh.cameras import Camera
from gendr.photos.fitting.shape.handles import euler_number, without_tunnels
from gendr.photos.meshing.hull import hull_field
from gendr.photos.suspicious_masks import LEAST_VIEWS, pixels_of

__all__ = ["without_pinholes"]

# Points of the grid along an axis.
_POINTS = 320
# What a closing adds is at most so many cells outside.
_DEEP = 3


def without_pinholes(camera: Camera, masks: Tensor) -> Tensor:
    """Masks with the narrow holes closed that one of them shows alone, where they make handles.

    Args:
        camera: B cameras.
        masks: [B, H, W], 0 or 1, none of them empty. Not those that are known to be right: the gap
            between two bars may be seen from one side alone.

    Returns:
        Masks like those given; these themselves if there are fewer than eight, or their hull has no
        handles or is empty.
    """
    if len(masks) < LEAST_VIEWS:
        return masks
    try:
        field = hull_field(camera, masks, resolution=_POINTS)
    except ValueError:  # which is said where the shape is made
        return masks
    grid = field.grid
    body = (field.values > 0).reshape(grid.shape).numpy()
    if euler_number(body) > 0:  # one part without handles
        return masks
    exact = camera.detach().to(dtype=torch.float64, device="cpu")
    size = masks.shape[1], masks.shape[2]
    inside = (masks > 0.5).cpu()
    holes = torch.stack(mapped(lambda b: _holes(inside[b]), range(len(masks)))).flatten(1)
    inside = inside.flatten(1)

    def denied(points: Tensor, b: int) -> tuple[Tensor, Tensor, Tensor]:
        """Which points [P, 3] a mask denies, which its holes do, and the pixels that show them."""
        place = pixels_of(exact[b], points, size)
        seen, at = place >= 0, place.clamp(min=0)
        return seen & ~inside[b][at], seen & holes[b][at], place

    allowed = np.zeros(body.size, bool)
    near = np.flatnonzero((field.values.numpy() > -_DEEP * grid.cell) & ~body.ravel())
    points = grid.points(near)
    said = mapped(lambda b: denied(points, b)[:2], range(len(masks)))
    by_any, by_holes = (torch.stack(part).sum(0) for part in zip(*said, strict=True))
    allowed[near] = ((by_any == 0) | ((by_any == 1) & (by_holes == 1))).numpy()
    whole = without_tunnels(body, allowed.reshape(body.shape), body.size)
    points = grid.points(np.flatnonzero(whole & ~body))
    found = masks.clone()

    def close(b: int) -> None:
        _, which, place = denied(points, b)
        if not bool(which.any()):
            return
        image = torch.zeros(1, 1, *size)
        image.view(-1)[place[which]] = 1
        # Cells may be wider than pixels.
        reach = max(1, math.ceil(grid.cell / field.pixel / 2))
        wide = F.max_pool2d(image, 2 * reach + 1, 1, reach)
        closed = -F.max_pool2d(-wide, 2 * reach + 1, 1, reach)[0, 0] > 0
        found[b][closed.to(found.device)] = 1

    mapped(close, range(len(masks)))
    return found


def _holes(inside: Tensor) -> Tensor:
    """The background [H, W] of a mask that the object encloses."""
    from scipy.ndimage import binary_fill_holes

    filled = binary_fill_holes(inside.numpy())
    return torch.from_numpy(np.asarray(filled, bool)) & ~inside
