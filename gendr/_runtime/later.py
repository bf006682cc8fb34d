"""Numbers that a GPU finds and the host reads later, without waiting for them."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.tracing import lasting


class Later:
    """A few numbers of a device that the host reads without waiting for them.

    Args:
        device: theirs. Those of the CPU are there at once.
        count: how many.
        dtype: theirs.
    """

    def __init__(self, device: torch.device, count: int, dtype: torch.dtype = torch.int64) -> None:
        self.device = device
        self.pending = False
        if device.type == "cuda":
            self.host = torch.empty(count, dtype=dtype, pin_memory=True)
            self.event = torch.cuda.Event()
        else:
            self.host = torch.empty(count, dtype=dtype)

    def send(self, numbers: Tensor) -> None:
        """Copy numbers [count] to the host; not while others are on their way."""
        if self.pending:
            return
        self.host.copy_(numbers, non_blocking=True)
        if self.device.type == "cuda":
            self.event.record(torch.cuda.current_stream(self.device))
        self.pending = True

    def read(self) -> list[Any] | None:
        """What was sent last, once; None if that is nothing new, or has not arrived."""
        if not self.pending or (self.device.type == "cuda" and not self.event.query()):
            return None
        self.pending = False
        return self.host.tolist()


@lru_cache(maxsize=256)
@lasting()
def _later_of(
    owner: Hashable, what: str, device: torch.device, count: int, dtype: torch.dtype
) -> Later:
    return Later(device, count, dtype)


def earlier(owner: Hashable, what: str, numbers: Tensor) -> list[Any] | None:
    """The numbers of an earlier call, for which nobody waits; those of this one are sent.

    Args:
        owner: whose calls follow each other, a weak reference to an object or what else tells it
            from others: a call must not be blamed for what another one was given.
        what: of the owner the numbers are; device, dtype and count belong to it.
        numbers: [count], which a later call gets.

    Returns:
        What an earlier call has sent, once; None if that is nothing new, or has not arrived, or
        while a CUDA graph is being captured.
    """
    if capturing(numbers.device):
        return None
    later = _later_of(owner, what, numbers.device, len(numbers), numbers.dtype)
    found = later.read()
    later.send(numbers)
    return found


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: then nothing may be read."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


_held: list[object] | None = None


@contextmanager
def holding(kept: list[object]) -> Generator[None]:
    """Within it, everything that `hold` is given is put into a list: for as long as a graph lives.

    A CUDA graph reads its tensors by address. Those that a cache gave it would be gone once the
    cache forgets them.
    """
    global _held
    before, _held = _held, kept
    try:
        yield
    finally:
        _held = before


def hold(x: object) -> None:
    """Keep something that is read on a device as long as the graph that is being captured."""
    if _held is not None:
        _held.append(x)
