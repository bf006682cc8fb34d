"""Which masks contradict the others: cut, shadowed, shifted, empty, or from a wrong pose.

Of a body that all masks show, each alone carves away little that no other does, and shows little
that no other allows. A mask for which this is otherwise, by far, is wrong, or its camera is.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.jobs.devices import on_given_devices
from gendr.kernels.threads import mapped
from gendr.mesh.cameras import Camera
from gendr.photos.lines_of_sight import visual_sphere

__all__ = ["LEAST_VIEWS", "agreement", "contradicted_points", "pixels_of", "suspicious_masks"]

# Fewer masks cannot outvote one.
LEAST_VIEWS = 8
# Masks are compared at this shorter side, on a grid of so many points along an axis.
_SIDE, _POINTS = 96, 72
_REACH = 3.0  # of the first grid, in radii of the object as it seems at first
# A mask is doubtful that shows so much more of its own area than the others allow, and so many
# times as much as the mask in the middle does; or without which the others are covered better, by
# such a mean part of their areas. This is tried for some that alone carve away such a part of it.
_SHOWS, _TIMES, _UNCOVERS, _CARVES, _TRIED = 0.05, 4.0, 0.005, 0.005, 3
# At most such a part of the masks is doubtful. So few are outvoted where masks may have bites.
_MOST, _OUTVOTED = 0.25, 0.1


@on_given_devices
def suspicious_masks(camera: Camera, masks: Tensor) -> list[int]:
    """The numbers of masks that contradict the others, the worst first.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1]. Of fewer than eight none is doubtful.
    """
    count = len(masks)
    if count < LEAST_VIEWS:
        return []
    with torch.no_grad():
        small = _small(masks)
        seen = (small > 0.5).flatten(1)
        size = (small.shape[1], small.shape[2])
        found = [int(i) for i in (~seen.any(1)).nonzero()]  # empty ones
        exact = camera.detach().to(dtype=torch.float64, device="cpu")
        kept = [i for i in range(count) if i not in found]
        points = _grid(exact, small, kept)
        place = _places(exact, small, points)
        outside = _outside(small, place)[kept]
        while len(found) < _MOST * count:
            worst = _worst(outside, seen[kept], place[kept], size)
            if worst is None:
                break
            found.append(kept.pop(worst))
            outside = torch.cat([outside[:worst], outside[worst + 1 :]])
        return found


def agreement(camera: Camera, masks: Tensor) -> float:
    """The mean part of masks that a body covers which most of them allow: of right ones nearly 1.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1], none of them empty.
    """
    with torch.no_grad():
        small = (_small(masks) > 0).float()  # also of what is thinner than a pixel
        exact = camera.detach().to(dtype=torch.float64, device="cpu")
        try:
            points = _grid(exact, small, list(range(len(masks))))
        except ValueError:  # about the cameras, which is said where the shape is made
            return 1.0
        place = _places(exact, small, points)
        body = _outside(small, place).sum(0) <= _OUTVOTED * len(masks)
        size = (small.shape[1], small.shape[2])
        seen = (small > 0.5).flatten(1)
        lacks = [_uncovered(seen[b], place[b][body], size) for b in range(len(seen))]
        return 1 - sum(lacks) / len(lacks)


def contradicted_points(camera: Camera, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Points of a cubic grid about the object, and which masks deny that it is there.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1], none of them empty.

    Returns:
        float64 [N^3, 3], and bool [B, N^3].
    """
    with torch.no_grad():
        small = _small(masks)
        exact = camera.detach().to(dtype=torch.float64, device="cpu")
        points = _grid(exact, small, list(range(len(masks))))
        return points, _outside(small, _places(exact, small, points))


