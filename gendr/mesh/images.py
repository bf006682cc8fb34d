"""Image files: their headers are checked before they are decoded, at the depth of the file."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from gendr.mesh.files.reports import warn_caller

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]

# The default limit for images: phones have up to 108 megapixels, a texture of 16384 x 8192 has 134;
# a file that is far larger was more likely made to exhaust the memory.
MAX_MEGAPIXELS = 150.0
# Names of files that Pillow alone does not read.
HEIC = (".heic", ".heif", ".hif")
# Pillow's modes that must be converted, as they are not grey or RGB with or without alpha.
_AS_RGBA = ("PA", "RGBa")
_AS_RGB = ("CMYK", "YCbCr", "LAB", "HSV", "RGBX")
# TIFF 6.0: BitsPerSample, PhotometricInterpretation, PlanarConfiguration, SampleFormat.
_BITS, _WHITE_IS, _PLANES, _SIGNED = 258, 262, 284, 339


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


@contextmanager
def open_image(
    path: Path, max_megapixels: float = MAX_MEGAPIXELS, content: bytes | None = None
) -> Generator[Image, None, None]:
    """A decoded image file, for as long as the context lasts.

    Args:
        path: The file.
        max_megapixels: The largest image that is read, in million pixels.
        content: The bytes of the image, if it is only a part of that file.

    Raises:
        UnreadableImageError: if it is no image, or a damaged one.
        ValueError: if it is larger than allowed; nothing is decoded then.
    """
    with opened(path, max_megapixels, content) as image:
        decode(path, image)
        yield image


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
def opened(
    path: Path, max_megapixels: float, content: bytes | None = None
) -> Generator[Image, None, None]:
    """An opened image file of which only the header has been read."""
    from PIL import Image

    if path.suffix.lower() in HEIC or (content is None and _is_heic(path)):
        _register_heic(path)
    with without_pillow_limit():
        try:
            image = Image.open(path if content is None else BytesIO(content))
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:  # no file, no permission
                raise
            raise UnreadableImageError(
                f"{path} is no readable image; save it as PNG or JPEG of 8 bits"
            ) from None
        with image:
            _check_tiff(path, image)
            check_megapixels(path, image.size, max_megapixels)
            yield image


def _check_tiff(path: Path, image: Image) -> None:
    """Refuse what Pillow 13.0 reads as other numbers, without an error, and unclear whites."""
    tags: Any = getattr(image, "tag_v2", {})
    if max(tags.get(_BITS, (1,))) <= 8:
        return
    if len(tags.get(_BITS)) > 1 and tags.get(_PLANES) == 2:
        kind = "its colours one after the other"
    elif tags.get(_WHITE_IS) == 0:
        kind = "0 for white"
    elif tags[_BITS] == (16,) and tags.get(_SIGNED, (1,))[0] == 2:
        kind = "signs"
    else:
        return
    raise UnreadableImageError(
        f"{path} is a TIFF of 16 bits with {kind}, which is not read; save it as PNG"
    )


def _is_heic(path: Path) -> bool:
    """Whether a file is HEIC by its first bytes: some phones call such files .jpg."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(12)[4:] in (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftyphevx")
    return False


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
        deep = self._mode.startswith("I")
        # The grey that is transparent (PNG, tRNS); that of 8 bits becomes RGBA.
        self._clear = image.info.get("transparency") if deep else None
        grey = 1 if self._clear is None else 2
        self.channels = {"LA": 2, "RGB": 3, "RGBA": 4}.get(self._mode, grey)
        self.white = 65535.0 if deep else 1.0 if self._mode == "F" else 255.0
        if self._mode in ("I", "F"):
            _warn_beyond(image, self.white)

    def rows(self, start: int, stop: int) -> list[Array]:
        """Each channel [stop - start, W] in the type of the file, within 0 .. white."""
        band = self._image.crop((0, start, self.size[1], stop))
        if band.mode != self._mode:
            band = band.convert(self._mode)
        planes = [np.asarray(plane) for plane in band.split()]
        if self.white == 255:
            return planes
        if self._clear is not None:
            planes.append(np.where(planes[0] == self._clear, 0, planes[0].dtype.type(self.white)))
        return [plane.clip(0, self.white) for plane in planes]  # 32 bits may hold anything


def _warn_beyond(image: Image, white: float) -> None:
    """Warn of numbers that are cut, such as fractions that were never divided by 255."""
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if low < 0 or high > white * 1.01:
        name = Path(str(getattr(image, "filename", "") or "an image")).name
        warn_caller(
            f"{name} holds numbers from {low:.4g} to {high:.4g}, which are cut to 0 (black) .. "
            f"{white:g} (white); save it with these, or as PNG of 8 bits"
        )


def _plain_mode(image: Image) -> str:
    """The Pillow mode in which an image is read."""
    mode = image.mode
    # A palette may be transparent, and one colour of PNGs of other modes.
    keyed = "transparency" in image.info and mode in ("1", "L", "P", "RGB")
    if mode in _AS_RGBA or keyed:
        return "RGBA"
    if mode in _AS_RGB or mode == "P":
        return "RGB"
    # Pillow takes grey that is multiplied by alpha (TIFF) to LA alone.
    return {"1": "L", "La": "LA"}.get(mode, mode)
