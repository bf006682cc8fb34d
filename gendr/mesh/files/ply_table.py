"""The elements of PLY files, whatever they are called: tables of numbers and of lists.

Source: G. Turk, "The PLY polygon file format", 1994: a header that names elements and the types of
their properties, then the rows of each element, as text or as binary numbers of either byte order.
A list has a length in each row.
"""

from __future__ import annotations

import codecs
import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr._common.texts import decode, numbers

Array = NDArray[Any]
Data = bytes | mmap.mmap

# Codes of NumPy and of `struct` for the names of types, in both spellings.
_TYPES = {
    name: (code, letter)
    for names, code, letter in (
        ("char int8", "i1", "b"), ("uchar uint8", "u1", "B"), ("short int16", "i2", "h"),
        ("ushort uint16", "u2", "H"), ("int int32", "i4", "i"), ("uint uint32", "u4", "I"),
        ("long int64", "i8", "q"), ("ulong uint64", "u8", "Q"), ("float float32", "f4", "f"),
        ("double float64", "f8", "d"),
    )
    for name in names.split()
}  # fmt: skip
_ORDERS = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
# A header ends with the same kind of line as its first: after "\r" alone, "\n" may be a number.
_ENDS = {
    b"\n": re.compile(rb"\nend_header[ \t\r]*\n"),
    b"\r\n": re.compile(rb"\r\nend_header[ \t]*\r?\n"),
    b"\r": re.compile(rb"\rend_header[ \t]*\r"),
}
# Bytes of a header, and of a text that become numbers at a time.
_HEADER, _BLOCK = 1 << 20, 1 << 22


@dataclass
class _Property:
    name: str
    kind: str  # in the header, of NumPy
    length: str | None  # the kind of the length of a list

    def __post_init__(self) -> None:
        for kind in (self.kind, self.length):
            if kind is not None and kind not in _TYPES:
                raise ValueError(
                    f"its property {self.name!r:.40} has the unknown type {kind!r:.40}"
                )


@dataclass
class Element:
    """One kind of row.

    Attributes:
        name: of the element.
        count: how many rows it has.
        kinds: the type of each property in the header, as NumPy has it.
        values: of each property, by its name in lower case: [count], or all lists in one.
        lengths: of each list, for properties that are lists.
    """

    name: str
    count: int
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    lengths: dict[str, Array] = field(default_factory=dict)
    properties: list[_Property] = field(default_factory=list)

    def take(self, *names: str) -> Array | None:
        """The columns [count, names] of numbers, if all are there; what is left was not taken."""
        if not all(name in self.values and name not in self.lengths for name in names):
            return None
        return np.stack([self.values.pop(name) for name in names], 1)

    def take_lists(self, *names: str) -> tuple[Array, Array] | None:
        """All values of the list with one of these names, and the length of each row's."""
        for name in names:
            if name in self.lengths and name in self.values:
                return self.values.pop(name), self.lengths[name]
        return None


