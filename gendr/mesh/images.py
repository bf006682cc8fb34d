"""Image files: their headers are checked before they are decoded; they are read in bands of rows.

A decoded image keeps the depth of its file (1 to 4 bytes a pixel); floating-point numbers exist
for one band at a time, so that a photo needs little more memory than its pixels. Some decoders can
shrink an image while they decode it (JPEG's draft mode). This is not used, because they would
average colours before the mask is applied, and mix the background into the silhouette.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]
Planes = npt.NDArray[np.float32]  # [C, H, W]

# The default limit for images: phones have up to 108 megapixels, a texture of 16384 x 8192 has 134;
# a file that is far larger was more likely made to exhaust the memory.
MAX_MEGAPIXELS = 150.0
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
# Names of files that Pillow alone does not read.
HEIC = (".heic", ".heif")
# Pillow's modes that must be converted, as they are not grey or RGB with or without alpha.
_AS_RGBA = ("PA", "La", "RGBa")
_AS_RGB = ("CMYK", "YCbCr", "LAB", "HSV", "RGBX")


class UnreadableImageError(ValueError):
    """The file is no image, or a damaged one."""


def check_megapixels(what: object, size: tuple[int, int], max_megapixels: float) -> None:
    """Raise for an image that is larger than allowed.

    Args:
        what: Which image, for the message.
        size: Width and height.
        max_megapixels: How many million pixels are allowed.

    Raises:
        TypeError: if the limit is no number.
        ValueError: if the limit is not positive, or the image larger.
    """
    if isinstance(max_megapixels, bool) or not isinstance(max_megapixels, (int, float)):
        raise TypeError(f"max_megapixels must be a number, got {type(max_megapixels).__name__}")
    if not max_megapixels > 0:
        raise ValueError(f"max_megapixels must be > 0, got {max_megapixels:g}")
    width, height = size
    if width * height > max_megapixels * 1e6:
        raise ValueError(
            f"{what} has {width} x {height} pixels, {width * height / 1e6:.4g} megapixels, and at "
            f"most {max_megapixels:g} are read; shrink it, or raise max_megapixels (on the command "
            "line --max-megapixels)"
        )


_switch = threading.Lock()
_readers = 0
_pillow_limit: int | None = None


@contextmanager
def without_pillow_limit() -> Generator[None, None, None]:
    """Switch off Pillow's own limit of image sizes, which warns of large images or refuses them.

    The limit is a global of the process; it is restored when the last reader has ended. Use
    `check_megapixels` in its place.
    """
    from PIL import Image

    global _readers, _pillow_limit
    with _switch:
        if _readers == 0:
            _pillow_limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        _readers += 1
    try:
        yield
    finally:
        with _switch:
            _readers -= 1
            if _readers == 0:
                Image.MAX_IMAGE_PIXELS = _pillow_limit


def read_size(path: Path, max_megapixels: float = MAX_MEGAPIXELS) -> tuple[int, int]:
    """(H, W) of an image file, from its header.

    Raises:
        UnreadableImageError: if it is no image.
        ValueError: if it is larger than allowed.
    """
    with _opened(path, max_megapixels) as image:
        return image.height, image.width


def decoded_at_once(size: tuple[int, int]) -> int:
    """How many images of a size may be decoded at a time: 16 bytes a pixel, as numbers."""
    return max(1, int(_PIXELS_AT_ONCE / math.prod(size)))


def read_orientation(path: Path, max_megapixels: float = MAX_MEGAPIXELS) -> int:
    """How an image must be turned to be upright, 1 to 8 as EXIF has it; 1 if nothing is said.

    TIFF and HEIC come upright from Pillow and its plugin.
    """
    with _opened(path, max_megapixels) as image:
        if image.format == "PNG" and "exif" not in image.info:
            if not _has_late_exif(path):
                return 1
            decode(path, image)
        return _orientation(image)


def _orientation(image: Image) -> int:
    if image.format in ("TIFF", "HEIF"):
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
def open_image(
    path: Path,
    max_megapixels: float = MAX_MEGAPIXELS,
    turn: int | None = 1,
    content: bytes | None = None,
) -> Generator[Image, None, None]:
    """A decoded image file, for as long as the context lasts.

    Args:
        path: The file.
        max_megapixels: The largest image that is read, in million pixels.
        turn: How it is turned, 1 to 8 as EXIF has it; 1 leaves it as it is in the file, and None
            turns it as the file says, so that it is upright.
        content: The bytes of the image, if it is only a part of that file.

    Raises:
        UnreadableImageError: if it is no image, or a damaged one.
        ValueError: if it is larger than allowed; nothing is decoded then.
    """
    with _opened(path, max_megapixels, content) as image:
        decode(path, image)
        turn = _orientation(image) if turn is None else turn
        yield image if turn == 1 else image.transpose(_TURNS[turn - 2])


def decode(what: object, image: Image) -> None:
    """Decode an opened image.

    Args:
        what: Which image, for the message.
        image: The opened image; decoding it twice does no harm.

    Raises:
        UnreadableImageError: if it is damaged.
    """
    try:
        image.load()
    except Exception as error:  # noqa: BLE001 (Pillow raises anything on a damaged file)
        reason = str(error) or type(error).__name__
        raise UnreadableImageError(f"{what} cannot be read: {reason}") from None


@contextmanager
def _opened(
    path: Path, max_megapixels: float, content: bytes | None = None
) -> Generator[Image, None, None]:
    """An opened image file of which only the header has been read."""
    from PIL import Image

    if path.suffix.lower() in HEIC:
        _register_heic(path)
    with without_pillow_limit():
        try:
            image = Image.open(path if content is None else BytesIO(content))
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:  # no file, no permission
                raise
            raise UnreadableImageError(f"{path} is no readable image") from None
        with image:
            check_megapixels(path, image.size, max_megapixels)
            yield image


def _register_heic(path: Path) -> None:
    """Let Pillow read the photos of phones; they come upright."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise UnreadableImageError(
            f"{path} needs pillow-heif, which is not installed: pip install pillow-heif; or "
            "save it as JPEG"
        ) from None
    register_heif_opener()


