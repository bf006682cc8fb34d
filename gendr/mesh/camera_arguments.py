"""Conversion of camera arguments to finite tensors of one dtype, device and batch size."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.checks import (
    check_device,
    check_finite,
    check_float,
    check_like,
    check_shape,
    shape_text,
)


def common_kind(**values: Any) -> tuple[torch.dtype, torch.device]:
    """The dtype and device that the tensors among `values` share; the defaults if there are none.

    Only floating-point tensors count; integer tensors are converted.
    """
    name, first = "", None
    for key, value in values.items():
        if not isinstance(value, Tensor):
            continue
        if value.is_floating_point() or value.is_complex():
            check_float(key, value)
        if first is None or (value.is_floating_point() and not first.is_floating_point()):
            name, first = key, value
    if first is None:
        dtype = torch.get_default_dtype()
        return (dtype if dtype is torch.float64 else torch.float32), torch.device("cpu")
    for key, value in values.items():
        if isinstance(value, Tensor):
            if value.is_floating_point():
                check_like(key, value, name, first)
            check_device(key, value, name, first)
    if not first.is_floating_point():
        return torch.float32, first.device
    return first.dtype, first.device


def finite_tensor(value: Any, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`value` as a finite tensor of `dtype`."""
    try:
        tensor = torch.as_tensor(value, dtype=dtype, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        what = type(value).__name__
        raise TypeError(f"{name} must be a number or a tensor, got {what}: {error}") from None
    return check_finite(name, tensor)


def batched(tensor: Tensor, name: str, tail: tuple[int, ...]) -> Tensor:
    """`tensor` as [B, *tail]; a missing batch dimension is added."""
    want = ", ".join(map(str, tail))
    check_shape(name, tensor, f"[{want}] or [B, {want}]")
    return tensor[None] if tensor.ndim == len(tail) else _of_some(tensor, name)


def per_camera(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as [B]; a single number gives B = 1."""
    if tensor.ndim == 0:
        return tensor[None]
    if tensor.ndim == 1:
        return _of_some(tensor, name)
    raise ValueError(f"{name} must be one number or have shape [B], got {shape_text(tensor.shape)}")


def per_axis(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as [B, 2]; one number stands for both axes, [B] for both axes of every camera."""
    if tensor.ndim == 0:
        return tensor.expand(1, 2)
    if tensor.ndim == 1 and tensor.shape[0] != 2:
        return _of_some(tensor, name)[:, None].expand(-1, 2)
    return batched(tensor, name, (2,))


def _of_some(tensor: Tensor, name: str) -> Tensor:
    """See that a batch [B, ...] is not one of zero cameras."""
    if len(tensor) == 0:
        raise ValueError(
            f"{name} must be of at least one camera, got shape {shape_text(tensor.shape)}, "
            "which is of none"
        )
    return tensor


def broadcast(**tensors: Tensor) -> list[Tensor]:
    """All tensors expanded to one leading size B; a size of 1 broadcasts."""
    sizes = {name: tensor.shape[0] for name, tensor in tensors.items()}
    batch = max(sizes.values())
    for name, size in sizes.items():
        if size not in (1, batch):
            raise ValueError(f"batch sizes do not fit: {sizes}; {name} needs 1 or {batch}")
    return [tensor.expand(batch, *tensor.shape[1:]) for tensor in tensors.values()]


def _check_fov(fov: Tensor) -> None:
    """Check that angles lie in (0, 180) degrees."""
    bad = (fov.detach() <= 0) | (fov.detach() >= 180)
    if bool(bad.any()):
        worst = float(fov.detach()[bad][0])
        raise ValueError(f"fov must be in (0, 180) degrees, got {worst:g}")


def focal_of_fov(fov: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[B] focal lengths in NDC units from full angles across the shorter side in degrees."""
    angle = per_camera(finite_tensor(fov, "fov", dtype, device), "fov")
    _check_fov(angle)
    return 1 / torch.tan(angle * (math.pi / 360))
