"""Losses of photos and their gradients by the vertices of a mesh, some photos at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gendr.kernels.threads import mapped

__all__ = ["value_and_grad"]

# From so many faces on, photos are drawn beside others: between its kernels a rendering has much to
# do that only one thread does. Of fewer faces that would take longer.
_MANY_FACES = 10_000
_AT_ONCE = 2  # photos that are then drawn together: one takes longer, more only memory


def value_and_grad(
    loss: Callable[[Tensor, list[int]], Tensor], vertices: Tensor, rows: list[int], faces: int
) -> tuple[Tensor, Tensor]:
    """The sum of the losses of parts of the photos, and its gradient by the vertices [V, 3].

    The parts do not depend on the number of threads, so neither do the sums.

    Args:
        loss: of vertices and some of the photos; called by several threads.
        vertices: [V, 3], whose own graph is not looked at.
        rows: the photos.
        faces: how many faces the mesh has.
    """

    def of(part: list[int]) -> tuple[Tensor, Tensor]:
        own = vertices.detach().requires_grad_()
        found = loss(own, part)
        return found.detach(), torch.autograd.grad(found, own)[0]

    together = len(rows) == 1 or faces < _MANY_FACES or vertices.is_cuda
    count = 1 if together else max(2, -(-len(rows) // _AT_ONCE))
    parts = [rows[i::count] for i in range(count)]
    losses, gradients = zip(*mapped(of, parts), strict=True)
    return torch.stack(losses).sum(), torch.stack(gradients).sum(0)
