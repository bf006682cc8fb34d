"""The choice of the backend of masks and losses of top-k: by device, or by name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gendr.kernels.backends import Choice

_MODULES = {
    "cpu": "gendr.topk.backends.cpu.backend",
    "triton": "gendr.topk.backends.triton.backend",
}
_choice = Choice("topk", _MODULES)


def kernels_for(operator: str, tensor: Tensor, backend: str, size: int) -> Any:
    """As `Choice.kernels`; None where a row has more than they take at once, too.

    Args:
        operator: its full name.
        tensor: an input.
        backend: "auto", or a name.
        size: numbers of a row, for a mask; its candidates, for a loss.
    """
    found = _choice.kernels(operator, tensor, backend)
    return None if found is None or size > found.most else found
