"""Checks at the doors of fits: images of one object, with the cameras that saw them."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.checks import check_finite, check_float, check_like, check_shape, shape_text
from gendr.mesh import Camera

__all__ = ["check_further_images", "check_views"]

# So much larger than 1, or smaller than 0, no resampling makes a value.
_BEYOND = 1.0


def check_views(name: str, images: Tensor, pattern: str, camera: Camera) -> dict[str, int]:
    """Images and the cameras that saw them; the sizes by the letters of the pattern.

    Args:
        name: of the argument, such as "masks" or "target_masks".
        images: floating-point, in about [0, 1].
        pattern: their shape, in which B is the number of images, such as "[B, H, W]".
        camera: as many, on the same device and of the same dtype.

    Raises:
        TypeError: if an argument has the wrong type or dtype.
        ValueError: if shapes, numbers or devices do not fit.
    """
    _check_values(name, check_float(name, images))
    sizes = check_shape(name, images, pattern)
    if not sizes["B"]:
        raise ValueError(f"{name} must have one view or more, got {shape_text(images.shape)}")
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a gendr.Camera, got {type(camera).__name__}")
    if len(camera) != sizes["B"]:
        what = name.removeprefix("target_")
        raise ValueError(f"{sizes['B']} {what} need as many cameras, got {len(camera)}")
    check_like("the camera", camera.rotation, name, images)
    return sizes


def check_further_images(name: str, value: Tensor, pattern: str, views: str, of: Tensor) -> None:
    """Further images of the same views: [B, H, W] or [B, 3, H, W], in about [0, 1].

    Args:
        name: of the argument.
        value: of it.
        pattern: its shape.
        views: the name of the images that were checked.
        of: these, whose size, dtype and device it must have.

    Raises:
        TypeError: if it has the wrong type or dtype.
        ValueError: if shapes, numbers or devices do not fit.
    """
    sizes = dict(B=of.shape[0], H=of.shape[-2], W=of.shape[-1])
    check_like(name, check_float(name, value), views, of)
    check_shape(name, value, pattern, **sizes)
    _check_values(name, value)


def _check_values(name: str, images: Tensor) -> None:
    for dim, step in enumerate(images.stride()):
        if step == 0:  # expanded, as of photos in bytes: `torch.aminmax` would make a copy
            images = images.narrow(dim, 0, min(1, images.shape[dim]))
    check_finite(name, images)
    if images.numel():
        low, high = (float(x) for x in torch.aminmax(images.detach()))
        if low < -_BEYOND or high > 1 + _BEYOND:
            raise ValueError(
                f"{name} must lie in [0, 1], got {low:g} .. {high:g}; divide 8-bit values by 255"
            )
