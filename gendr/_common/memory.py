"""Memory of large tensors that is used again, and free memory that goes back to the system.

The system gives fresh memory page by page, as it is first touched, which takes longer than filling
it with what a fast kernel computes: of a training step of a logic gate network, 6,000 pages took
more than half. Here the memory of tensors that nobody holds any more is kept for the next ones of
the same size.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import weakref
from collections import defaultdict
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Bytes from which memory is worth keeping: below, the C library keeps it anyway.
LARGE = 1 << 17
# Bytes that are kept at most while nobody uses them.
KEPT = 1 << 28
# A vector of the widest registers, and a line of the cache.
_ALIGNED = 64

Block = NDArray[np.uint8]


class Memory:
    """Blocks that tensors have been in and may be in again.

    Args:
        most: bytes that are kept while nobody uses them; what is beyond is given back.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._free: defaultdict[int, list[Block]] = defaultdict(list)
        self.idle = 0  # bytes that are kept now

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor on the CPU, with whatever is in its memory.

        It is a tensor like any other; its memory is free again when nothing refers to it.
        """
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return torch.empty(shape, dtype=dtype, device="cpu")
        try:
            block = self._free[size].pop()
            self.idle -= size
        except IndexError:  # also where another thread has just taken the last one
            block = np.empty(size + _ALIGNED, np.uint8)
        start = -block.ctypes.data % _ALIGNED
        # The tensor refers to this view as long as its memory is in use, by views of it too.
        view = block[start : start + size]
        weakref.finalize(view, self._give, size, block).atexit = False
        return torch.from_numpy(view).view(dtype).view(shape)

    def _give(self, size: int, block: Block) -> None:
        if self.idle + size <= self._most:
            self._free[size].append(block)
            self.idle += size

    def forget(self) -> None:
        """Let go of what nobody uses."""
        self._free.clear()
        self.idle = 0


@cache
def physical_memory() -> float:
    """Bytes of memory that the machine has; inf where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # on Windows there is no sysconf
        return math.inf


_shared = Memory()


empty = _shared.empty


def empty_like(x: Tensor) -> Tensor:
    """A contiguous tensor of the shape and dtype of x; see `Memory.empty`."""
    return empty(x.shape, x.dtype)


def give_back() -> None:
    """Give free memory back to the system, where a part of a program is done that needed much.

    The C library of Linux has a heap for each thread, of which by itself it gives back the end
    alone: after colours were found in 36 photos of 400² on two threads, it kept 1.2 GiB.
    """
    _shared.forget()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # glibc has it
        trim(0)
