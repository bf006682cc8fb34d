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


class Room:
    """The entries that lists of one kind get.

    Args:
        device: where they are.
        most: that could ever be needed.

    Attributes:
        entries: the room, None before the first step.
    """

    def __init__(self, device: torch.device, most: int) -> None:
        self.most = min(most, MOST)
        self.entries: int | None = None
        self.later = Later(device, 1)

    def look(self) -> None:
        """Read what the last step needed, if that has arrived."""
        found = self.later.read()
        if found is not None:
            self.fit(found[0])

    def fit(self, needed: int) -> None:
        """Grow before the room is full; shrink if little of it is used."""
        now = self.entries
        if now is None or needed > 0.9 * now or needed < now / 8:
            self.entries = min(max(LEAST, int(SLACK * needed)), self.most)
