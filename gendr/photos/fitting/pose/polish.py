"""The last steps to a pose: least squares, by Levenberg and Marquardt.

Gradients of soft silhouettes end about a quarter of a pixel beside the best pose: soft silhouettes
are a little too large where several faces meet at an outline, and the steps of Adam do not become
small enough. Here a mask is compared with which part of each of its pixels the object covers, which
is neither. A pose has six numbers and hundreds of pixels at the outline tell them, so a handful of
steps is enough. What is gained tells apart poses that look almost alike: a teapot whose handle
is hidden, and the same turned a little.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.photos.fitting.pose.descent import Descent, P, hard

__all__ = ["polished"]

# A pixel is covered by as many of so many times so many points as are inside.
_POINTS = 2
# Damping at first, and what it is multiplied with where a step makes things better or worse.
_DAMPING, _LESS, _MORE = 1e-2, 0.2, 8.0
# A step moves no number by more units than that; it is tried so often, with more damping.
_FARTHEST, _TRIES = 6.0, 2
# A pose whose sum of squares falls by less than this part of it stays where it is.
_WORTH = 0.02


@torch.no_grad()
def polished(
    descent: Descent[P], start: P, moved: Callable[[P, Tensor], P], units: Tensor, steps: int
) -> P:
    """For each pose the one with the best hard silhouettes on the way.

    Args:
        descent: the masks, and how poses are seen in them.
        start: K poses, a few pixels off at most.
        moved: of K poses and numbers [K, D], moved by them; by zeros, they stay.
        units: [D], what moves the outline by about a pixel, each; > 0.
        steps: at most, >= 0.
    """
    masks = descent.masks
    size = (masks.shape[1] * _POINTS, masks.shape[2] * _POINTS)
    views, numbers = len(masks), len(units)

    def residuals(poses: P) -> Tensor:
        """[K, B * H * W]."""
        fine = hard(descent.mesh, descent.camera(poses), size)
        covered = F.avg_pool2d(fine[:, None], _POINTS)[:, 0].unflatten(0, (len(poses), views))
        return (covered - masks).flatten(1)

    probes = torch.cat([torch.diag(units), -torch.diag(units)])
    now, left = start, residuals(start)
    cost = left.square().sum(1)
    damping = torch.full_like(cost, _DAMPING)
    best, best_scores = start, descent.scores(start)
    rows = torch.arange(len(start), device=cost.device)  # those that still become better
    for _ in range(steps):
        each = rows.repeat_interleave(2 * numbers)
        around = residuals(moved(now[each], probes.repeat(len(rows), 1)))
        around = around.unflatten(0, (len(rows), 2, numbers))
        slope = (around[:, 0] - around[:, 1]) / 2  # [K, D, N], per unit
        square = slope @ slope.mT
        diagonal = square.diagonal(dim1=1, dim2=2)
        least = 1e-6 * (1 + diagonal.amax(1, keepdim=True))
        toward = (slope @ left[rows][..., None])[..., 0]
        before = cost[rows]
        for _ in range(_TRIES):
            system = square + torch.diag_embed(damping[rows][:, None] * diagonal + least)
            step = -torch.linalg.solve(system, toward[..., None])[..., 0]
            new = moved(now[rows], step.clamp(-_FARTHEST, _FARTHEST) * units)
            new_left = residuals(new)
            new_cost = new_left.square().sum(1)
            is_better = new_cost < cost[rows]
            damping[rows] *= torch.where(is_better, _LESS, _MORE)
            now = now.replaced(rows[is_better], new[is_better])
            left[rows[is_better]], cost[rows[is_better]] = new_left[is_better], new_cost[is_better]
            if bool(is_better.all()):
                break
        scores = descent.scores(now[rows])
        is_best = scores > best_scores[rows]
        best = best.replaced(rows[is_best], now[rows][is_best])
        best_scores[rows] = torch.maximum(scores, best_scores[rows])
        rows = rows[cost[rows] < (1 - _WORTH) * before]
        if not len(rows):
            break
    return best
