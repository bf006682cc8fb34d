"""Images of numbers from which lists are drawn, and their split for training and testing."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

__all__ = ["Numbers", "Splits", "Stored", "digest", "import_extra"]


@dataclass(frozen=True, eq=False)
class Stored:
    """Data on one device: a base of frozen dataclasses, some of whose fields are tensors."""

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    @property
    def device(self) -> torch.device:
        """The device of the data."""
        return next(iter(self._tensors().values())).device

    def to(self, device: torch.device | str) -> Self:
        """The same data on a device."""
        moved = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return replace(self, **moved)

    def digest(self) -> str:
        """A hash of the content as a short text, which tells data sets apart."""
        return digest(*self._tensors().values())


class Numbers(Stored, ABC):
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


def import_extra(name: str, need: str) -> Any:
    """A module that is not among the requirements of the package.

    Raises:
        RuntimeError: if it is not installed; `need` says what for, and what to do.
    """
    try:
        return import_module(name)
    except ImportError:
        raise RuntimeError(need) from None
