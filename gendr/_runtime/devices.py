"""Devices that a user names."""

from __future__ import annotations

import torch


def usable_device(text: str) -> torch.device:
    """A device that works here.

    Raises:
        ValueError: For anything else, with those that do.
    """
    usable = ["cpu"]
    if torch.cuda.is_available():
        usable += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if text not in usable:
        raise ValueError(f"no device {text!r} here; usable: {', '.join(usable)}")
    return torch.device(text)
