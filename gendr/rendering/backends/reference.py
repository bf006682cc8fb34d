"""The reference backend: dense, plain PyTorch, twice differentiable; tests compare others with it.

Read it beside the thesis: `alpha` is (5.4), A = T-conorm over the faces t of F(d(p, t) / scale).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gendr.primitives.reference import raster
from gendr.primitives.scene import Scene as Triangles
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.rendering.layers import Layered, ordered_densely
from gendr.rendering.layers import depth_keys as depth_keys
from gendr.tnorms.groups import Along

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh
    from gendr.rendering.scene import Scene

KERNELS: dict[str, Any] = {}


def available() -> str | None:
    """None: it needs nothing but torch."""
    return None


def supports(tensor: Tensor) -> bool:
    """True: it works on every device of torch."""
    return True


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
) -> ScreenFaces | None:
    """The faces of a batch on the screen by a fused kernel, for which the host never waits.

    None if `gendr.rendering.geometry` is to project instead, as here.

    Args:
        mesh: B meshes or 1.
        camera: B cameras or 1.
        near: depth of the near plane; None for what `geometry.depth_limits` finds.
        far: depth of the far plane, or None.
        owner: if there is one, NaN and inf are looked for, which its later call reports.

    Raises:
        ValueError: if an earlier call found some.
    """
    return None


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Alpha of every pixel, [B, H, W] in [0, 1], differentiable in the corners of the faces.

    Also differentiable in the scale, and in tensors inside the distribution and T-conorm. Faces
    that are not there may stand among the others, see `ScreenFaces.present`.
    """
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
    """The (pixel, face) pairs within the radius [B] (NDC), in runs of about `limit` pairs.

    A run is a function that lists its pairs when it is called. Here they are all pairs.
    """
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
    """Signed distance [K] of listed pairs, differentiable in the corners."""
    return signed_distance(size.centres(pixels, faces.corners.dtype), faces.corners[face])


def gather(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for values [N, ...] and index [K], differentiable in the values.

    Kernels saturate gradients, as `geometry.by_index` does.
    """
    return values[index]


def softmax(
    scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
) -> tuple[Tensor, Tensor] | None:
    """Softmax colours by a fused kernel; None if pairs are to be listed and shaded, as here.

    Args:
        scene: the faces, and their looks at their corners.
        coverage: how faces cover pixels.
        rate: [], 1 / ((far - near) gamma).
        backdrop: depth of the background.

    Returns:
        Colours [B * H * W, 3] without the part of the background, and the share of the background
        [B * H * W].
    """
    return None


def nearest(triangles: Triangles, pos: Tensor) -> Tensor:
    """The nearest triangle at each pixel, int32 [B, H, W], rows from the bottom; -1 for none.

    Args:
        triangles: as for `gendr.primitives.rasterize`, in ranges of one list of vertices.
        pos: [V, 4] float64, those vertices in clip space.
    """
    return raster.nearest(triangles, pos)[0]


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Colours [B H W, C] over black, and alpha [B H W], of faces joined from front to back."""
    return ordered_densely(layered, size)