@final
class Picture:
    """A decoded image as planes of numbers: grey, grey and alpha, RGB, or RGBA.

    Attributes:
        size: (H, W).
        channels: 1 to 4.
        white: The value that stands for 1.
    """

    def __init__(self, image: Image) -> None:
        self._image, self._mode = image, _plain_mode(image)
        self.size = image.height, image.width
        self.channels = {"LA": 2, "RGB": 3, "RGBA": 4}.get(self._mode, 1)
        deep = self._mode.startswith("I")
        self.white = 65535.0 if deep else 1.0 if self._mode == "F" else 255.0

    def rows(self, start: int, stop: int) -> list[Array]:
        """Each channel [stop - start, W] in the type of the file, within 0 .. white."""
        band = self._image.crop((0, start, self.size[1], stop))
        if band.mode != self._mode:
            band = band.convert(self._mode)
        planes = [np.asarray(plane) for plane in band.split()]
        if self.white == 255:
            return planes
        return [plane.clip(0, self.white) for plane in planes]  # 32 bits may hold anything

    def highest(self, channel: int) -> float:
        """The largest number in a channel."""
        return max(float(self.rows(*band)[channel].max()) for band in _bands(self.size))

    def lowest(self, channel: int) -> float:
        """The smallest number in a channel."""
        return min(float(self.rows(*band)[channel].min()) for band in _bands(self.size))

    @property
    def is_grey(self) -> bool:
        """Whether the colour channels are equal everywhere."""
        if self.channels < 3:
            return True
        for band in _bands(self.size):
            red, green, blue = self.rows(*band)[:3]
            if not (np.array_equal(red, green) and np.array_equal(red, blue)):
                return False
        return True


def rgba(image: Image) -> Planes:
    """A decoded image of any depth as [4, H, W] in [0, 1]; opaque if it has no transparency."""
    picture = Picture(image)
    if picture.white == 255:
        return np.asarray(image.convert("RGBA"), np.float32).transpose(2, 0, 1) / np.float32(255)
    # Pillow would cut these to 8 bits.
    grey = (picture.rows(0, image.height)[0] / picture.white).astype(np.float32)
    return np.stack([grey, grey, grey, np.ones_like(grey)])


def _plain_mode(image: Image) -> str:
    """The Pillow mode in which an image is read."""
    mode = image.mode
    # A palette may be transparent, and one colour of PNGs of other modes.
    keyed = "transparency" in image.info and mode in ("1", "L", "P", "RGB")
    if mode in _AS_RGBA or keyed:
        return "RGBA"
    if mode in _AS_RGB or mode == "P":
        return "RGB"
    return "L" if mode == "1" else mode


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
