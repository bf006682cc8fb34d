"""Pairs of strings of images, of which the second comes from the first by random edits.

    >>> strings = DigitStrings.of(digits, alphabet=(3, 8))
    >>> images, symbols = strings.draw(16, 32, generator)    # [2, 16, 32, 1, 28, 28], [2, 16, 32]

Source: thesis, section 2.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_shape
from lab.data.mnist import MultiDigits
from lab.data.numbers import Stored

__all__ = ["DigitStrings"]

# As published: how often a symbol is deleted and another inserted.
LEAST_EDITS, MOST_EDITS = 2, 4


@final
@dataclass(frozen=True, eq=False)
class DigitStrings(Stored):
    """Images of the symbols of an alphabet, from which pairs of strings are drawn.

    Attributes:
        images: [N, H, W], uint8, those of the first symbol first.
        symbols: [N], int64, 0 .. A - 1, ascending; each at least once.
        alphabet: the digit that each symbol stands for.
    """

    images: Tensor
    symbols: Tensor
    alphabet: tuple[int, ...]

    @classmethod
    def of(cls, digits: MultiDigits, alphabet: Sequence[int]) -> DigitStrings:
        """The strings made of those images of digits that show a digit of an alphabet.

        Raises:
            ValueError: if the alphabet has fewer than two digits, one twice, or one of which there
                is no image.
        """
        alphabet = tuple(alphabet)
        if len(alphabet) < 2 or len(set(alphabet)) < len(alphabet):
            raise ValueError(
                f"an alphabet must have two different digits or more, got {list(alphabet)}"
            )
        places = [(digits.labels == digit).nonzero()[:, 0] for digit in alphabet]
        for digit, place in zip(alphabet, places, strict=True):
            if not len(place):
                raise ValueError(f"there is no image of {digit}; choose digits that there are")
        sizes = torch.tensor([len(place) for place in places], device=digits.device)
        symbols = torch.arange(len(alphabet), device=digits.device).repeat_interleave(sizes)
        return cls(digits.images[torch.cat(places)], symbols, alphabet)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(1, H, W), the shape of an image that is drawn."""
        check_shape("images", self.images, "[N, H, W]")
        return 1, self.images.shape[1], self.images.shape[2]

    def pictures(self, index: Tensor) -> Tensor:
        """The images with these numbers, [..., 1, H, W], float32 in [0, 1]."""
        return self.images[index][..., None, :, :].float() / 255

    def draw(self, pairs: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw pairs of strings; every place of both strings gets an image of its own.

        The symbols of the first string are uniform. The second is the first after 2, 3 or 4 times
        the deletion of a random place and the insertion of a random symbol at a random place, so
        that both are equally long. Strings of 32 then have the published average edit distances:
        about 4.25 for two symbols and 5 for four.

        Args:
            pairs: how many pairs.
            length: of each string, >= 4.
            generator: of random numbers, on the device of the images.

        Returns:
            Images [2, pairs, length, 1, H, W], float32 in [0, 1], and symbols [2, pairs, length],
            int64.

        Raises:
            TypeError: if `pairs` or `length` is no int.
            ValueError: if `pairs` < 1 or `length` < 4.
        """
        check_count("pairs", pairs)
        check_count("length", length, least=MOST_EDITS)
        device = self.device

        def some(low: int, high: int, places: int) -> Tensor:
            size = (pairs, places)
            return torch.randint(low, high, size, generator=generator, device=device)

        first = second = some(0, len(self.alphabet), length)
        edits = some(LEAST_EDITS, MOST_EDITS + 1, 1)
        place = torch.arange(length, device=device)
        for done in range(MOST_EDITS):
            gone, new = some(0, length, 1), some(0, length, 1)
            symbol = some(0, len(self.alphabet), 1)
            # What stands at a place of the new string stood here when the new symbol was not yet
            # inserted, and here when the old one was not yet deleted.
            source = place - (place > new).long()
            source = (source + (source >= gone)).clamp(max=length - 1)
            edited = torch.where(place == new, symbol, second.gather(1, source))
            second = torch.where(done < edits, edited, second)
        symbols = torch.stack([first, second])

        counts = self.symbols.bincount(minlength=len(self.alphabet))
        starts = counts.cumsum(0) - counts
        part = torch.rand(symbols.shape, generator=generator, device=device, dtype=torch.float64)
        index = starts[symbols] + (part * counts[symbols]).long()
        return self.pictures(index), symbols
