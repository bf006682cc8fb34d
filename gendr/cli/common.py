"""Checks that several commands share."""

from __future__ import annotations

import os
from pathlib import Path

import torch


def check_device(text: str) -> torch.device:
    """A device that works here.

    Raises:
        ValueError: for anything else, with those that do.
    """
    usable = ["cpu"]
    if torch.cuda.is_available():
        usable += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if text not in usable:
        raise ValueError(f"no device {text!r} here; usable: {', '.join(usable)}")
    return torch.device(text)


def check_writable(folder: Path, option: str = "-o") -> Path:
    """Make a folder and see that files can be written to it.

    Args:
        folder: Which one.
        option: Of the command line, where another can be chosen.

    Raises:
        ValueError: if that fails.
    """
    probe = folder / f".gendr-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"cannot write to {folder} ({reason}); choose another with {option}"
        raise ValueError(message) from None
    return folder
