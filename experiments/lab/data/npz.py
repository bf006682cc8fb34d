"""Arrays of npz files, read in parts.

`numpy.load` reads an array of an npz file as a whole. Here it is mapped into memory instead, so
that only what is used is read: in place if the file is not compressed, else from a copy that is
unpacked once.
"""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from gendr._common.arrays import damage_named, read_header

__all__ = ["map_array"]

CACHE = ".gendr-unpacked"  # the folder of unpacked copies, beside the files
CHUNK = 1 << 24  # bytes that are unpacked at once
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a file within a zip file: signature, two lengths


def map_array(path: str | Path, cache: str | Path | None = None) -> NDArray[Any]:
    """The only array of an npz file, or the first if there are several, mapped into memory.

    Args:
        path: the npz file.
        cache: the folder for the unpacked copy of a compressed file, by default a folder
            `.gendr-unpacked` beside it. A copy is used again as long as size and time of the file
            are the same.

    Returns:
        A read-only array.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no npz file, is truncated, or holds no plain array.
        OSError: if the copy cannot be written.
    """
    path = Path(path)
    with damage_named(path, "npz"), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if not members:
            raise ValueError("it holds no array")
        member = members[0]
        if member.compress_type == zipfile.ZIP_STORED:
            return _mapped(path, _start(path, member), member.file_size)
        return _unpacked(path, archive, member, Path(cache) if cache else path.parent / CACHE)


def _start(path: Path, member: zipfile.ZipInfo) -> int:
    """Where in the file the bytes of a member begin that is not compressed."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        signature, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise ValueError("a member has no header")
    return member.header_offset + _LOCAL_HEADER.size + name + extra


def _mapped(path: Path, start: int, size: int) -> NDArray[Any]:
    """The array in the npy format that begins at a byte of a file and is `size` bytes long."""
    with path.open("rb") as file:
        size = min(size, file.seek(0, os.SEEK_END) - start)
        file.seek(start)
        shape, fortran, dtype, offset = read_header(file, size)
    if 0 in shape:
        return np.zeros(shape, dtype)  # an empty part of a file cannot be mapped
    order = "F" if fortran else "C"
    return np.memmap(path, dtype, "r", start + offset, shape, order)


def _unpacked(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, cache: Path
) -> NDArray[Any]:
    """The array of a compressed member, from a copy that is made if it is not there yet."""
    status = path.stat()
    copy = cache / f"{path.stem}-{status.st_size}-{status.st_mtime_ns}.npy"
    if not copy.exists():
        with archive.open(member) as source:
            read_header(source, member.file_size)
        cache.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f".new-{os.getpid()}-{copy.name}")
        try:
            with archive.open(member) as source, part.open("wb") as target:
                _copy(source, target, member.file_size, f"unpacking {path.name}")
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)
    return _mapped(copy, 0, copy.stat().st_size)


def _copy(source: IO[bytes], target: IO[bytes], size: int, what: str) -> None:
    """Copy a stream, with a progress bar if that takes more than two seconds."""
    with tqdm(total=size, desc=what, unit="B", unit_scale=True, delay=2, leave=False) as bar:
        while chunk := source.read(CHUNK):
            target.write(chunk)
            bar.update(len(chunk))
    target.flush()
    os.fsync(target.fileno())
