"""The kernels of the CPU for tensors on a GPU, where an operation has none for it.

A definition in plain torch would take every triangle at every pixel: it fits into no memory, or
never ends. Copies to the CPU and back are some milliseconds, and gradients follow them.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.kernels.numba.compilation import available

T = TypeVar("T")

_warned: set[str] = set()


def goes_through_cpu(what: str, tensor: Tensor) -> bool:
    """Whether an operation that has no kernels for GPUs is done on the CPU, which a warning says.

    Once in a process for each operation.

    Args:
        what: the operation, for the warning.
        tensor: an input.
    """
    if tensor.device.type in ("cpu", "meta") or is_traced() or available() is not None:
        return False
    if what not in _warned:
        _warned.add(what)
        warnings.warn(
            f"{what} has no kernels for {tensor.device.type} yet: it is computed on the CPU, and "
            "tensors are copied there and back at every call; for several calls in a row on the "
            "same tensors use .cpu() once",
            RuntimeWarning,
            stacklevel=4,
        )
    return True


def moved(value: T, device: torch.device | str) -> T:
    """A tensor, or a tuple or dataclass that holds some, on a device; gradients follow.

    What holds no tensors is given back as it is.
    """
    new: Any = value
    if isinstance(value, Tensor):
        new = value.to(device)
    elif isinstance(value, tuple):
        parts = tuple(moved(x, device) for x in value)
        new = value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        before = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        after = {name: moved(x, device) for name, x in before.items()}
        changed = {name: x for name, x in after.items() if x is not before[name]}
        new = dataclasses.replace(value, **changed) if changed else value
    return new
