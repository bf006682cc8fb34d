"""Interpolation in Triton; see `interpolate_kernels`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.tracing import lasting
from gendr.kernels.triton.launch import power_of_2
from gendr.primitives.triton.sums import each, pixels_of, vertex_sums

if TYPE_CHECKING:
    from gendr.primitives.scene import Faces

__all__ = ["backend", "backward", "forward"]

backend = "triton"


@lru_cache(maxsize=256)
@lasting()
def _tables(
    selected: tuple[int, ...], channels: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The selected attributes, and of each how often and where they are among these."""
    where = [[k for k, x in enumerate(selected) if x == m] for m in range(channels)]
    rows = [[len(x), *x, *[0] * (len(selected) - len(x))] for x in where]
    found = [torch.tensor(x, dtype=torch.int32, device="cpu") for x in (selected, rows)]
    return found[0].to(device), found[1].to(device)


def forward(
    faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor, Tensor], tuple[()]]:
    """The attributes [N, H, W, A] and their derivatives [N, H, W, 2 D]."""
    from gendr.primitives.triton import interpolate_kernels as kernels

    images, height, width = rast.shape[:3]
    pixels, channels, count = images * height * width, attr.shape[-1], len(faces.selected)
    values = rast.new_empty(images, height, width, channels)
    slopes = rast.new_empty(images, height, width, 2 * count)
    wide = min(4, power_of_2(channels))
    each(
        kernels.interpolated, rast.device, pixels, attr, faces.tri, rast,
        rast if rast_db is None else rast_db, _tables(faces.selected, channels, rast.device)[0],
        values, slopes, pixels, height * width, _stride(attr), channels, count,
        SLOPED=rast_db is not None, WIDE=wide,
    )  # fmt: skip
    return (values, slopes), ()


def _stride(attr: Tensor) -> int:
    return 0 if attr.ndim == 2 or len(attr) == 1 else attr.shape[-2]


def backward(
    faces: Faces, inputs: tuple[Tensor, Tensor, Tensor | None], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of attr, rast and rast_db."""
    from gendr.primitives.triton import interpolate_kernels as kernels

    attr, rast, rast_db = inputs
    of_values, of_slopes = grads
    images, height, width = rast.shape[:3]
    pixels, channels, count = images * height * width, attr.shape[-1], len(faces.selected)
    selected, places = _tables(faces.selected, channels, rast.device)
    sloped = of_slopes is not None and rast_db is not None
    values = rast if of_values is None else of_values
    slopes = of_slopes if of_slopes is not None and sloped else rast
    wide = min(4, power_of_2(channels))
    of_attr: Tensor | None = None
    of_rast = torch.empty_like(rast) if wanted[1] else None
    of_db = torch.empty_like(rast) if wanted[2] and sloped else None
    if of_rast is not None or of_db is not None:
        each(
            kernels.position_gradients, rast.device, pixels, attr, faces.tri, rast, selected,
            values, slopes, rast if of_rast is None else of_rast, rast if of_db is None else of_db,
            pixels, height * width, _stride(attr), channels, count, VALUES=of_values is not None,
            RAST=of_rast is not None, SLOPED=of_db is not None, WIDE=wide,
        )  # fmt: skip
    if wanted[0] and not (attr.numel() and pixels and len(faces.tri)):
        of_attr = torch.zeros_like(attr)
    elif wanted[0]:
        segments = pixels_of(faces.pixels, rast, len(faces.tri))
        if sloped and rast_db is not None:
            corners = rast.new_empty(pixels, 3 * channels)
            each(
                kernels.corner_gradients, rast.device, pixels, rast, rast_db, places, values,
                slopes, corners, pixels, channels, count, VALUES=of_values is not None, WIDE=wide,
            )  # fmt: skip
            of_attr = vertex_sums(segments, faces.tri, attr, corners, None, images)
        else:
            weights = rast.reshape(-1, 4)
            of_attr = vertex_sums(segments, faces.tri, attr, values, weights, images)
    return of_attr, of_rast, of_db
