"""Files of Gaussians in few bytes: .splat, .spz and SOG.

Sources: antimatter15/splat, README; nianticlabs/spz, README (versions 2 to 4), extensions/README.md
and the enumerations SpzExtensionType and CoordinateSystem of its headers; "The SOG format"
(developer.playcanvas.com, version 2) and version 1 as splat-transform reads it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr._common.arrays import check_unpacked
from gendr.mesh.files.reports import note
from gendr.photos.splatting.gaussians.cloud import Cloud, harmonics_of_bytes, smallest_three
from gendr.photos.splatting.harmonics import COUNTS, basis, degree_of

Array = NDArray[Any]

__all__ = ["read_sog", "read_splat", "read_spz"]

_ROW = np.dtype([("place", "<f4", 3), ("sizes", "<f4", 3), ("color", "u1", 4), ("turn", "u1", 4)])
# Magic, version, count, degree, bits of fractions, flags, streams, and where their sizes are.
_HEADER, _HEADER_4 = struct.Struct("<4sIIBBBB"), struct.Struct("<4sIIBBBBI12x")
# Bytes that are unpacked at once.
_BLOCK = 1 << 20
# What deflate and zstd make of a byte at most.
_MOST = 1 << 15
# Harmonics beyond the first, by degree.
_REST = (0, 3, 8, 15, 24)
# The flag of extensions; that which names the axes, and the number of what they are without it.
_EXTENDED, _COORDINATE_SYSTEM, _RUB = 0x02, 0xADBE0003, 4
# Images of 1 << 28 pixels and more, and centroids in a row of their image.
_PIXELS, _ROW_OF_CENTROIDS = 1 << 28, 64


def _floats(values: Array) -> Array:
    """The same as float32, which integers of 8 bits do not become by themselves in NumPy 1."""
    return values.astype(np.float32)


def read_splat(path: Path) -> Cloud:
    """The Gaussians of a .splat file, unchecked: rows of 32 bytes, and nothing else."""
    size = path.stat().st_size
    if not size or size % _ROW.itemsize:
        raise ValueError(f"it has {size} bytes, no multiple of {_ROW.itemsize}")
    rows = np.memmap(path, _ROW, "r")
    color = _floats(rows["color"]) / 255
    return Cloud(
        np.array(rows["place"], np.float32), None, harmonics_of_bytes(color[:, :3]), color[:, 3],
        np.array(rows["sizes"], np.float32), (_floats(rows["turn"]) - 128) / 128,
    )  # fmt: skip


def read_spz(path: Path, notes: list[str]) -> Cloud:
    """The Gaussians of an .spz file, unchecked, with axes as in PLY: x right, y down, z ahead."""
    data, axes = path.read_bytes(), _RUB
    if data[:4] == b"NGSP":
        head, take, end = _streams(data)
        if head[-1] & _EXTENDED:
            axes = _axes(data[_HEADER_4.size : _HEADER_4.unpack_from(data)[-1]], notes)
    else:
        head, take, end = _stream(data)
    version, count, degree, fraction, _ = head
    wide = version >= 3
    places = take(9 * count).reshape(count, 3, 3).astype(np.int32)
    place = (places[..., 0] | places[..., 1] << 8 | places[..., 2] << 16) << 8 >> 8
    opacity, color, sizes = (take(n * count).reshape(count, n) for n in (1, 3, 3))
    turn = take((4 if wide else 3) * count)
    rest = take(3 * _REST[degree] * count).reshape(count, _REST[degree], 3)
    end()
    if degree == 4:
        note(notes, "its harmonics of degree 4 are not used")
        rest = rest[:, : COUNTS[-1] - 1]
    if wide:
        bits = turn.view("<u4")
        # From the lowest bits: the last component but the largest, its sign above.
        ten = np.stack([bits >> 20, bits >> 10, bits], 1) & np.uint32(1023)
        three = _floats(ten & 511) * np.float32(np.sqrt(0.5) / 511) * np.where(ten & 512, -1, 1)
        turns = smallest_three(_floats(three), bits >> 30)
    else:
        turns = np.empty((count, 4), np.float32)
        turns[:, :3] = _floats(turn).reshape(count, 3) / 127.5 - 1
        turns[:, 3] = np.sqrt(np.maximum(0, 1 - np.square(turns[:, :3]).sum(1)))
    harmonics = np.empty((count, 1 + rest.shape[1], 3), np.float32)
    harmonics[:, 0] = (_floats(color) / 255 - 0.5) / 0.15
    harmonics[:, 1:] = _floats(rest) / 128 - 1
    # Bits of the number less 1: x right, y up, z ahead. Of PLY y is down.
    flip = _floats(np.where((axes - 1) >> np.arange(3) & 1, 1, -1) * [1, -1, 1])
    # Some axes change their signs, and so do harmonics that are odd in them.
    way, some = torch.tensor([0.3, 0.5, 0.7]), degree_of(harmonics.shape[1])
    signs = (basis(way, some) * basis(way * torch.from_numpy(flip), some)).sign()
    return Cloud(  # coordinates have 24 bits, as float32 has
        np.ldexp(place.astype(np.float32), -fraction) * flip, None,
        harmonics * signs.numpy()[:, None], _floats(opacity[:, 0]) / 255,
        np.exp(_floats(sizes) / 16 - 10),
        np.roll(turns * np.append(flip.prod() * flip, np.float32(1)), 1, 1),
    )  # fmt: skip


def _axes(records: bytes, notes: list[str]) -> int:
    """The number of the axes that extensions name: records of type, size, and so many bytes."""
    axes = _RUB
    while records:
        kind, size = struct.unpack_from("<II", records)
        payload, records = records[8 : 8 + size], records[8 + size :]
        if len(payload) < size:
            raise ValueError(f"its extension 0x{kind:08X} is cut short")
        if kind != _COORDINATE_SYSTEM:
            note(notes, f"its extension 0x{kind:08X} is not used")
            continue
        axes = struct.unpack_from("<I", payload)[0] or _RUB
        if axes > 8:  # of which versions of the library that writes them say different things
            raise ValueError(
                f"SPZ_ADOBE_coordinate_system in it is {axes}; 0 to 8 are read, such as RUB"
            )
    return axes


_Head = tuple[int, int, int, int, int]
_Take = Callable[[int], Array]


def _check_header(magic: bytes, version: int, count: int, degree: int, size: int) -> None:
    if magic != b"NGSP":
        raise ValueError("what it holds compressed does not begin with NGSP")
    if version not in (2, 3, 4):
        raise ValueError(f"it has version {version}; 2, 3 and 4 are read")
    if degree >= len(_REST):
        raise ValueError(f"it has harmonics of degree {degree}")
    if count * (19 + 3 * _REST[degree]) > _MOST * size:
        raise ValueError(f"it has {size} bytes for {count} Gaussians")


def _stream(data: bytes) -> tuple[_Head, _Take, Callable[[], None]]:
    """Header and parts of versions 2 and 3: one stream of gzip."""
    pump = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    ready = bytearray(pump.decompress(data, _HEADER.size))
    if len(ready) < _HEADER.size:
        raise ValueError("its header is cut short")
    magic, version, count, degree, fraction, flags, _ = _HEADER.unpack(ready)
    _check_header(magic, version, count, degree, len(data))
    if flags & _EXTENDED:  # whose place in the stream differs among programs
        raise ValueError(
            "it has extensions within its stream, of which SPZ_ADOBE_coordinate_system says that "
            "axes are others; save it again without, or as version 4"
        )

    def take(size: int) -> Array:
        found = pump.decompress(pump.unconsumed_tail, size) if size else b""
        while len(found) < size and (more := pump.decompress(
            pump.unconsumed_tail, size - len(found))):  # fmt: skip
            found += more
        if len(found) < size:
            raise ValueError("it is cut short")
        return np.frombuffer(found, np.uint8)

    def end() -> None:
        """The sum of all bytes comes last; levels of detail may come before it."""
        while not pump.eof and (pump.decompress(pump.unconsumed_tail, _BLOCK)):
            pass
        if not pump.eof:
            raise ValueError("it is cut short")

    return (version, count, degree, fraction, flags), take, end


def _streams(data: bytes) -> tuple[_Head, _Take, Callable[[], None]]:
    """Header and parts of version 4: streams of zstd, whose sizes are in a table."""
    try:
        from zstandard import ZstdDecompressor, ZstdError
    except ImportError:
        raise ValueError(
            "version 4 needs zstandard: pip install zstandard; or save it as version 3"
        ) from None
    magic, version, count, degree, fraction, flags, streams, at = _HEADER_4.unpack_from(data)
    _check_header(magic, version, count, degree, len(data))
    sizes = np.frombuffer(data, "<u8", 2 * streams, at)[::2].tolist()
    places = iter(zip(np.cumsum([at + 16 * streams, *sizes]).tolist(), sizes, strict=False))

    def take(size: int) -> Array:
        if not size:
            return np.zeros(0, np.uint8)
        start, length = next(places, (0, 0))
        try:
            found = ZstdDecompressor().decompress(data[start : start + length], size)
        except ZstdError as error:
            raise ValueError(f"a stream of it is no zstd: {error}") from None
        if len(found) != size:
            raise ValueError(f"a stream of it has {len(found)} bytes, not {size}")
        return np.frombuffer(found, np.uint8)

    return (version, count, degree, fraction, flags), take, lambda: None


def read_sog(path: Path, notes: list[str]) -> Cloud:
    """The Gaussians of a SOG, unchecked: a zip file, or meta.json with images beside it."""
    if path.is_dir():
        path = path / "meta.json"
    if not zipfile.is_zipfile(path):
        return _sog(lambda name: (path.parent / name).read_bytes(), path.name, notes)
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(member.file_size for member in archive.infolist()))
        named = [n for n in archive.namelist() if n.split("/")[-1] == "meta.json"]
        meta = min(named, key=len, default="meta.json")
        folder = meta.removesuffix("meta.json")
        return _sog(lambda name: archive.read(folder + name), "meta.json", notes)


def _sog(read: Callable[[str], bytes], name: str, notes: list[str]) -> Cloud:
    meta = json.loads(read(name))
    version = meta.get("version", 1)
    if version not in (1, 2):
        raise ValueError(f"it has version {version!r:.20} of SOG; 1 and 2 are read")
    new = version == 2
    count = meta["count"] if new else meta["means"]["shape"][0]
    if not (isinstance(count, int) and count > 0):
        raise ValueError(f"it has {count!r:.20} Gaussians")

    def pixels(key: str, index: int = 0) -> Array:
        return _pixels(read(_plain(meta[key]["files"][index])), key)

    def each(key: str, index: int = 0) -> Array:
        found = pixels(key, index).reshape(-1, 4)[:count]
        if len(found) < count:
            raise ValueError(f"its image of {key} has {len(found)} pixels for {count} Gaussians")
        return found

    def value(key: str, of: Array) -> Array:
        """What bytes stand for: places in a book, or parts of a range."""
        if new:
            return np.array(meta[key]["codebook"], np.float32)[of]
        low, high = (np.array(meta[key][end], np.float32) for end in ("mins", "maxs"))
        return low + (high - low) * (_floats(of) / 255)

    low, high = (np.array(meta["means"][end], np.float64) for end in ("mins", "maxs"))
    bytes_ = [_floats(each("means", i)[:, :3]) for i in (0, 1)]
    parts = (bytes_[0] + 256 * bytes_[1]).astype(np.float64) / 65535
    logs = low + (high - low) * parts
    place = (np.sign(logs) * np.expm1(np.abs(logs))).astype(np.float32)
    turn = each("quats")
    if (turn[:, 3] < 252).any():
        note(
            notes,
            f"{(turn[:, 3] < 252).sum()} of its Gaussians have no quaternion and are not turned",
        )
    three = (_floats(turn[:, :3]) / 127.5 - 1) * np.float32(np.sqrt(0.5))
    turns = smallest_three(three, turn[:, 3] - np.int16(252))
    turns[turn[:, 3] < 252] = [1, 0, 0, 0]
    with np.errstate(over="ignore"):
        sizes = np.exp(value("scales", each("scales")[:, :3]))
    color = each("sh0")
    if new:
        opacity, base = _floats(color[:, 3]) / 255, value("sh0", color[:, :3])
    else:
        found = value("sh0", color)
        with np.errstate(over="ignore"):
            opacity, base = 1 / (1 + np.exp(-found[:, 3])), found[:, :3]
    harmonics = base[:, None]
    if meta.get("shN"):
        centroids, label = pixels("shN"), each("shN", 1)
        rest = centroids.shape[1] // _ROW_OF_CENTROIDS
        if rest not in _REST[1:4] or centroids.shape[1] % _ROW_OF_CENTROIDS:
            raise ValueError(f"its centroids are {centroids.shape[1]} wide, not 192, 512 or 960")
        table = centroids[..., :3].reshape(-1, rest, 3)
        which = label[:, 0] + 256 * label[:, 1].astype(np.int32)
        if which.max() >= len(table):
            raise ValueError(
                f"it has {len(table)} centroids, and Gaussians of number {which.max()}"
            )
        harmonics = np.concatenate([harmonics, value("shN", table)[which]], 1)
    return Cloud(place, None, harmonics, opacity, sizes, turns)


def _plain(name: object) -> str:
    """The name of a file in the same folder."""
    if not isinstance(name, str) or Path(name).name != name or "\\" in name:
        raise ValueError(f"it names the image {name!r:.40}")
    return name


def _pixels(data: bytes, key: str) -> Array:
    """RGBA [H, W, 4] of an image."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        if image.width * image.height >= _PIXELS:
            raise ValueError(f"its image of {key} has {image.width} x {image.height} pixels")
        return np.asarray(image.convert("RGBA"))
