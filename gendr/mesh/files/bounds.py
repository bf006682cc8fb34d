"""What a mesh file says it holds, checked before anything is made of it.

A few hundred bytes of a GLB may claim any number of values, or place one mesh any number of times.
A text may have one face of millions of corners, or millions of lines that hold nothing.
"""

from __future__ import annotations

from typing import AnyStr

# Bytes of arrays that a small file may become, and how many times its own size a large one: values
# of one byte become float64, and once more what is drawn of them.
_MOST_BYTES, _TIMES = 1 << 29, 20


def most_corners(vertices: int) -> int:
    """How many corners a face may have: where it has a hole, it passes some vertices twice."""
    return max(2 * vertices, 1000)


def is_too_long(line: AnyStr, words: int) -> bool:
    """Whether a line has more than some number of words, of which no more are read."""
    return len(line) > 2 * words and len(line.split(None, words)) > words


class TooMuchError(ValueError):
    """A file would become far more than it holds."""


class Budget:
    """How many bytes of arrays may be made of a file; each is counted before it is made.

    Args:
        size: Bytes of the file, which `grow` adds to.
    """

    def __init__(self, size: int) -> None:
        self._size, self._spent = size, 0

    def grow(self, size: int) -> None:
        """Count bytes that the file names, or that are decompressed, as its own."""
        self._size += size

    def spend(self, size: int) -> None:
        """Count bytes of an array that is about to be made.

        Raises:
            TooMuchError: if all of them are more than are read.
        """
        self._spent += size
        most = max(_MOST_BYTES, _TIMES * self._size)
        if self._spent > most:
            raise TooMuchError(
                f"it claims arrays of {self._spent:.3g} bytes, at most {most:.3g} are read; "
                "save it with fewer instances, or in parts"
            )
