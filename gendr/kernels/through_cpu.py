"""The CPU for tensors on a GPU that an operation has no kernels for, or no float64.

A definition in plain torch would take every triangle at every pixel: it fits into no memory, or
never ends. Copies to the CPU and back are some milliseconds, and gradients follow them.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.kernels.numba.compilation import available

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

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
    _warn(f"{what} has no kernels for {tensor.device.type} yet")
    return True


def _warn(reason: str) -> None:
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"{reason}: it is computed on the CPU, and tensors are copied there and back at every "
            "call; for several calls in a row on the same tensors use .cpu() once",
            RuntimeWarning,
            stacklevel=5,
        )


def with_doubles(function: F) -> F:
    """Let a function that computes in float64 do so on the CPU for tensors on mps of Apple."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in (*args, *kwargs.values()):
            if isinstance(x, Tensor):
                if x.device.type != "mps":
                    break
                _warn(f"{function.__name__} takes float64, which mps has not")
                there = {name: moved(value, "cpu") for name, value in kwargs.items()}
                return moved(function(*moved(args, "cpu"), **there), x.device)
        return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


def moved(value: T, device: torch.device | str) -> T:
    """A tensor, or a tuple or dataclass that holds some, on a device; gradients follow.

    What holds no tensors is given back as it is.
    """
    new: Any = value
    if isinstance(value, Tensor):
        new = value.to(device)
    elif isinstance(value, tuple):
        parts = tuple(moved(x, device) for x in value)
        alike = all(a is b for a, b in zip(value, parts, strict=True))
        new = value if alike else getattr(type(value), "_make", tuple)(parts)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        before = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        after = {name: moved(x, device) for name, x in before.items()}
        changed = {name: x for name, x in after.items() if x is not before[name]}
        new = dataclasses.replace(value, **changed) if changed else value
    return new