def _small(masks: Tensor) -> Tensor:
    """Masks as they are compared."""
    factor = max(1, min(masks.shape[1:]) // _SIDE)
    return F.avg_pool2d(masks.detach().float().cpu()[:, None], factor)[:, 0]


def _outside(masks: Tensor, place: Tensor) -> Tensor:
    """The points [B, P] that masks deny, by where they are in them."""
    # What is about a pixel beside an outline is not denied: thin parts are hardly wider.
    near = (F.max_pool2d(masks[:, None], 3, 1, 1)[:, 0] > 0.5).flatten(1)
    return ~near.gather(1, place.clamp(min=0)) & (place >= 0)


def _grid(camera: Camera, masks: Tensor, kept: list[int]) -> Tensor:
    """Points [P, 3] around the object, those of a cube."""
    centre, radius = visual_sphere(camera[kept], masks[kept].double())
    points = _cube(centre, _REACH * radius)
    place = _places(camera, masks, points)
    # Of thin parts, which lie between points, what is half a cell about them is seen.
    ends = torch.cartesian_prod(*[centre.new_tensor([-1.0, 1.0])] * 3) * _REACH * radius
    ends = camera.project((centre + torch.cat([0 * ends[:1], ends / (_POINTS - 1)]))[None])[0]
    away = (ends - ends[:, :1]).norm(dim=-1).amax(1) * min(masks.shape[1:]) / 2
    denied = torch.zeros(len(points))
    for i in kept:
        wide = min(_POINTS, math.ceil(float(away[i].nan_to_num(0, 0, 0))))
        near = F.max_pool2d(masks[i][None, None], 2 * wide + 1, 1, wide).flatten() > 0.5
        denied += ~near[place[i].clamp(min=0)] | (place[i] < 0)
    body = points[denied <= _MOST * len(kept)]
    if not len(body):
        return points
    low, high = body.amin(0), body.amax(0)
    return _cube((low + high) / 2, 0.55 * (high - low).amax())


def _cube(centre: Tensor, half: Tensor) -> Tensor:
    """The points [P, 3] of a grid."""
    line = torch.linspace(-1, 1, _POINTS, dtype=torch.float64) * half
    return centre + torch.stack(torch.meshgrid(line, line, line, indexing="ij"), -1).reshape(-1, 3)


def _places(camera: Camera, masks: Tensor, points: Tensor) -> Tensor:
    """The pixels [B, P] of masks [B, H, W] at which points [P, 3] are seen; -1 outside."""
    size = masks.shape[1], masks.shape[2]
    return torch.stack(mapped(lambda i: pixels_of(camera[i], points, size), range(len(camera))))


def pixels_of(camera: Camera, points: Tensor, size: tuple[int, int]) -> Tensor:
    """The pixels [P] at which one camera sees points [P, 3], row by row; -1 outside the photo.

    Args:
        camera: One camera.
        points: [P, 3], world, in the dtype of the camera.
        size: (H, W).
    """
    height, width = size
    xy, depth = (part[0] for part in camera.project(points[None]))
    x = ((xy[:, 0] * min(size) + width) / 2).floor().nan_to_num(-1, -1, -1).clamp(-1, width)
    y = ((height - xy[:, 1] * min(size)) / 2).floor().nan_to_num(-1, -1, -1).clamp(-1, height)
    inside = (depth > 0) & camera.within(xy[None])[0]
    inside &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return torch.where(inside, (y * width + x).long(), -1)


def _uncovered(seen: Tensor, place: Tensor, size: tuple[int, int]) -> float:
    """The part of a mask, bool [N], that points do not cover which are seen at `place` in it."""
    covered = torch.zeros(len(seen))
    covered[place[place >= 0]] = 1
    # Points are further apart than pixels.
    covered = F.max_pool2d(covered.reshape(1, 1, *size), 5, 1, 2).flatten() > 0
    return float((seen & ~covered).sum()) / max(1, int(seen.sum()))


def _worst(outside: Tensor, seen: Tensor, place: Tensor, size: tuple[int, int]) -> int | None:
    """The mask that contradicts the others most, if it does so by far.

    Args:
        outside: bool [B, P], the points that each mask denies.
        seen: bool [B, N], the masks.
        place: int64 [B, P], where the points are in them.
        size: (H, W) of the masks.
    """
    denied = outside.sum(0)

    def uncovered(b: int, body: Tensor) -> float:
        return _uncovered(seen[b], place[b][body], size)

    bodies = [denied == outside[b].int() for b in range(len(seen))]  # what the others allow
    rows = range(len(seen))
    more = torch.tensor(mapped(lambda b: uncovered(b, bodies[b]), rows)).double()
    score = more / (_SHOWS + _TIMES * more.median())
    whole = denied == 0
    carved = (outside & (denied == 1)).sum(1).double() / max(1, int(whole.sum()))
    for b in carved.argsort(descending=True)[:_TRIED].tolist():
        if carved[b] > _CARVES:
            rest = [c for c in range(len(seen)) if c != b]
            lost = sum(uncovered(c, whole) - uncovered(c, bodies[b]) for c in rest)
            score[b] = max(float(score[b]), lost / len(rest) / _UNCOVERS)
    worst = int(score.argmax())
    return worst if float(score[worst]) > 1 else None
