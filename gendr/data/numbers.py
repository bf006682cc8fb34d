"""Images of numbers from which lists are drawn, in parts to learn from and to be judged by."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

__all__ = ["Numbers", "Splits", "digest"]


class Numbers(ABC):
    """Images of numbers on a device, from which lists are drawn.

    Attributes:
        channels: of the convolutions of the published network for them.
    """

    channels: ClassVar[tuple[int, ...]]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image that is drawn."""

    @abstractmethod
    def draw(self, lists: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw lists of numbers, uniformly and with replacement.

        Args:
            lists: how many.
            n: length of each.
            generator: of this device.

        Returns:
            Images [lists, n, C, H, W], float32, and values [lists, n], int64.
        """

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """The same on a device."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where they are."""

    @abstractmethod
    def digest(self) -> str:
        """A short text that other data would not have."""


class Splits(NamedTuple):
    """What is learnt from, what decides when it went best, and what judges that."""

    train: Numbers
    validation: Numbers
    test: Numbers

    def to(self, device: torch.device | str) -> Splits:
        """The same on a device."""
        return Splits(*(numbers.to(device) for numbers in self))


def digest(*tensors: Tensor) -> str:
    """Of uint8 and int64 tensors, by content."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(repr(tuple(tensor.shape)).encode())
        sha.update(tensor.cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]
