"""What of a lookup in a texture is no tensor: modes, and the sizes of levels."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BOUNDARIES", "CLAMP", "CUBE", "FILTERS", "LEVEL", "LEVELS", "LINEAR", "NEAREST", "WRAP",
    "ZERO", "Sampling", "Stack",
]  # fmt: skip

FILTERS = ("nearest", "linear", "linear-mipmap-nearest", "linear-mipmap-linear")
BOUNDARIES = ("wrap", "clamp", "zero", "cube")
# Places in these lists, as the kernels have them.
NEAREST, LINEAR, LEVEL, LEVELS = range(4)
WRAP, CLAMP, ZERO, CUBE = range(4)


class Sampling(NamedTuple):
    """What of a lookup is no tensor: places in `FILTERS` and `BOUNDARIES`, sizes of levels."""

    mode: int
    boundary: int
    sizes: tuple[tuple[int, int], ...]

    @property
    def faces(self) -> int:
        """Of an image."""
        return 6 if self.boundary == CUBE else 1

    def starts(self) -> list[int]:
        """The first texel of every level, counted through those of one image."""
        starts = [0]
        for height, width in self.sizes:
            starts.append(starts[-1] + self.faces * height * width)
        return starts


class Stack(NamedTuple):
    """The sizes of the levels of a stack of mipmaps, the first among them, and its faces."""

    sizes: tuple[tuple[int, int], ...]
    faces: int
