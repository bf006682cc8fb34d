"""How much room lists get, kept from step to step, so that the host waits for no number.

A step makes lists with the room that the steps before have needed. What it needs itself is sent to
the host and read by a later step, when it has arrived.
"""

from __future__ import annotations

import torch

from gendr._runtime.later import Later

SLACK = 1.25  # room, in what was needed last
LEAST = 1 << 12  # entries
MOST = 1 << 27  # entries: half a gigabyte
SEGMENTS = 1 << 13  # extra programs for tiles with many faces


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
