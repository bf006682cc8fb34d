"""Which triangle is seen at each pixel, where on it, and how that changes across the image.

A triangle with the corners v0, v1, v2 in clip space, as (x, y, w), is seen at the sample
s = (X, Y, 1) where the edge functions e_k = (v_i x v_j) . s, with (k, i, j) cyclic, all have the
sign of det = v0 . (v1 x v2), at e_k / sum e, which are its perspective-correct barycentric
coordinates b, and at the depth z/w = sum e_k z_k / det, which is affine on the screen. Nothing is
divided by the w of a corner, so that a triangle may reach behind the camera: samples have w > 0 by
themselves, and are cut off at -1 <= z/w <= 1.

With g the gradients of b, those of the corner k are -b_k M^-1 (g - (g . b) 1), where the rows of M
are the corners: one vector for all three.

Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020), §3.1;
Olano and Greer, Triangle Scan Conversion using 2D Homogeneous Coordinates (1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from gendr._common.checks import check_image_size, check_index, check_integer, check_shape
from gendr._common.memory import physical_memory
from gendr._common.tracing import is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.through_cpu import goes_through_cpu, moved
from gendr.primitives.choice import kernels_for
from gendr.primitives.reference.raster import nearest, shaded
from gendr.primitives.scene import Layer, Scene, check_pos, check_tri, numbered

__all__ = [
    "DepthPeeler", "RasterizeCudaContext", "RasterizeGLContext", "get_log_level", "rasterize",
    "set_log_level",
]  # fmt: skip

EXACT = 2**24  # the largest triangle number from which float32 can count on


class RasterizeCudaContext:
    """Accepted where other libraries need a context; holds nothing.

    Args:
        device: ignored.
    """

    output_db = True

    def __init__(self, device: Any = None) -> None:
        self.active_depth_peeler: DepthPeeler | None = None


class RasterizeGLContext(RasterizeCudaContext):
    """Accepted where other libraries need an OpenGL context; holds nothing.

    Args:
        output_db: whether `rasterize` gives derivatives of barycentric coordinates.
        mode: "automatic" or "manual"; ignored.
        device: ignored.
    """

    def __init__(self, output_db: bool = True, mode: str = "automatic", device: Any = None) -> None:
        super().__init__(device)
        if mode not in ("automatic", "manual"):
            raise ValueError(f"mode must be 'automatic' or 'manual', got {mode!r}")
        self.output_db = output_db

    def set_context(self) -> None:
        """Does nothing."""

    def release_context(self) -> None:
        """Does nothing."""


_log_level = 1


def get_log_level() -> int:
    """What `set_log_level` was given last; 1 at first."""
    return _log_level


def set_log_level(level: int) -> None:
    """Accepted, and kept; the primitives log nothing.

    Args:
        level: 0 (info) to 3 (fatal).
    """
    global _log_level
    _log_level = level


def rasterize(
    glctx: Any,
    pos: Tensor,
    tri: Tensor,
    resolution: Sequence[int],
    ranges: Tensor | None = None,
    grad_db: bool = True,
    *,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Find the nearest triangle at the centre of every pixel.

    Each sample on an edge that two triangles share has one owner, by the top-left rule; of equal
    depths the triangle with the lower number is seen. Triangles of both orientations are drawn,
    those that reach behind the camera, and out of the image, by their visible part,
    -1 <= z/w <= 1. Triangles without area on the screen are not seen. All decisions are made in
    float64; results do not depend on the number of threads.

    Differentiable in pos: u, v, z/w and the derivatives, not which triangle is seen; see
    `antialias` for that.

    Memory is 36 bytes for a pixel in float32 (2.4 GB for 8192 x 8192) and 68 in float64, about a
    half without the second result, and 8 bytes for a triangle beside 4 for each tile of 32 x 32
    pixels that a small one touches.
    The backward pass takes 32 bytes for a vertex.

    Args:
        glctx: a context, or None; not used, but for `output_db` of `RasterizeGLContext`.
        pos: clip-space positions (x, y, z, w), y up. [N, V, 4] for N images of one topology
            (instanced mode), or [V, 4] for images of parts of one mesh (range mode). float32 or
            float64.
        tri: [T, 3], int32; rows of pos.
        resolution: (height, width) in pixels, any.
        ranges: [N, 2], int32, on the CPU: the first triangle of each image and how many there are.
            For range mode; ignored in instanced mode.
        grad_db: whether gradients of the second result reach pos.
        backend: "auto" takes what serves the device; "cpu", "triton", or "reference", the
            definition: every triangle at every pixel, for small scenes.

    Returns:
        [N, H, W, 4], rows from the bottom: (u, v, z/w, triangle number + 1), zeros where nothing
        is seen. A point is u * corner 0 + v * corner 1 + (1 - u - v) * corner 2.
        [N, H, W, 4]: (du/dX, du/dY, dv/dX, dv/dY) per pixel; [N, H, W, 0] if the context was made
        without.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, NaN or inf, indices out of range, more triangles than the
            dtype can number (2^24 in float32).
        MemoryError: if the images do not fit in the memory.

    Source: Laine et al. (2020), §3.1, and the public documentation of nvdiffrast for conventions.
    """
    call = _prepared(glctx, pos, tri, resolution, ranges, None, backend)
    rast, derivatives = moved(RASTERIZE(*call), pos.device)
    rast = numbered(rast, len(tri), call[1].pixels)
    return rast, derivatives if grad_db else derivatives.detach()


