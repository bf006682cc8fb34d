"""Conversion of camera arguments to finite tensors of one dtype, device and batch size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from gendr._common.checks import (
    check_device,
    check_finite,
    check_float,
    check_like,
    check_shape,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import all_hold


@final
@dataclass(frozen=True)
class TensorKind:
    """The dtype and the device to which the arguments of a call are converted."""

    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def common(**values: Any) -> TensorKind:
        """What the tensors among `values` share; the defaults if there are none.

        Only floating-point tensors count; integer tensors are converted.

        Raises:
            TypeError: If a dtype is neither float32 nor float64, or dtypes differ.
            ValueError: If devices differ.
        """
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        if not tensors:
            wide = torch.get_default_dtype() is torch.float64
            return TensorKind(torch.float64 if wide else torch.float32, torch.device("cpu"))
        floats = {
            name: check_float(name, value)
            for name, value in tensors.items()
            if value.is_floating_point() or value.is_complex()
        }
        first = next(iter(floats or tensors))
        for name, value in tensors.items():
            if name in floats:
                check_like(name, value, first, tensors[first])
            check_device(name, value, first, tensors[first])
        return TensorKind(tensors[first].dtype if floats else torch.float32, tensors[first].device)

    @staticmethod
    def wanted(
        dtype: torch.dtype | None, device: torch.device | str | None, **values: Any
    ) -> TensorKind:
        """The dtype and device that were asked for, or else those of `values`."""
        if dtype is not None and dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be float32 or float64, got {dtype_name(dtype)}")
        if dtype is not None and device is not None:
            return TensorKind(dtype, torch.device(device))
        common = TensorKind.common(**values)
        return TensorKind(dtype or common.dtype, torch.device(device or common.device))

    def tensor(self, name: str, value: Any) -> Tensor:
        """`value` as a finite tensor."""
        try:
            tensor = torch.as_tensor(value, dtype=self.dtype, device=self.device)
        except (TypeError, ValueError, RuntimeError) as error:
            what = type(value).__name__
            raise TypeError(f"{name} must be a number or a tensor, got {what}: {error}") from None
        return check_finite(name, tensor)

    def batch(self, name: str, value: Any, *tail: int) -> Tensor:
        """`value` as [B, *tail]; a missing batch dimension is added."""
        return _batched(name, self.tensor(name, value), tail)

    def numbers(self, name: str, value: Any) -> Tensor:
        """`value` as [B]; a single number gives B = 1."""
        tensor = self.tensor(name, value)
        if tensor.ndim > 1:
            shape = shape_text(tensor.shape)
            raise ValueError(f"{name} must be one number or have shape [B], got {shape}")
        return _of_some(name, tensor) if tensor.ndim else tensor[None]

    def axes(self, name: str, value: Any) -> Tensor:
        """`value` as [B, 2]; one number stands for both axes, [B] for both axes of every camera."""
        tensor = self.tensor(name, value)
        if tensor.ndim == 0:
            return tensor.expand(1, 2)
        if tensor.ndim == 1 and tensor.shape[0] != 2:
            return _of_some(name, tensor)[:, None].expand(-1, 2)
        return _batched(name, tensor, (2,))

    def focal_of_fov(self, fov: Any) -> Tensor:
        """[B] focal lengths in NDC units from full angles across the shorter side in degrees."""
        angle = self.numbers("fov", fov)
        good = (angle.detach() > 0) & (angle.detach() < 180)
        if not all_hold(good):
            raise ValueError(
                f"fov must be in (0, 180) degrees, got {float(angle.detach()[~good][0]):g}"
            )
        return 1 / torch.tan(angle * (math.pi / 360))


def _batched(name: str, tensor: Tensor, tail: tuple[int, ...]) -> Tensor:
    """`tensor` as [B, *tail]."""
    want = ", ".join(map(str, tail))
    check_shape(name, tensor, f"[{want}] or [B, {want}]")
    return tensor[None] if tensor.ndim == len(tail) else _of_some(name, tensor)


def _of_some(name: str, tensor: Tensor) -> Tensor:
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
