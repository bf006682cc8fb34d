"""Devices that a user asks for by name."""

from __future__ import annotations

import torch


def usable_device(text: str) -> torch.device:
    """The device of a name such as "cpu" or "cuda:0", if it works on this machine.

    Raises:
        ValueError: If it does not; the message lists the devices that do.
    """
    usable = ["cpu"]
    if torch.cuda.is_available():
        usable += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if text not in usable:
        raise ValueError(f"no device {text!r} here; usable: {', '.join(usable)}")
    return torch.device(text)
