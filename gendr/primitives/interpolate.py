"""Attributes of vertices at the pixels, and their derivatives across the image.

a = u a_0 + v a_1 + (1 - u - v) a_2, and da/dX = du/dX (a_0 - a_2) + dv/dX (a_1 - a_2).

Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020), §3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from gendr._common.checks import check_float, check_like, check_shape, shape_text
from gendr.kernels.operator import Operator
from gendr.primitives.choice import kernels_for
from gendr.primitives.scene import Faces, check_ids, check_rast, check_tri, pixels_of

__all__ = ["interpolate"]


def interpolate(
    attr: Tensor,
    rast: Tensor,
    tri: Tensor,
    rast_db: Tensor | None = None,
    diff_attrs: Sequence[int] | Literal["all"] | None = None,
    *,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Interpolate attributes of vertices with perspective.

    Differentiable in attr, rast and rast_db, also twice.

    Args:
        attr: [N, V, A], [1, V, A] for all images, or [V, A] (range mode). In the dtype of rast.
        rast: [N, H, W, 4] of `rasterize`.
        tri: [T, 3], int32; rows of attr. The same triangles as those of `rasterize`, but corners
            may have other rows, as texture coordinates often do.
        rast_db: [N, H, W, 4], the second result of `rasterize`.
        diff_attrs: the attributes of which derivatives are wanted, or "all"; they need rast_db.
        backend: as of `rasterize`.

    Returns:
        [N, H, W, A]: the attributes, 0 where nothing is seen.
        [N, H, W, 2 D]: (dA/dX, dA/dY) per pixel of each of the D attributes of diff_attrs;
        [N, H, W, 0] without them.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, indices out of range, derivatives without rast_db.
    """
    attr = check_float("attr", attr)
    check_shape("attr", attr, "[N, V, A] or [V, A]")
    rast = check_rast(rast, "attr", attr)
    images = len(rast)
    if attr.ndim == 3 and len(attr) not in (1, images):
        raise ValueError(
            f"attr must have shape [{images}, V, A], [1, V, A] or [V, A] for {images} images, got "
            f"{shape_text(attr.shape)}"
        )
    tri = check_tri(tri, attr.shape[-2], attr)
    check_ids(rast, len(tri))
    selected = _selected(diff_attrs, attr.shape[-1])
    if selected and rast_db is None:
        raise ValueError("diff_attrs needs rast_db, the second result of rasterize")
    if rast_db is not None and selected:
        check_shape("rast_db", check_float("rast_db", rast_db), shape_text(rast.shape))
        check_like("rast_db", rast_db, "attr", attr)
    else:
        rast_db = None
    faces = Faces(tri, selected, pixels_of(rast))
    values, slopes = INTERPOLATE(
        kernels_for("primitives.interpolate", attr, backend), faces, attr, rast, rast_db
    )
    return values, slopes


def _selected(diff_attrs: Sequence[int] | str | None, count: int) -> tuple[int, ...]:
    if diff_attrs is None:
        return ()
    if isinstance(diff_attrs, str):
        if diff_attrs != "all":
            raise ValueError(f"diff_attrs must be a list or 'all', got {diff_attrs!r}")
        return tuple(range(count))
    found = tuple(int(k) for k in diff_attrs)
    if wrong := [k for k in found if not 0 <= k < count]:
        raise ValueError(f"diff_attrs must index the {count} attributes, got {wrong[0]}")
    return found


def _reference(
    faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None
) -> tuple[Tensor, Tensor]:
    images = len(rast)
    ids = rast[..., 3].detach().round().int() - 1
    seen = (ids >= 0)[..., None]
    shared = attr.ndim == 2 or len(attr) == 1
    base = torch.arange(images, device=attr.device) * (0 if shared else attr.shape[-2])
    rows = attr.reshape(-1, attr.shape[-1])
    if len(rows) and len(faces.tri):
        index = faces.tri[ids.clamp(min=0).long()].long() + base[:, None, None, None]
        at = rows[index]
    else:
        at = rast.new_zeros(*ids.shape, 3, attr.shape[-1])
    a, b, c = torch.where(seen[..., None], at, 0.0).unbind(-2)
    u, v = rast[..., 0:1], rast[..., 1:2]
    values = u * a + v * b + (1 - u - v) * c
    if rast_db is None:
        return torch.where(seen, values, 0.0), values[..., :0]
    chosen = list(faces.selected)
    p, q = (a - c)[..., chosen, None], (b - c)[..., chosen, None]
    slopes = rast_db[..., None, 0:2] * p + rast_db[..., None, 2:4] * q
    return torch.where(seen, values, 0.0), torch.where(seen, slopes.flatten(-2), 0.0)


INTERPOLATE = Operator("primitives.interpolate", reference=_reference)
