"""Arrays in npy and npz files, whose headers are compared with their bytes before any is made.

`numpy.load` believes a header: one of 100 bytes may claim terabytes, and a compressed file of 2 MB
becomes gigabytes before anybody can look at its shape. No pickles are read.
"""

from __future__ import annotations

import io
import json
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gendr._common.files import write_whole

# Bytes that a small file may unpack to, and how many times its own size a large one.
ROOM, TIMES = 1 << 28, 50
# NumPy refuses to evaluate longer headers.
_HEADER = 10_000 + 12
_CHUNK = 1 << 22  # bytes that are read at once
# What a damaged or foreign file raises, somewhere below numpy and zipfile; the parser of headers
# runs out of memory where they are nested too deeply.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, MemoryError, RuntimeError, SyntaxError, TokenError,
    TypeError, ValueError, lzma.LZMAError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class UnpackingError(ValueError):
    """A compressed file would become far more than such files do."""


@contextmanager
def damage_named(path: Path, kind: str) -> Generator[None, None, None]:
    """Turn whatever a damaged file raises into a `ValueError` of one line with its path.

    Args:
        path: of the file.
        kind: what it should be, such as "npz".
    """
    try:
        yield
    except UnpackingError:
        raise
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # no file, no permission
            raise
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ValueError(f"{path} is not a complete {kind} file: {reason}") from None


def check_unpacked(path: Path, unpacked: int) -> None:
    """Raise for a compressed file that would become far more than such files do.

    Raises:
        UnpackingError: for more than 256 MB and 50 times its size.
    """
    size = path.stat().st_size
    if unpacked > max(ROOM, TIMES * size):
        raise UnpackingError(
            f"{path} would unpack from {size} to {unpacked} bytes; if that is right, save it "
            "without compression"
        )


def read_array(path: Path) -> NDArray[Any]:
    """The array of an npy file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no npy file, is cut short, or holds Python objects.
    """
    with damage_named(path, "npy"), path.open("rb") as file:
        return _read(file, path.stat().st_size)


def read_arrays(
    path: Path, names: Collection[str] | Callable[[str], bool] | None = None
) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file by their names.

    Args:
        path: of the file.
        names: of those to read if they are there, or whether one of this name is; by default all.
            What is not read may be anything.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no npz file, is cut short, holds Python objects, or would unpack to
            more than 256 MB and 50 times its size.
    """
    with damage_named(path, "npz"), zipfile.ZipFile(path) as archive:
        members = {
            member.filename.removesuffix(".npy"): member
            for member in archive.infolist()
            if member.filename.endswith(".npy")
        }
        if names is not None:
            chosen = names if callable(names) else names.__contains__
            members = {name: member for name, member in members.items() if chosen(name)}
        check_unpacked(path, sum(member.file_size for member in members.values()))
        found: dict[str, NDArray[Any]] = {}
        for name, member in members.items():
            with archive.open(member) as file:
                found[name] = _read(file, member.file_size)
        return found


def write_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any] | None = None,
    *,
    compressed: bool = False,
) -> None:
    """Write an npz file, whole or not at all.

    Args:
        path: of the file, whose extension is kept.
        arrays: by their names.
        about: plain values beside them, with their "format", for `about_of`.
        compressed: whether the file is smaller, and takes longer to write and to read.

    Raises:
        OSError: if it cannot be written; an existing file is kept.
    """
    if about is not None:
        arrays = {**arrays, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    # Not allow_pickle=False, which NumPy 1.26 would save as an array.
    save: Any = np.savez_compressed if compressed else np.savez
    write_whole(path, lambda file: save(file, **arrays))


def about_of(arrays: dict[str, NDArray[Any]], kind: str) -> dict[str, Any]:
    """Take from the arrays of a file what `write_arrays` wrote about them, but its format.

    Args:
        arrays: of `read_arrays`.
        kind: the format that the file must have.

    Raises:
        AttributeError, LookupError, RecursionError, TypeError, ValueError: if there is no such
            thing, or another format; the error is about "it", for others to name the file.
    """
    about = json.loads(arrays.pop("about").tobytes())
    if (found := about.pop("format")) != kind:
        raise ValueError(f"it has the format {found!r:.40}, this version reads {kind!r}")
    return about


def read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether the order is Fortran's, dtype, and place of the values of an npy file.

    Args:
        file: at the start of the array; left somewhere behind its header.
        size: of the whole, in bytes.

    Raises:
        ValueError: among others, if it is damaged, cut short, or holds Python objects.
    """
    return _parse_header(file.read(_HEADER), size)


def _parse_header(head: bytes, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    file = io.BytesIO(head)
    if np.lib.format.read_magic(file) == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, not numbers")
    if min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise ValueError(f"it has the shape {list(shape)} of {dtype}")
    if file.tell() + math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its array is cut short: {list(shape)} of {dtype} in {size} bytes")
    return shape, fortran, dtype, file.tell()


def _read(file: IO[bytes], size: int) -> NDArray[Any]:
    """The array of an open npy file of `size` bytes."""
    head = file.read(_HEADER)
    shape, fortran, dtype, start = _parse_header(head, size)
    values = np.empty(math.prod(shape) * dtype.itemsize, np.uint8)
    ready = min(len(head) - start, len(values))
    values[:ready] = np.frombuffer(head, np.uint8, ready, start)
    while ready < len(values):
        chunk = file.read(min(_CHUNK, len(values) - ready))
        if not chunk:
            raise ValueError("its array is cut short")
        values[ready : ready + len(chunk)] = np.frombuffer(chunk, np.uint8)
        ready += len(chunk)
    array = values.view(dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
