"""What every Triton backend shares: whether it is usable here, and how a kernel is launched."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

_OLDEST = (3, 4)  # of Triton
_CAPABILITY = (8, 0)  # of the GPU: Ampere


def interpreted() -> bool:
    """Whether Triton runs its kernels on the CPU, one operation after the other."""
    return os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")


@cache
def available() -> str | None:
    """None if Triton is installed and there is a GPU that it supports, else the reason."""
    try:
        triton = import_module("triton")
    except ImportError as error:
        return (
            f"the triton backend needs Triton, which failed to import ({error}); "
            "pip install 'gendr[triton]' (Linux; PyTorch built for CUDA brings it along)"
        )
    version = tuple(int(n) for n in triton.__version__.split(".")[:2])
    if version < _OLDEST:
        return f"the triton backend needs Triton >= 3.4, found {triton.__version__}"
    if interpreted():
        return None
    if torch.version.cuda is None:
        return (
            "the triton backend needs PyTorch built for CUDA, found "
            f"{torch.__version__}; see https://pytorch.org for the right build"
        )
    if not torch.cuda.is_available():
        return _why_no_gpu()
    found = torch.cuda.get_device_capability()
    if found < _CAPABILITY:
        return (
            "the triton backend needs a GPU of compute capability 8.0 (Ampere) or newer, found "
            f"{torch.cuda.get_device_name()} with {found[0]}.{found[1]}"
        )
    return None


def _why_no_gpu() -> str:
    """The error of PyTorch when CUDA is initialised: no device, or a driver that is too old."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().splitlines()[0]
        return f"the triton backend found no usable NVIDIA GPU: {first}"
    return "the triton backend found no usable NVIDIA GPU: torch.cuda.is_available() is False"


def supports(tensor: Tensor) -> bool:
    """Whether the tensor is on a GPU, or on the CPU while Triton interprets its kernels."""
    return tensor.is_cuda or (interpreted() and tensor.device.type == "cpu")


def run(
    kernel: Any, grid: tuple[int, ...], device: torch.device, *args: Any, **constants: Any
) -> None:
    """Launch a kernel on a device; a grid without programs launches nothing."""
    if 0 in grid:
        return
    if device.type == "cuda":
        if device.index == torch.cuda.current_device():
            kernel[grid](*args, **constants)
        else:
            with torch.cuda.device(device):
                kernel[grid](*args, **constants)
    elif interpreted():
        # The interpreter computes both sides of a `where` with NumPy, which warns of unused values.
        with np.errstate(all="ignore"):
            kernel[grid](*args, **constants)
    else:
        kernel[grid](*args, **constants)
