"""Devices that a user asks for by name, and the default one of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def on_given_devices(function: F) -> F:
    """Let a function compute where what it is given lives: torch's default device does not count.

    For long work with tables of its own on the CPU; what a user may compile names its devices.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Not get_default_device, an error of torch 2.8 once a default was taken back.
        if torch.empty(0).device.type == "cpu":
            return function(*args, **kwargs)
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


def learns(function: F) -> F:
    """`on_given_devices`, and with gradients, also where the caller has turned them off."""
    return on_given_devices(torch.inference_mode(False)(torch.enable_grad()(function)))


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
