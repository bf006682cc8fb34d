"""What the primitives share: triangles over images, and the checks at their door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gendr._common.checks import (
    INTEGERS,
    check_finite,
    check_finite_late,
    check_float,
    check_index,
    check_like,
    check_shape,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import cached, is_traced, once

if TYPE_CHECKING:
    import numpy as np


LARGEST = 1e75  # of coordinates: a product of four is still a finite float64


@dataclass
class Layer:
    """The layer that depth peeling drew last, both None before the first.

    Attributes:
        depths: [N, H, W] float64, z/w.
        ids: [N, H, W] int32, -1 where no triangle is.
    """

    depths: Tensor | None = None
    ids: Tensor | None = None


class Pixels:
    """What backends find out about the pixels of each triangle, once for all uses of a `rast`.

    Attributes:
        found: by what was asked for.
    """

    def __init__(self) -> None:
        self.found: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, or gave before for this key."""
        if key not in self.found:
            self.found[key] = make()
        return self.found[key]


@dataclass(frozen=True, eq=False)
class Scene:
    """Triangles in N images.

    Attributes:
        tri: [T, 3] int32, contiguous, in range.
        images: N.
        height: in pixels.
        width: in pixels.
        vertices: of an image.
        ranges: [N, 2] starts and counts of triangles; None if every image has all of them.
        shared: whether all images have the same vertices.
        peeled: the layer behind which is drawn, which the new one replaces.
        sloped: whether derivatives of barycentric coordinates are wanted.
        pixels: what is known of the pixels of triangles, for the image that is drawn.
    """

    tri: Tensor
    images: int
    height: int
    width: int
    vertices: int
    ranges: Tensor | None = None
    shared: bool = False
    peeled: Layer | None = None
    sloped: bool = True
    # torch.compile (2.13) cannot call a class as a factory, but a function.
    pixels: Pixels = field(default_factory=lambda: Pixels())

    @once
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first triangle [N] and vertex [N] of each image, and offsets [N + 1] of its items."""
        import numpy as np

        base = np.arange(self.images) * (0 if self.shared else self.vertices)
        if self.ranges is None:
            first = np.zeros(self.images, np.int64)
            counts = np.full(self.images, len(self.tri))
        else:
            # As a list: within transforms of torch.func, tensors have no memory for NumPy.
            first, counts = np.array(self.ranges.tolist(), np.int64).reshape(-1, 2).T.copy()
        return first, base.astype(np.int64), np.concatenate([[0], np.cumsum(counts)])

    def corners(self, ids: Tensor) -> Tensor:
        """Rows [N, H, W, 3] in the vertices of all images, of the triangles `ids` [N, H, W]."""
        base = torch.arange(self.images, device=ids.device) * (0 if self.shared else self.vertices)
        tri = self.tri if len(self.tri) else self.tri.new_zeros(1, 3)
        return tri[ids.clamp(min=0).long()].long() + base[:, None, None, None]

    def samples(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """(x [W], y [H]) of pixel centres in NDC, rows from the bottom."""
        x = torch.arange(self.width, device=like.device, dtype=like.dtype)
        y = torch.arange(self.height, device=like.device, dtype=like.dtype)
        return (2 * x + 1 - self.width) / self.width, (2 * y + 1 - self.height) / self.height


@dataclass(frozen=True, eq=False)
class Faces:
    """The triangles of attributes.

    Attributes:
        tri: [T, 3] int32, rows of the attributes of an image.
        selected: the attributes of which derivatives are wanted.
        pixels: what is known of the pixels of triangles.
    """

    tri: Tensor
    selected: tuple[int, ...]
    pixels: Pixels = field(default_factory=lambda: Pixels())


def numbered(rast: Tensor, triangles: int, pixels: Pixels) -> Tensor:
    """The output of `rasterize`, of which others then know what has been found out already.

    Args:
        rast: the output.
        triangles: the numbers there may be, for `check_ids`.
        pixels: those of the scene.
    """
    if not is_traced():
        cached(rast, "ids", lambda _: (0.0, float(triangles)))
        cached(rast, "pixels", lambda _: pixels)
    return rast


def pixels_of(rast: Tensor) -> Pixels:
    """What is known of the pixels of triangles in the output of `rasterize`."""
    return Pixels() if is_traced() else cached(rast, "pixels", lambda _: Pixels())


def _limits(tri: Tensor) -> tuple[int, int]:
    low, high = torch.aminmax(tri)
    return int(low), int(high)


def check_tri(tri: object, vertices: int, like: Tensor) -> Tensor:
    """The triangles [T, 3] as contiguous int32, if they index the vertices.

    Raises:
        TypeError: for what holds no integers.
        ValueError: for other shapes, another device, indices out of range.
    """
    tri = check_tensor("tri", tri)
    if tri.dtype not in INTEGERS:
        raise TypeError(f"tri must be int32, got {dtype_name(tri.dtype)}; convert it with .int()")
    check_shape("tri", tri, "[T, 3]")
    if tri.device != like.device:
        raise ValueError(f"tri must be on the device of pos, {like.device}, got {tri.device}")
    check_indices(tri, vertices)
    return tri if tri.dtype == torch.int32 and tri.is_contiguous() else tri.int().contiguous()


def check_indices(tri: Tensor, vertices: int) -> None:
    """Raise unless triangles index the vertices; the limits of a tensor are kept with it.

    Raises:
        ValueError: an index is out of range.
    """
    if tri.numel() and not is_traced():
        low, high = cached(tri, "limits", _limits)
        if low < 0 or high >= vertices:
            check_index("tri", torch.tensor([low, high], device="cpu"), vertices, "vertices")


def _check_values(pos: Tensor) -> None:
    check_finite_late("pos", pos, ("primitives", tuple(pos.shape)))
    if pos.dtype == torch.float64 and pos.numel():
        largest = float(pos.detach().abs().max())
        if largest > LARGEST:
            raise ValueError(f"pos must be at most {LARGEST:g} in magnitude, got {largest:g}")


def check_pos(pos: object) -> Tensor:
    """Clip-space positions [N, V, 4] or [V, 4], finite; on a GPU a later call says so.

    Raises:
        TypeError: for what is neither float32 nor float64.
        ValueError: for other shapes, NaN, inf and numbers beyond the range of the edge functions.
    """
    pos = check_float("pos", pos)
    check_shape("pos", pos, "[N, V, 4] or [V, 4]")
    if is_traced():
        check_finite("pos", pos)
    else:
        cached(pos, "finite", _check_values)
    return pos


def check_rast(rast: object, like_name: str, like: Tensor) -> Tensor:
    """The output [N, H, W, 4] of `rasterize`, in the dtype of another tensor.

    Raises:
        TypeError: for another dtype.
        ValueError: for another shape or device.
    """
    rast = check_float("rast", rast)
    check_shape("rast", rast, "[N, H, W, 4]")
    if not rast.shape[1] or not rast.shape[2]:
        raise ValueError(f"rast must have pixels, got the shape {shape_text(rast.shape)}")
    return check_like("rast", rast, like_name, like)


def _ids_of(rast: Tensor) -> tuple[float, float]:
    low, high = torch.aminmax(rast[..., 3].detach())
    return float(low), float(high)


def check_ids(rast: Tensor, triangles: int) -> None:
    """Raise unless what is seen are triangles.

    Raises:
        ValueError: one is no triangle: the output of `rasterize` was for another mesh.
    """
    if rast.numel() and not is_traced():
        low, high = cached(rast, "ids", _ids_of)
        if not (low >= 0 and high <= triangles):  # NaN too
            worst = high if high > triangles else low
            raise ValueError(
                f"rast[..., 3] must be 0 or the number 1 .. {triangles} of a triangle, got "
                f"{worst:g}; rasterize the same tri"
            )
