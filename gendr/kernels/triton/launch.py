"""What every Triton backend shares: whether it is usable here, and how a kernel is launched."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache, reduce
from importlib import import_module
from operator import itemgetter, or_
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._common.readback import hold
from gendr.kernels.compat.triton import OLDEST, knows, launch_of, version_of

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
    if version_of(triton) < OLDEST:
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


# ---------------------------------------------------------------------------------------------
# Launches
# ---------------------------------------------------------------------------------------------

_MOST = 256  # compiled kernels that a launcher keeps
_ALIGNED = 15  # bits of an address that are 0 if Triton may assume that it is a multiple of 16


class Launcher:
    """A kernel with its constants on a device, launched by Triton first and without it later.

    At every launch Triton finds out in Python which compiled kernel the arguments want, and that
    takes longer than the launch. A launcher keeps what Triton has found, and launches it itself
    when the same numbers come again, with tensors that begin at multiples of 16 bytes. Triton
    launches everything else: other numbers, tensors that begin elsewhere, all under its interpreter
    or while a hook looks at launches, and all in versions that we have not read. What is changed in
    `triton.knobs` has no effect on what is kept.

    In all calls, arguments in the same place must be of the same type and dtype, and all tensors
    on the device. `run` takes any arguments.

    Args:
        kernel: made by `triton.jit`; its constants come after all other parameters.
        device: where it runs.
        **constants: of the kernel, and options of the compiler.
    """

    def __init__(self, kernel: Any, device: torch.device, **constants: Any) -> None:
        self.kernel, self.device, self.constants = kernel, device, constants
        self._index = device.index or 0
        self._tensors, self._numbers, self._together = (_picker([]) for _ in range(3))
        # By numbers: what launches, the function on the GPU, what Triton wants to know of it, and
        # what holds its hooks and its driver.
        self._kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._last: tuple[Any, ...] = ()

    def __call__(self, grid: tuple[int, ...], *args: Any) -> None:
        """Launch; a grid without programs launches nothing."""
        if 0 in grid:
            return
        hold(args)
        numbers = self._numbers(args)
        kept = self._kept.get(numbers)
        if kept is not None:
            launch, function, metadata, hooks, drivers = kept
            addresses = tuple(map(_address, self._tensors(args)))
            driver, index = drivers.active, self._index
            enter, leave = hooks.launch_enter_hook, hooks.launch_exit_hook
            if not (
                reduce(or_, addresses) & _ALIGNED
                or driver.get_current_device() != index
                # A hook is None or a function; since 3.5 a chain of functions, which may be empty.
                or (enter is not None and getattr(enter, "calls", True))
                or (leave is not None and getattr(leave, "calls", True))
                or self.kernel.pre_run_hooks
            ):
                launch(
                    *grid, *_ONES[len(grid)], driver.get_current_stream(index),
                    function, metadata, None, None, None,
                    *self._together(addresses + numbers), *self._last,
                )  # fmt: skip
                return
        found = self._by_triton(grid, args)
        if found is not None and knows(self.kernel):
            self._keep(found, args)

    def _by_triton(self, grid: tuple[int, ...], args: tuple[Any, ...]) -> Any:
        """Launch by Triton; the compiled kernel."""
        if self.device.type == "cuda" and self.device.index != torch.cuda.current_device():
            with torch.cuda.device(self.device):
                return self.kernel[grid](*args, **self.constants)
        if interpreted():
            # It computes both sides of a `where` with NumPy, which warns of unused values.
            with np.errstate(all="ignore"):
                return self.kernel[grid](*args, **self.constants)
        return self.kernel[grid](*args, **self.constants)

    def _keep(self, found: Any, args: tuple[Any, ...]) -> None:
        """Keep a compiled kernel for the numbers among the arguments, if the tensors are aligned.

        Args:
            found: has `run`, which launches, `function` and `packed_metadata`.
            args: that it was compiled for and has been launched with.
        """
        places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        others = [i for i, x in enumerate(args) if not isinstance(x, Tensor)]
        if not places or any(args[i].data_ptr() & _ALIGNED for i in places):
            return
        if not self._kept:
            order = [*places, *others]
            self._tensors, self._numbers = _picker(places), _picker(others)
            self._together = _picker([order.index(i) for i in range(len(args))])
            rest = self.kernel.params[len(args) :]
            self._last = tuple(self.constants.get(x.name, x.default) for x in rest)
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[self._numbers(args)] = launch_of(found)


_ONES = ((1, 1, 1), (1, 1), (1,), ())  # that a grid of 0, 1, 2 or 3 numbers lacks
_address = Tensor.data_ptr


def _picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes the things in some places out of a tuple."""
    if len(places) < 2:  # of one place `itemgetter` makes no tuple
        return lambda args: tuple(args[i] for i in places)
    return cast("Callable[[tuple[Any, ...]], tuple[Any, ...]]", itemgetter(*places))


def run(
    kernel: Any, grid: tuple[int, ...], device: torch.device, *args: Any, **constants: Any
) -> None:
    """Launch a kernel on a device with any arguments; a grid without programs launches nothing.

    Where a kernel is launched again and again, a `Launcher` that is kept takes less time.
    """
    kinds = tuple((x.dtype, x.device) if isinstance(x, Tensor) else type(x) for x in args)
    values = tuple(constants.values())
    _launcher(kernel, device, kinds, tuple(constants), values, tuple(map(type, values)))(
        grid, *args
    )


@lru_cache(maxsize=1024)
def _launcher(
    kernel: Any,
    device: torch.device,
    _kinds: tuple[Any, ...],
    names: tuple[str, ...],
    values: tuple[Any, ...],
    _types: tuple[type, ...],
) -> Launcher:
    return Launcher(kernel, device, **dict(zip(names, values, strict=True)))
