"""Numbers that a GPU finds and the host reads in a later call, without waiting; CUDA graphs."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import capturing, lasting


class Readback:
    """A few numbers of a device that the host reads without waiting for them.

    Args:
        device: theirs. Those of the CPU are there at once.
        count: how many.
        dtype: theirs.

    Attributes:
        numbers: [count] on the device, zeros at first, for kernels to write to.
    """

    def __init__(self, device: torch.device, count: int, dtype: torch.dtype = torch.int64) -> None:
        self.numbers = torch.zeros(count, dtype=dtype, device=device)
        self._pending = False
        on_gpu = device.type == "cuda"
        self._host = torch.empty(count, dtype=dtype, device="cpu", pin_memory=on_gpu)
        self._event = torch.cuda.Event() if on_gpu else None

    def send(self, numbers: Tensor) -> None:
        """Copy numbers [count] to the host; not while others are on their way."""
        if self._pending:
            return
        self._host.copy_(numbers, non_blocking=True)
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(numbers.device))
        self._pending = True

    def read(self) -> list[Any] | None:
        """What was sent last, once; None if that is nothing new, or has not arrived."""
        if not self._pending or (self._event is not None and not self._event.query()):
            return None
        values = self._host.tolist()
        self._pending = False
        return values

    def wait(self) -> list[Any]:
        """What was sent last, for which the host waits if it has not arrived; again and again."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.tolist()


@lru_cache(maxsize=256)
@lasting()
def readback_of(
    owner: Hashable, what: str, device: torch.device, count: int, dtype: torch.dtype = torch.int64
) -> Readback:
    """The readback of an owner's calls; those of the 256 asked for last are there.

    Args:
        owner: whose calls follow each other, a weak reference to an object or what else tells it
            from others: a call must not be blamed for what another one was given.
        what: of the owner the numbers are; device, count and dtype belong to it.
        device: of the numbers.
        count: how many there are.
        dtype: theirs.
    """
    return Readback(device, count, dtype)


def earlier(owner: Hashable, what: str, numbers: Tensor) -> list[Any] | None:
    """The numbers of an earlier call, for which nobody waits; those of this one are sent.

    Args:
        owner: as in `readback_of`.
        what: of the owner the numbers are.
        numbers: [count], which a later call gets.

    Returns:
        What an earlier call has sent, once; None if that is nothing new, or has not arrived, or
        while a CUDA graph is being captured.
    """
    if capturing(numbers.device):
        return None
    readback = readback_of(owner, what, numbers.device, len(numbers), numbers.dtype)
    values = readback.read()
    readback.send(numbers)
    return values


# Of the process, not of a thread: autograd launches the kernels of a backward pass in its own.
_holders: list[list[object]] = []


@contextmanager
def holding(held: list[object]) -> Generator[None]:
    """Within it, everything that `hold` is given is put into a list: for as long as a graph lives.

    A CUDA graph reads its tensors by address. Those that a cache gave it would be gone once the
    cache forgets them. Only one graph is captured at a time.
    """
    _holders.append(held)
    try:
        yield
    finally:
        _holders.pop()


def hold(x: object) -> None:
    """Keep something that is read on a device as long as the graph that is being captured."""
    if _holders:
        _holders[-1].append(x)
