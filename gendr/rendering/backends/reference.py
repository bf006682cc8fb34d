"""The reference backend: dense, plain PyTorch, twice differentiable; tests compare others with it.

Read it beside the thesis: `alpha` is (5.4), A = T-conorm over the faces t of F(d(p, t) / scale).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr.primitives.reference.raster import depths_of, first_of
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.rendering.layers import Layered, ordered_densely
from gendr.tnorms.groups import Along

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh
    from gendr.rendering.scene import Scene

KERNELS: dict[str, object] = {}


def available() -> str | None:
    """None: it needs nothing but torch."""
    return None


def supports(tensor: Tensor) -> bool:
    """True: it works on every device of torch."""
    return True


def settings() -> None:
    """None: steps are not captured."""


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
) -> None:
    """None: the code that all backends share projects instead."""


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W]."""
    dtype, device = faces.corners.dtype, faces.corners.device
    if not faces.images:  # nothing to stack; the sum is 0 and keeps the graph
        return faces.corners.sum().expand(0, size.height, size.width)
    points = size.centres(torch.arange(size.pixels, device=device), dtype)
    images, coverage = [], aggregation.coverage
    for b in range(faces.images):
        first, last = faces.offsets[b], faces.offsets[b + 1]
        corners = faces.corners[first:last]
        if faces.present is not None:
            corners = corners[faces.present[first:last]]
        d = signed_distance(points[:, None], corners)  # [P, F]
        a, s = coverage.of(d, coverage.scale[b])
        images.append(aggregation.join(a, s, Along(-1)))
    return torch.stack(images).reshape(faces.images, size.height, size.width)


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], PixelPairs]]:
    """All (pixel, face) pairs in runs of rows, at most about `limit` in each."""
    device = faces.corners.device

    def run(b: int, first: int, last: int) -> PixelPairs:
        first_face, last_face = faces.offsets[b], faces.offsets[b + 1]
        face = torch.arange(first_face, last_face, device=device)
        if faces.present is not None:
            face = face[faces.present[first_face:last_face]]
        pixel = torch.arange(first, last, device=device)
        return PixelPairs(
            pixel.repeat_interleave(len(face)), face.repeat(last - first), first, last
        )

    runs = []
    for b, count in enumerate(faces.counts):
        step = max(1, limit // max(1, count * size.width)) * size.width
        stop = (b + 1) * size.pixels
        runs += [
            partial(run, b, first, min(first + step, stop))
            for first in range(b * size.pixels, stop, step)
        ]
    return runs


def distance(faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
    """Signed distance [K] of listed pairs."""
    return signed_distance(size.centres(pixels, faces.corners.dtype), faces.corners[face])


def gather(values: Tensor, index: Tensor) -> Tensor:
    """values[index], differentiable."""
    return values[index]


def softmax(scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float) -> None:
    """None: pairs are listed and shaded instead."""


def nearest(faces: ScreenFaces, size: ImageSize, clip: Tensor, index: None = None) -> Tensor:
    """The nearest face that covers each pixel: every face at every pixel."""
    images = [torch.empty(0, size.height, size.width, dtype=torch.int64, device=clip.device)]
    for first, last in pairwise(faces.offsets):
        seen, _ = first_of(depths_of(clip[first:last], size.height, size.width))
        images.append(torch.where(seen >= 0, seen + first, -1).flip(0)[None])
    return torch.cat(images)


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Colours [B H W, C] over black, and alpha [B H W], of faces joined from front to back."""
    return ordered_densely(layered, size)
