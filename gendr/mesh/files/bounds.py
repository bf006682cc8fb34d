"""What a mesh file says it holds, checked before anything is made of it.

A few hundred bytes of a GLB may claim any number of values, or place one mesh any number of times.
A text may have one face of millions of corners, or millions of lines that hold nothing.
"""

from __future__ import annotations

import re
from typing import AnyStr

__all__ = ["Budget", "TooMuchError", "check_off", "check_ply", "is_too_long", "most_corners"]

# Bytes of arrays that a small file may become, and how many times its own size a large one: values
# of one byte become float64, and once more what is drawn of them.
_MOST_BYTES, _TIMES = 1 << 29, 20
# Bytes in which a header is looked for; words of a line beside its corners: their number, a colour.
_HEADER, _COLOR = 1 << 16, 16


# The first line of an OFF file that is neither empty, a comment nor its name; of a PLY file, those
# that count something.
_OFF_COUNTS = re.compile(rb"(?:\s|#[^\n]*\n|\w*OFF\b)*(\d+)[ \t]+(\d+)")
_PLY_COUNT = re.compile(rb"element[ \t]+(\w+)[ \t]+(\d+)")


def most_corners(vertices: int) -> int:
    """How many corners a face may have: where it has a hole, it passes some vertices twice."""
    return max(2 * vertices, 1000)


def is_too_long(line: AnyStr, words: int) -> bool:
    """Whether a line has more than some number of words, of which no more are read."""
    return len(line) > 2 * words and len(line.split(None, words)) > words


def check_off(data: bytes) -> None:
    """Raise for an OFF file whose header claims what its bytes cannot be.

    Raises:
        ValueError: for fewer or far more lines, or a face of too many corners.
    """
    counts = _OFF_COUNTS.match(data[:_HEADER])
    if counts is None:
        return  # damaged otherwise
    vertices, faces = (int(n) for n in counts.groups())
    # The shortest lines are "0 0 0" and "3 0 1 2".
    if 6 * vertices + 8 * faces > len(data) + 1:
        raise ValueError("it has fewer lines than its header says")
    if data.count(b"\n") > 4 * (vertices + faces) + _HEADER:
        raise ValueError("it has far more lines than its header says")
    lines = [line for line in data.splitlines() if line.split(b"#")[0].strip()]
    if len(lines) < vertices + faces + 1:
        raise ValueError("it has fewer lines than its header says")
    _check_corners(lines, vertices)


def check_ply(data: bytes) -> None:
    """Raise for a PLY file in text whose header claims what its lines are not.

    Raises:
        ValueError: for fewer lines, or a face of too many corners.
    """
    header, end, _ = data[:_HEADER].partition(b"end_header")
    if not end or b"format ascii" not in header:
        return  # trimesh compares the length of a binary file
    counts = {name: int(count) for name, count in _PLY_COUNT.findall(header)}
    lines = [line for line in data[len(header) :].splitlines() if line.strip()]
    if len(lines) <= sum(counts.values()):
        raise ValueError("it has fewer lines than its header says")
    if b"tristrips" not in counts:  # a strip passes vertices any number of times
        _check_corners(lines, counts.get(b"vertex", 0))


def _check_corners(lines: list[bytes], vertices: int) -> None:
    words = most_corners(vertices) + _COLOR
    if any(is_too_long(line, words) for line in lines):
        raise ValueError(f"a face has more than {words - _COLOR} corners, of {vertices} vertices")


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
