"""Digits of seven segments, drawn at random: data for short trials that needs no files.

    >>> train, validation, test = segment_splits()
    >>> images, values = train.draw(100, 5, generator)       # [100, 5, 1, 28, 112], [100, 5]

Every digit has its own size, slant, place, width of the stroke, brightness and noise. They are far
easier to read than written ones, so that nothing measured with them says anything about MNIST.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.checks import check_count
from lab.data.mnist import MultiDigits
from lab.data.numbers import Splits

__all__ = ["segment_digits", "segment_splits"]

# The ends of the segments, in (x, y), y down: the six corners of a display, and its seven segments.
CORNERS = ((-1.0, -2.0), (1.0, -2.0), (-1.0, 0.0), (1.0, 0.0), (-1.0, 2.0), (1.0, 2.0))
SEGMENTS = {"a": (0, 1), "b": (1, 3), "c": (3, 5), "d": (4, 5), "e": (2, 4), "f": (0, 2),
            "g": (2, 3)}  # fmt: skip
LIT = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
SIDE = 28  # pixels, as MNIST
# What varies, each uniformly: half the height of a corner in pixels, width / height of a corner,
# shift in pixels, slant, half the width of the stroke in pixels, brightness; and the noise.
UNIT, ASPECT, SHIFT, SLANT = (3.6, 4.8), (0.8, 1.2), (-2.5, 2.5), (-0.15, 0.3)
STROKE, BRIGHTNESS, NOISE = (0.6, 1.6), (0.6, 1.0), 0.08


def segment_digits(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw digits, each as often as the others.

    Args:
        count: how many, >= 1.
        seed: equal seeds draw equal digits.

    Returns:
        Images [count, 28, 28], white on black, and labels [count] in 0 .. 9, both uint8.

    Raises:
        TypeError: if `count` or `seed` is no int.
        ValueError: if `count` < 1 or `seed` < 0.
    """
    check_count("count", count)
    generator = torch.Generator().manual_seed(check_count("seed", seed, least=0))

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, generator=generator)

    labels = torch.randperm(count, generator=generator) % 10
    unit, aspect, slant, shift = uniform(*UNIT), uniform(*ASPECT), uniform(*SLANT), uniform(*SHIFT)
    corners = torch.tensor(CORNERS)
    y = unit * corners[:, 1]
    x = unit * aspect * corners[:, 0] - slant * y + shift + SIDE / 2
    y = y + uniform(*SHIFT) + SIDE / 2
    ends = torch.stack([x, y], -1)[:, torch.tensor([*SEGMENTS.values()])]  # [count, 7, 2, 2]

    lit = torch.tensor([[name in word for name in SEGMENTS] for word in LIT])[labels]
    distance = _distances(ends).masked_fill(~lit[..., None], torch.inf).amin(1)
    ink = (uniform(*STROKE) + 0.5 - distance).clamp(0, 1) * uniform(*BRIGHTNESS)
    ink = ink + NOISE * torch.rand(ink.shape, generator=generator)
    images = (255 * ink.clamp(0, 1)).round().byte().reshape(count, SIDE, SIDE)
    return images, labels.byte()


def _distances(ends: Tensor) -> Tensor:
    """Distances [count, 7, 28 * 28] of the middles of all pixels from segments [count, 7, 2, 2]."""
    middles = torch.arange(SIDE) + 0.5
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    points = torch.stack([x, y], -1).reshape(-1, 2)
    start, along = ends[..., 0, :], ends[..., 1, :] - ends[..., 0, :]
    offset = points - start[..., None, :]
    part = (offset @ along[..., None])[..., 0] / along.square().sum(-1, keepdim=True)
    nearest = part.clamp(0, 1)[..., None] * along[..., None, :]
    return torch.linalg.vector_norm(offset - nearest, dim=-1)


def segment_splits(train: int = 1000, validation: int = 300, test: int = 300) -> Splits:
    """Numbers of four such digits to train, to validate and to test.

    Args:
        train: digits to train with.
        validation: digits to validate with.
        test: digits to test with.
    """
    sizes = (train, validation, test)
    return Splits(*(MultiDigits(*segment_digits(size, seed)) for seed, size in enumerate(sizes)))
