"""Numbers that a GPU finds and the host reads later, without waiting for them."""

from __future__ import annotations

import torch
from torch import Tensor


class Later:
    """A few int32 numbers on a device, and what the host last saw of them.

    Attributes:
        there: [count] int32 on the device, 0 at first.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        # Only pinned memory of the host is written while the host goes on.
        pinned = device.type == "cuda"
        with torch.inference_mode(False):
            self.there: Tensor = torch.zeros(count, dtype=torch.int32, device=device)
            self._here = torch.zeros(count, dtype=torch.int32, pin_memory=pinned)

    def send(self) -> None:
        """Have the numbers copied to the host once the device has got here."""
        self._here.copy_(self.there, non_blocking=True)

    def seen(self) -> list[int]:
        """The numbers of the last copy that is finished."""
        return self._here.tolist()

    def clear(self) -> None:
        """Set all to 0; the host may see the old numbers once more if a copy is under way."""
        self.there.zero_()
        self._here.zero_()


def is_recorded(tensor: Tensor) -> bool:
    """Whether work on the tensor's device is now put into a CUDA graph rather than done."""
    return tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
