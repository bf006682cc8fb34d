"""One door to files of points and Gaussians, which looks at what is in a file, not at its name."""

from __future__ import annotations

import codecs
import struct
import zipfile
import zlib
from pathlib import Path

from gendr.mesh.files.reports import warn_of
from gendr.photos.splatting.gaussians.cloud import Cloud, checked
from gendr.photos.splatting.gaussians.gltf import EXTENSION, read_gltf
from gendr.photos.splatting.gaussians.packed import read_sog, read_splat, read_spz
from gendr.photos.splatting.gaussians.ply import read_points

__all__ = ["read_cloud"]

# Of other programs, not read.
_FOREIGN = (".ksplat", ".lcc", ".lcc2")
# What damaged files raise.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_cloud(path: str | Path) -> Cloud | None:
    """The points or Gaussians of a file, or of a folder with the images of SOG.

    The format is told by the first bytes; that of .splat files, which have no mark, by the name.

    Returns:
        None if the file is of another kind, such as a mesh.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, holds nothing, or a value that is not finite, or if its name
            is that of Gaussians in a format that is not read.
    """
    path, notes = Path(path), list[str]()
    kind = _kind(path)
    if kind is None:
        if path.suffix.lower() in _FOREIGN:
            raise ValueError(f"{path}: {path.suffix} is not read; splat-transform makes SOG of it")
        return None
    readers = {
        "PLY": lambda: read_points(path, notes), "SPZ": lambda: read_spz(path, notes),
        "SOG": lambda: read_sog(path, notes), "glTF": lambda: read_gltf(path, notes),
        "splat": lambda: read_splat(path),
    }  # fmt: skip
    try:
        cloud = readers[kind]()
        found = None if cloud is None else checked(cloud, notes)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:  # no permission
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path} is damaged: {reason}") from None
    if found is not None:
        warn_of(str(path), notes)
    return found


def _kind(path: Path) -> str | None:
    """The format of a file, None for another one."""
    if path.is_dir():
        return "SOG" if _is_sog(path / "meta.json") else None
    with path.open("rb") as file:
        head = file.read(20)
        if head[:4] == b"glTF":
            # The JSON comes first, and names the extension if it is used.
            return "glTF" if EXTENSION.encode() in file.read(_length(head)) else None
    plain = head.removeprefix(codecs.BOM_UTF8)
    if plain[:3] == b"ply" and plain[3:4] in (b"\n", b"\r", b" ", b"\t"):
        return "PLY"
    if head[:3] == b"\x1f\x8b\x08" or head[:4] == b"NGSP":
        return "SPZ"
    if head[:4] == b"PK\x03\x04":
        return "SOG" if _has_meta(path) else None
    if plain.lstrip()[:1] == b"{" and path.suffix.lower() != ".splat":
        text = path.read_bytes()
        return "glTF" if EXTENSION.encode() in text else "SOG" if _is_sog(path) else None
    # What says so by its name alone is damaged, but .splat, which has no mark.
    return {".splat": "splat", ".spz": "SPZ", ".sog": "SOG"}.get(path.suffix.lower())


def _length(head: bytes) -> int:
    return struct.unpack("<I", head[12:16])[0] if len(head) == 20 else 0


def _has_meta(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.split("/")[-1] == "meta.json" for name in archive.namelist())
    except zipfile.BadZipFile:
        return path.suffix.lower() == ".sog"  # a damaged one


def _is_sog(path: Path) -> bool:
    return path.is_file() and all(key in path.read_bytes() for key in (b'"means"', b'"quats"'))
