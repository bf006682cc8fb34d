"""Texts that other programs wrote, and the files that they name.

Text formats of this field (OBJ, MTL, OFF, PLY headers, COLMAP, transforms.json) state no encoding.
Programs on Windows begin them with a byte order mark, write backslashes into paths, or use the code
page of their country; macOS decomposes accents in the names of files.
"""

from __future__ import annotations

import codecs
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(content: bytes) -> str:
    """The text of bytes whose encoding is not known; a byte order mark is no part of it.

    What is not UTF-8 is taken as Latin-1, which keeps every byte apart from every other: names that
    differ in the file differ in the text, and the bytes can be had back.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_text(path: Path) -> str:
    """The text of a file whose encoding is not known: `decode`; lines end in a newline."""
    return decode(path.read_bytes()).replace("\r\n", "\n").replace("\r", "\n")


def numbers(text: str) -> list[float]:
    """The words of a text as numbers, without Python's underscores: 1_0 is ten nowhere else.

    Raises:
        ValueError: If a word is no number.
    """
    if "_" in text:
        raise ValueError(f"{next(word for word in text.split() if '_' in word):.40} is no number")
    return [float(word) for word in text.split()]


def first_few(names: Sequence[str]) -> str:
    """Names for a message, which may be very many."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def find_file(folder: Path, name: str) -> Path | None:
    """The file that a text names, relative to a folder, or None if there is none.

    Tried in turn: the name as it is; with slashes for backslashes; and, part by part, a name that
    differs only in composed or decomposed accents, in upper and lower case (if that names one file
    alone), or in that the text was not UTF-8 and the name on the disk has the same bytes.
    The caller decides whether a file outside of the folder may be read.
    """
    for spelled in dict.fromkeys((name, name.replace("\\", "/"))):
        if os.path.isfile(whole := folder / spelled):  # False also for names no file can have
            return whole
    place = folder
    for part in Path(name.replace("\\", "/")).parts:
        if os.path.exists(place / part):  # also "/" and ".."
            place = place / part
        elif (found := _alike(place, part)) is not None:
            place = found
        else:
            return None
    return place if os.path.isfile(place) else None


def _alike(folder: Path, name: str) -> Path | None:
    try:
        there = os.listdir(folder)
    except OSError:
        return None
    legacy = _same_bytes(name)
    for same in (_composed, folded):
        found = [other for other in there if same(other) in {same(name), same(legacy)}]
        if len(found) == 1:
            return folder / found[0]
    return None


def _same_bytes(name: str) -> str:
    """The name of a file on the disk whose bytes a text gave as Latin-1."""
    try:
        return os.fsdecode(name.encode("latin-1"))
    except UnicodeEncodeError:
        return name


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def folded(name: str) -> str:
    """A name such that names are equal that differ in case or composed accents only."""
    return _composed(name).casefold()