class DepthPeeler:
    """The layers of a scene from front to back; a context manager.

    Each call of `rasterize_next_layer` draws the nearest points behind those of the last one. With
    equal depths the triangle with the lower number comes first, and the others in the next layers.

    Args:
        glctx: as of `rasterize`, and so are the others.
        pos: clip-space positions.
        tri: triangles.
        resolution: (height, width).
        ranges: for range mode.
        grad_db: whether gradients of derivatives reach pos.
        backend: as of `rasterize`.
    """

    def __init__(
        self,
        glctx: Any,
        pos: Tensor,
        tri: Tensor,
        resolution: Sequence[int],
        ranges: Tensor | None = None,
        grad_db: bool = True,
        *,
        backend: str = "auto",
    ) -> None:
        self._grad_db = grad_db
        self._call = _prepared(glctx, pos, tri, resolution, ranges, Layer(), backend)
        self._device = pos.device
        self._open = False

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False

    def rasterize_next_layer(self) -> tuple[Tensor, Tensor]:
        """What `rasterize` returns, of the next layer.

        Raises:
            RuntimeError: outside of `with`, or while PyTorch traces.
        """
        if not self._open:
            raise RuntimeError("use the DepthPeeler in a with statement")
        if is_traced():
            raise RuntimeError("DepthPeeler is not made for torch.compile and torch.func")
        rast, derivatives = moved(RASTERIZE(*self._call), self._device)
        return rast, derivatives if self._grad_db else derivatives.detach()


def _prepared(
    glctx: Any, pos: Tensor, tri: Tensor, resolution: Sequence[int], ranges: Tensor | None,
    peeled: Layer | None, backend: str,
) -> tuple[Any, Scene, Tensor]:  # fmt: skip
    """(kernels, scene, pos), checked."""
    pos, sloped = check_pos(pos), bool(getattr(glctx, "output_db", True))
    height, width = check_image_size(resolution, "resolution")
    tri = check_tri(tri, pos.shape[-2], pos)
    if pos.dtype == torch.float32 and len(tri) >= EXACT:
        raise ValueError(
            f"float32 numbers at most {EXACT - 1} triangles, got {len(tri)}; use pos.double()"
        )
    if pos.ndim == 3:
        scene = Scene(tri, len(pos), height, width, pos.shape[1], None, False, peeled, sloped)
    else:
        if ranges is None:
            raise ValueError("pos of shape [V, 4] needs ranges [N, 2]; for one image use pos[None]")
        ranges = check_integer("ranges", ranges)
        check_shape("ranges", ranges, "[N, 2]")
        if ranges.numel() and not is_traced():
            ends = ranges.sum(-1)
            check_index("the ends of ranges", ends, len(tri) + 1, "ends of triangles")
            check_index("ranges", ranges, len(tri) + 1, "triangles")
        scene = Scene(tri, len(ranges), height, width, len(pos), ranges, True, peeled, sloped)
    needed = scene.images * height * width * (4 * (1 + sloped) * pos.element_size() + 4)
    if not is_traced() and pos.device.type == "cpu" and needed > physical_memory():
        raise MemoryError(
            f"{scene.images} images of {height} x {width} need {needed / 1e9:,.3g} GB, this "
            f"machine has {physical_memory() / 1e9:,.3g} GB"
        )
    kernels = kernels_for("primitives.rasterize", pos, backend)
    if kernels is None and backend == "auto" and goes_through_cpu("rasterize", pos):
        scene, pos = moved((scene, pos), "cpu")
        kernels = kernels_for("primitives.rasterize", pos)
    return kernels, scene, pos


def _reference(scene: Scene, pos: Tensor) -> tuple[Tensor, Tensor]:
    ids, depths = nearest(scene, pos)
    if scene.peeled is not None:
        scene.peeled.depths, scene.peeled.ids = depths, ids
    return shaded(scene, pos, ids)


def _replay(scene: Scene, saved: tuple[Tensor, ...], pos: Tensor) -> tuple[Tensor, Tensor]:
    return shaded(scene, pos, saved[0])


RASTERIZE = Operator("primitives.rasterize", reference=_reference, replay=_replay)
