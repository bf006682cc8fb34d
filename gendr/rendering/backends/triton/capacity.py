"""How much room lists get, kept from step to step, so that the host waits for no number.

A step makes lists with the room that the steps before have needed. What it needs itself is sent to
the host and read by a later step, when it has arrived.
"""

from __future__ import annotations

import torch
from torch import Tensor

SLACK = 1.25  # room, in what was needed last
LEAST = 1 << 12  # entries
MOST = 1 << 27  # entries: half a gigabyte
SEGMENTS = 1 << 13  # extra programs for tiles with many faces


class Later:
    """A few numbers of a device that the host reads without waiting for them.

    Args:
        device: theirs. Those of the CPU are there at once.
        count: how many.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self.device = device
        self.pending = False
        if device.type == "cuda":
            self.host = torch.empty(count, dtype=torch.int64, pin_memory=True)
            self.event = torch.cuda.Event()
        else:
            self.host = torch.empty(count, dtype=torch.int64)

    def send(self, numbers: Tensor) -> None:
        """Copy numbers [count] int64 to the host; not while others are on their way."""
        if self.pending:
            return
        self.host.copy_(numbers, non_blocking=True)
        if self.device.type == "cuda":
            self.event.record(torch.cuda.current_stream(self.device))
        self.pending = True

    def read(self) -> list[int] | None:
        """What was sent last, once; None if that is nothing new, or has not arrived."""
        if not self.pending or (self.device.type == "cuda" and not self.event.query()):
            return None
        self.pending = False
        return self.host.tolist()


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: then nothing may be read."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


class Room:
    """What lists of one kind get.

    Args:
        device: where they are.
        most: entries that could ever be needed.

    Attributes:
        entries: the room for faces, None before the first step.
        segments: extra programs for lists that are longer than a segment.
    """

    def __init__(self, device: torch.device, most: int) -> None:
        self.most = min(most, MOST)
        self.entries: int | None = None
        self.segments = 0
        self.later = Later(device, 2)

    def look(self) -> None:
        """Read what the last step needed, if that has arrived."""
        found = self.later.read()
        if found is not None:
            self.fit(*found)

    def fit(self, entries: int, segments: int) -> None:
        """Grow before the room is full; shrink if little of it is used."""
        now = self.entries
        if now is None or _is_off(entries, now):
            self.entries = min(max(LEAST, int(SLACK * entries)), self.most)
        if _is_off(segments, self.segments):
            self.segments = min(int(SLACK * segments), SEGMENTS)


def _is_off(needed: int, room: int) -> bool:
    return needed > 0.9 * room or needed < room / 8
