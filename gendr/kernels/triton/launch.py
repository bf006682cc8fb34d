"""What every Triton backend shares: whether it is usable here, and how a kernel is launched."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr._common.readback import hold

_OLDEST = (3, 4)  # version of Triton
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
            "pip install '.[triton]' in the repository (Linux; PyTorch built for CUDA brings it "
            "along)"
        )
    if tuple(map(int, triton.__version__.split(".")[:2])) < _OLDEST:
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


def blocks_of(count: int, block: int) -> int:
    """How many blocks of a size hold so many elements."""
    return -(-count // block)


def power_of_2(count: int) -> int:
    """The least power of 2 that is not below a number: blocks of Triton have such sizes."""
    return 1 << max(0, count - 1).bit_length()


class Launcher:
    """A kernel with its constants on a device, on which its tensors must be.

    Args:
        kernel: made by `triton.jit`; its constants come after all other parameters.
        device: where it runs.
        **constants: of the kernel, and options of the compiler.
    """

    def __init__(self, kernel: Any, device: torch.device, **constants: Any) -> None:
        self.kernel, self.device, self.constants = kernel, device, constants

    def __call__(self, grid: tuple[int, ...], *args: Any) -> None:
        """Launch; a grid without programs launches nothing."""
        if 0 in grid:
            return
        hold(args)
        if self.device.type == "cuda" and self.device.index != torch.cuda.current_device():
            with torch.cuda.device(self.device):
                self.kernel[grid](*args, **self.constants)
        elif interpreted():
            # It computes both sides of a `where` with NumPy, which warns of unused values.
            with np.errstate(all="ignore"):
                self.kernel[grid](*args, **self.constants)
        else:
            self.kernel[grid](*args, **self.constants)


def run(
    kernel: Any, grid: tuple[int, ...], device: torch.device, *args: Any, **constants: Any
) -> None:
    """Launch a kernel on a device; a grid without programs launches nothing."""
    Launcher(kernel, device, **constants)(grid, *args)
