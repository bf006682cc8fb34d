"""Images of numbers from which lists are drawn, and their split for training and testing."""

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
        channels: output channels of the convolutions in the published network for these images.
    """

    channels: ClassVar[tuple[int, ...]]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W), the shape of an image that is drawn."""

    @abstractmethod
    def draw(self, lists: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw lists of numbers, uniformly and with replacement.

        Args:
            lists: how many lists.
            n: length of each list.
            generator: of random numbers, on the device of the images.

        Returns:
            Images [lists, n, C, H, W], float32, and values [lists, n], int64.
        """

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """The same data on a device."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the images."""

    @abstractmethod
    def digest(self) -> str:
        """A hash of the content as a short text, which tells data sets apart."""


class Splits(NamedTuple):
    """Training data, validation data (which pick the best weights), and test data.

    Attributes:
        train: what is trained with.
        validation: says which weights are best.
        test: what the final numbers are from.
    """

    train: Numbers
    validation: Numbers
    test: Numbers

    def to(self, device: torch.device | str) -> Splits:
        """The same data on a device."""
        return Splits(*(numbers.to(device) for numbers in self))


def digest(*tensors: Tensor) -> str:
    """A hash of the shapes and contents of uint8 and int64 tensors: 16 hexadecimal digits."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(repr(tuple(tensor.shape)).encode())
        sha.update(tensor.cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]
