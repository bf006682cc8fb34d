"""Photos: their size and orientation from their headers; they are read in bands of rows.

Floating-point numbers exist for one band at a time, so that a photo needs little more memory than
its pixels. Some decoders can shrink an image while they decode it (JPEG's draft mode). This is not
used, because they would average colours before the mask is applied, and mix the background into the
silhouette.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gendr.mesh.files.reports import warn_caller
from gendr.mesh.images import (
    MAX_MEGAPIXELS,
    Picture,
    UnreadableImageError,
    decode,
    opened,
)

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]
Planes = npt.NDArray[np.float32]  # [C, H, W]

# How many pixels of images are decoded at a time, by as many threads; or one image.
_PIXELS_AT_ONCE = 50e6
# How many pixels of a band are floating-point numbers at a time: a few such planes fit in the
# cache.
_BAND = 1 << 17
# The number of the orientation in EXIF data, and what undoes orientations 2 to 8, as Pillow counts
# its ways to transpose: flips, turns by 90, 180 and 270 degrees to the left, transpose, transverse.
_ORIENTATION = 0x0112
_TURNS: tuple[Any, ...] = (0, 3, 1, 5, 4, 6, 2)
# Quarter turns to the right of the orientations that do not mirror, as those of cameras.
QUARTERS = {3: 2, 6: 1, 8: 3}
# Orientations that are not their own inverses.
UNDONE = {6: 8, 8: 6}
# TIFF 6.0: ImageWidth, ImageLength.
_WIDTH, _LENGTH = 256, 257
# White, red, green and blue of sRGB, BT.2020, Display P3 and Adobe RGB, as x, y of CIE 1931.
_D65 = (0.3127, 0.329)
_PRIMARIES: dict[int | str, tuple[tuple[float, float], ...]] = {
    1: (_D65, (0.64, 0.33), (0.3, 0.6), (0.15, 0.06)),
    9: (_D65, (0.708, 0.292), (0.17, 0.797), (0.131, 0.046)),
    12: (_D65, (0.68, 0.32), (0.265, 0.69), (0.15, 0.06)),
    "R03": (_D65, (0.64, 0.33), (0.21, 0.71), (0.15, 0.06)),
}
# Curves that are powers: BT.470 M and BT.470 BG, and linear light.
_POWERS = {4: 2.2, 5: 2.8, 8: 1.0}
# Matrix of Bradford, for other whites (ICC.1:2022, annex E).
_BRADFORD = ((0.8951, 0.2664, -0.1614), (-0.7502, 1.7135, 0.0367), (0.0389, -0.0685, 1.0296))
_D50 = (0.9642, 1.0, 0.8249)
_INTEROP = 0xA005  # a directory of EXIF, where 1 is InteroperabilityIndex
# Profiles that change no colour by more of 255 are of sRGB.
_SAME = 3


def read_size(path: Path, max_megapixels: float = MAX_MEGAPIXELS) -> tuple[int, int]:
    """(H, W) of an image file as it is stored, from its header.

    Raises:
        UnreadableImageError: if it is no image.
        ValueError: if it is larger than allowed.
    """
    with opened(path, max_megapixels) as image:
        if image.format == "TIFF":  # some versions of Pillow say how large it is when upright
            tags: Any = image
            return tags.tag_v2[_LENGTH], tags.tag_v2[_WIDTH]
        return image.height, image.width


def decoded_at_once(size: tuple[int, int]) -> int:
    """How many images of a size may be decoded at a time: 16 bytes a pixel, as numbers."""
    return max(1, int(_PIXELS_AT_ONCE / math.prod(size)))


def read_orientation(path: Path, max_megapixels: float = MAX_MEGAPIXELS) -> int:
    """How an image must be turned to be upright, 1 to 8 as EXIF has it; 1 if nothing is said.

    HEIC comes upright from Pillow's plugin.
    """
    with opened(path, max_megapixels) as image:
        if image.format == "PNG" and "exif" not in image.info:
            if not _has_late_exif(path):
                return 1
            decode(path, image)
        return _orientation(image)


def _orientation(image: Image) -> int:
    if image.format == "HEIF":
        return 1
    try:
        found = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 (of anything that programs write there)
        return 1
    return found if found in range(1, 9) else 1


def _has_late_exif(path: Path) -> bool:
    """Whether a PNG has EXIF data behind its pixels (PNG, 3rd edition, 11.3.4.5)."""
    with path.open("rb") as file:
        file.seek(8)
        while len(head := file.read(8)) == 8:
            if head[4:] in (b"eXIf", b"zTXt", b"iTXt"):
                return True
            file.seek(4 + int.from_bytes(head[:4], "big"), 1)
    return False


@contextmanager
def open_photo(
    path: Path,
    max_megapixels: float = MAX_MEGAPIXELS,
    turn: int | None = None,
    *,
    is_mask: bool = False,
) -> Generator[Image, None, None]:
    """A decoded image, turned, in sRGB if it says that its colours are of others, as of phones.

    Args:
        path: The file.
        max_megapixels: The largest image that is read, in million pixels.
        turn: How, 1 to 8 as EXIF has it; 1 leaves it as it is in the file, and None turns it as the
            file says, so that it is upright.
        is_mask: Its numbers are kept: they are no colours.
    """
    with opened(path, max_megapixels) as image:
        profile = None if is_mask else _profile(path, image)
        is_tiff, found = image.format == "TIFF", _orientation(image)
        decode(path, image)
        found = found if is_tiff else _orientation(image)  # of a PNG also from behind its pixels
        turn = found if turn is None else turn
        turns = [turn]
        if is_tiff:  # Pillow has turned it upright
            turns = [] if turn == found else [UNDONE.get(found, found), turn]
        if profile is not None:
            image = _in_srgb(image, profile)
        for each in turns:
            image = image if each == 1 else image.transpose(_TURNS[each - 2])
        yield image


def _profile(path: Path, image: Image) -> bytes | None:
    """The ICC profile of an opened image; None for sRGB, and of one that has no colours.

    Without one, of the colours that its header names: numbers of ITU-T H.273, tables 2 and 3, those
    of the Design rule for Camera File system (DCF 2.0), Adobe RGB, and cHRM and gAMA of a PNG.

    Raises:
        UnreadableImageError: if it is brighter than white: PQ and HLG are no sRGB.
    """
    kind: int | str = 0
    curve, power = 0, None
    if image.format in ("HEIF", "AVIF", "PNG"):
        with path.open("rb") as file:
            head = file.read(1 << 16)
        head = head.partition(b"IDAT")[0] if image.format == "PNG" else _own_colours(head) or head
        said = re.search(rb"colrnclx\0(.)\0(.)|cICP(.)(.)", head, re.DOTALL)
        kind, curve = (part[0] for part in said.groups() if part) if said else (0, 0)
        if curve in (16, 18):
            raise UnreadableImageError(
                f"{path} is a photo of high dynamic range (PQ or HLG); save it as JPEG, which is "
                "sRGB"
            )
        power = _POWERS.get(curve)
    elif image.format in ("JPEG", "MPO", "TIFF"):
        with suppress(Exception):  # of anything that programs write there
            if image.getexif().get_ifd(_INTEROP).get(1) == "R03":
                kind, power = "R03", 563 / 256
    if image.mode not in ("RGB", "RGBA", "P", "CMYK"):
        return None
    profile = image.info.get("icc_profile")
    if image.mode == "CMYK" and not profile:
        warn_caller(
            "photos in CMYK, inks of a printer, have no profile that says which: their colours are "
            "a guess; save them as sRGB"
        )
    points = _PRIMARIES.get(kind, _PRIMARIES[1])
    if image.format == "PNG" and not curve and "srgb" not in image.info:
        given = image.info.get("chromaticity", ())
        if len(given) == 8:
            points = tuple(zip(given[::2], given[1::2], strict=True))
        gamma = image.info.get("gamma", 0)
        # Beside its primaries this stands for the curve of sRGB (PNG, 3rd edition, 11.3.2.2), also
        # as 0.45, which libpng (PNG_GAMMA_THRESHOLD) does not tell from it.
        usual = abs(gamma - 0.45455) < 5e-3 and np.allclose(points, _PRIMARIES[1], 0, 1e-3)
        power = 1 / gamma if gamma > 0 and not usual else None
    return profile or _made_profile(points, power)


def _own_colours(head: bytes) -> bytes:
    """The boxes `colr` of the primary image of HEIF and AVIF (ISO/IEC 23008-12:2022, 9.3).

    Thumbnails have others, as does the bright image that a photo and its gain map make. Empty if it
    has none itself, as where only its tiles have one.
    """

    def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
        while len(data) > 8:
            size = int.from_bytes(data[:4], "big") or len(data)
            yield data[4:8], data[8:size]
            data = data[max(8, size) :]

    meta = dict(boxes(dict(boxes(head)).get(b"meta", b"")[4:]))
    primary = int.from_bytes(meta.get(b"pitm", b"")[4:], "big")
    described = list(boxes(meta.get(b"iprp", b"")))
    properties = [b"", *(kind + data for kind, data in boxes(dict(described).get(b"ipco", b"")))]
    found = b""
    for kind, data in described:
        if kind != b"ipma" or len(data) < 8:
            continue
        wide, long, at = 4 if data[0] else 2, 1 + (data[3] & 1), 8
        while at + wide < len(data):
            item, count = int.from_bytes(data[at : at + wide], "big"), data[at + wide]
            at += wide + 1
            for place in range(at, at + count * long, long) if item == primary else ():
                number = int.from_bytes(data[place : place + long], "big") % (1 << (8 * long - 1))
                if number < len(properties) and properties[number].startswith(b"colr"):
                    found += properties[number]
            at += count * long
    return found


@lru_cache
def _made_profile(points: tuple[tuple[float, float], ...], power: float | None) -> bytes | None:
    """A profile: Pillow's of sRGB with other primaries, and a power as its curve, if one is given.

    None for sRGB, and for what is no white with three primaries.
    """
    from PIL import ImageCms

    x, y = np.array(points).T
    if power is None and np.allclose(points, _PRIMARIES[1], 0, 1e-3):
        return None
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError, OverflowError):
        xyz = np.stack([x, y, 1 - x - y]) / y
        seen = np.array(_BRADFORD) @ np.stack([xyz[:, 0], _D50], 1)  # white, and that of profiles
        adapt = np.linalg.solve(_BRADFORD, (seen[:, 1] / seen[:, 0])[:, None] * np.array(_BRADFORD))
        columns = xyz[:, 1:] * np.linalg.solve(xyz[:, 1:], xyz[:, 0])
        columns = np.round(adapt @ columns * 65536)
        if not (np.abs(columns) < 1 << 31).all():
            return None
        data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
        tags = {data[at : at + 4].decode(): int.from_bytes(data[at + 4 : at + 8], "big")
                for at in range(132, 132 + 12 * data[131], 12)}  # fmt: skip
        for name, column in zip(("rXYZ", "gXYZ", "bXYZ"), columns.T, strict=True):
            data[tags[name] + 8 : tags[name] + 20] = column.astype(">i4").tobytes()
        if power is not None:  # parametricCurveType 0: a power
            at = tags["rTRC"] + 8  # that of all
            data[at : at + 8] = bytes(4) + round(power * 65536).to_bytes(4, "big")
        return bytes(data)
    return None


def _in_srgb(image: Image, profile: bytes) -> Image:
    """A decoded image in sRGB: the same one, if its profile says nothing else."""
    transform = _to_srgb(profile, "CMYK" if image.mode == "CMYK" else "RGB")
    if transform is None:
        return image
    from PIL import ImageCms

    if image.mode == "CMYK":
        return ImageCms.applyTransform(image, transform) or image
    if image.mode == "P" or "transparency" in image.info:  # its colour is that before
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    if image.mode == "RGBA":
        alpha = image.getchannel("A")
        image = image.convert("RGB")
        ImageCms.applyTransform(image, transform, inPlace=True)
        image.putalpha(alpha)
    else:
        ImageCms.applyTransform(image, transform, inPlace=True)
    return image


@lru_cache(maxsize=16)
def _to_srgb(profile: bytes, mode: str) -> Any:
    """Little CMS's transform from a profile to sRGB; None if that is what it is, or damaged."""
    from PIL import Image, ImageCms

    try:
        found = ImageCms.buildTransform(
            ImageCms.ImageCmsProfile(BytesIO(profile)), ImageCms.createProfile("sRGB"), mode, "RGB"
        )
    except (ImageCms.PyCMSError, OSError):
        return None
    if mode == "RGB":  # sRGB has many names; it is known by what it does
        grid = np.stack(np.meshgrid(*[np.arange(0, 256, 15)] * 3), -1).astype(np.uint8)
        grid = grid.reshape(18, -1, 3)
        other = np.asarray(ImageCms.applyTransform(Image.fromarray(grid), found), np.int16)
        if np.abs(other - grid).max() <= _SAME:
            return None
    return found