def read_elements(data: Data) -> tuple[dict[str, Element], list[str]]:
    """All elements of a PLY file by their names, and its comments.

    Numbers of elements without lists are views of the data.

    Raises:
        ValueError: for what is no PLY file, or a damaged one.
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        data = decode(data[:]).encode()
    if data[:3] == codecs.BOM_UTF8:
        data = data[3:]
    begin = re.match(rb"ply[ \t]*(\r\n|\n|\r)", data)
    if begin is None:
        raise ValueError("it does not begin with 'ply'")
    end = _ENDS[begin[1]].search(data, 0, _HEADER)
    if end is None:
        raise ValueError("its header has no end")
    form, elements, comments = _header(decode(data[begin.end() : end.start()]).splitlines())
    binary, at, order = data, end.end(), _ORDERS[form]
    if form == "ascii":
        binary, at = b"".join(_numbers(data, at)), 0
    for element in elements.values():
        at = _read(binary, at, element, order, form == "ascii")
    if form == "ascii" and at < len(binary):
        raise ValueError("it has more numbers than its header says")
    return elements, comments


def _header(lines: list[str]) -> tuple[str, dict[str, Element], list[str]]:
    form, elements, comments, last = "", dict[str, Element](), list[str](), Element("", 0)
    for line in lines:
        match line.split():
            case ["format", form, *_]:
                pass
            case ["element", name, count] if count.isdecimal() and name not in elements:
                elements[name] = last = Element(name, int(count))
            case ["property", "list", length, kind, name] if elements:
                _add(last, _Property(name.lower(), kind, length))
            case ["property", kind, name] if elements:
                _add(last, _Property(name.lower(), kind, None))
            case ["comment" | "obj_info", *_]:
                comments.append(line.strip().partition(" ")[2])
            case []:
                pass
            case _:
                raise ValueError(f"its header has the line {line.strip()!r:.50}")
    if form not in _ORDERS:
        raise ValueError(f"it has the format {form!r:.40}, not one of {', '.join(_ORDERS)}")
    return form, elements, comments


def _add(element: Element, item: _Property) -> None:
    if item.name in element.kinds:
        raise ValueError(f"its {element.name} has two properties {item.name!r:.40}")
    element.kinds[item.name] = _TYPES[item.kind][0]
    element.properties.append(item)


def _numbers(data: Data, at: int) -> Iterator[bytes]:
    """The numbers of a text, block by block, each as eight bytes."""
    while at < len(data):
        stop = at + _BLOCK
        while stop < len(data) and not data[stop : stop + 1].isspace():
            stop += 1
        yield np.array(numbers(data[at:stop].decode("latin-1")), "<f8").tobytes()
        at = stop


def _read(data: Data, at: int, element: Element, order: str, text: bool) -> int:
    """Fill the columns of an element that begins at a byte; returns where it ends."""
    codes = [
        [("f8", "d") if text else _TYPES[kind] for kind in (item.kind, item.length or item.kind)]
        for item in element.properties
    ]
    widths = [(int(value[1]), int(length[1])) for (value, _), (length, _) in codes]
    least = sum(
        n if item.length else size
        for item, (size, n) in zip(element.properties, widths, strict=True)
    )
    if not element.properties:
        return at
    if least * element.count > len(data) - at:
        raise ValueError("it has fewer rows than its header says")
    if all(item.length is None for item in element.properties):
        names = [item.name for item in element.properties]
        row = np.dtype([(n, order + value[0]) for n, (value, _) in zip(names, codes, strict=True)])
        table = np.ndarray((element.count,), row, data, at)
        element.values |= {name: table[name] for name in names}
        return at + row.itemsize * element.count
    # What comes before each list, how its length is read, and what comes after the last.
    lists: list[tuple[int, struct.Struct, int]] = []
    skip = 0
    for item, (size, _), (_, (_, letter)) in zip(element.properties, widths, codes, strict=True):
        if item.length is None:
            skip += size
        else:
            lists.append((skip, struct.Struct(order + letter), size))
            skip = 0
    starts, end = _starts(data, at, element.count, lists, skip)
    for item, (size, width), (value, length) in zip(element.properties, widths, codes, strict=True):
        column = _anywhere(data, order + value[0])
        if item.length is None:
            element.values[item.name] = column[starts]
            starts = starts + size
        else:
            lengths = _anywhere(data, order + length[0])[starts].astype(np.int64)
            starts = starts + width
            within = np.arange(lengths.sum()) - (np.cumsum(lengths) - lengths).repeat(lengths)
            element.values[item.name] = column[starts.repeat(lengths) + size * within]
            element.lengths[item.name] = lengths
            starts = starts + size * lengths
    return end


def _anywhere(data: Data, kind: str) -> Array:
    """The number that begins at each byte."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, data, strides=(1,))


def _starts(
    data: Data, at: int, count: int, lists: list[tuple[int, struct.Struct, int]], last: int
) -> tuple[Array, int]:
    """Where each row begins, and where the last one ends.

    Raises:
        ValueError: if there are fewer rows.
    """

    def follow(at: int) -> int:
        """Where the row ends that begins here."""
        for skip, length, size in lists:
            at += skip
            number = length.unpack_from(data, at)[0]
            if not (number >= 0 and number == int(number)):
                raise ValueError(f"a list has the length {number}")
            at += length.size + size * int(number)
        return at + last

    if count == 0:
        return np.zeros(0, np.int64), at
    try:
        row = follow(at) - at
        starts = at + row * np.arange(count)
        if row * count <= len(data) - at and _alike(data, starts, lists):
            return starts, at + row * count
        found: list[int] = []
        for _ in range(count):
            found.append(at)
            at = follow(at)
    except (struct.error, OverflowError):
        raise ValueError("it has fewer rows than its header says") from None
    if at > len(data):
        raise ValueError("it has fewer rows than its header says")
    return np.array(found, np.int64), at


def _alike(data: Data, starts: Array, lists: list[tuple[int, struct.Struct, int]]) -> bool:
    """Whether all lists have the length that they have in the first row."""
    for skip, length, size in lists:
        starts = starts + skip
        numbers = _anywhere(data, length.format[:1] + _CODES[length.format[1:]])[starts]
        if (numbers != numbers[:1]).any():
            return False
        starts = starts + length.size + size * int(numbers[0])
    return True


_CODES = {letter: code for code, letter in _TYPES.values()}