def highest(picture: Picture, channel: int) -> float:
    """The largest number in a channel."""
    return max(float(picture.rows(*band)[channel].max()) for band in _bands(picture.size))


def lowest(picture: Picture, channel: int) -> float:
    """The smallest number in a channel."""
    return min(float(picture.rows(*band)[channel].min()) for band in _bands(picture.size))


def is_grey(picture: Picture) -> bool:
    """Whether the colour channels are equal everywhere."""
    if picture.channels < 3:
        return True
    for band in _bands(picture.size):
        red, green, blue = picture.rows(*band)[:3]
        if not (np.array_equal(red, green) and np.array_equal(red, blue)):
            return False
    return True


def rgba(image: Image) -> Planes:
    """A decoded image of any depth as [4, H, W] in [0, 1]; opaque if it has no transparency."""
    picture = Picture(image)
    if picture.white == 255:
        return np.asarray(image.convert("RGBA"), np.float32).transpose(2, 0, 1) / np.float32(255)
    # Pillow would cut these to 8 bits.
    grey, *alpha = (
        (plane / picture.white).astype(np.float32) for plane in picture.rows(0, image.height)
    )
    return np.stack([grey, grey, grey, *(alpha or [np.ones_like(grey)])])


def _bands(size: tuple[int, int]) -> Generator[tuple[int, int], None, None]:
    """(start, stop) of bands of rows that make up an image of (H, W)."""
    step = max(1, _BAND // max(1, size[1]))
    for start in range(0, size[0], step):
        yield start, min(start + step, size[0])


def resized(
    rows: Callable[[int, int], npt.NDArray[np.float64]],
    size: tuple[int, int],
    target: tuple[int, int],
) -> Planes:
    """Resize planes that are read in bands.

    If no side grows, every pixel is the mean of the pixels whose centres lie in its area; otherwise
    the planes are interpolated linearly.

    Args:
        rows: rows(start, stop) gives [C, stop - start, W].
        size: (H, W) of the planes.
        target: (H, W) of the result.

    Returns:
        [C, *target]
    """
    from PIL import Image

    if target[0] <= size[0] and target[1] <= size[1]:
        return _area_means(rows, size, target)
    return np.stack(
        [
            np.asarray(
                Image.fromarray(plane).resize((target[1], target[0]), Image.Resampling.BILINEAR)
            )
            for plane in _area_means(rows, size, size)
        ]
    )


def _area_means(
    rows: Callable[[int, int], npt.NDArray[np.float64]],
    size: tuple[int, int],
    target: tuple[int, int],
) -> Planes:
    """`resized` if no side grows: means over areas."""
    ys, xs = _edges(size[0], target[0]), _edges(size[1], target[1])
    step = max(1, _BAND * target[0] // (size[0] * size[1]))
    bands: list[Planes] = []
    for first in range(0, target[0], step):
        y = ys[first : first + step + 1]
        values = rows(int(y[0]), int(y[-1]))
        values = _sums(_sums(values, y - y[0], axis=1), xs, axis=2)
        bands.append((values / (np.diff(y)[:, None] * np.diff(xs))).astype(np.float32))
    return np.concatenate(bands, axis=1)


def _edges(size: int, target: int) -> npt.NDArray[np.int64]:
    """[target + 1], the first pixel of each area; a centre on a border belongs to the left area."""
    return (2 * np.arange(target + 1, dtype=np.int64) * size + target) // (2 * target)


def _sums(values: Array, edges: npt.NDArray[np.int64], axis: int) -> Array:
    """Sums of values along an axis, from each edge to the next."""
    if len(edges) == values.shape[axis] + 1:
        return values
    return np.add.reduceat(values, edges[:-1], axis=axis)
