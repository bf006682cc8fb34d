"""Conversion between images and textures."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.texts import find_file
from gendr.mesh.files.reports import note, warn_of
from gendr.mesh.images import MAX_MEGAPIXELS, Picture, UnreadableImageError, open_image

if TYPE_CHECKING:
    from PIL.Image import Image

Array = NDArray[Any]


def load_texture(
    path: str | Path,
    *,
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Read an image file as a texture: [H, W, 3], RGB in [0, 1], row 0 at the top.

    For meshes whose file does not name its texture: `mesh.with_texture(load_texture("x.png"))`.

    Args:
        path: of a PNG, JPEG or any other file that Pillow reads.
        max_megapixels: larger ones are refused.
        dtype: float32 or float64.
        device: of the result.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no image, or one of more than `max_megapixels` million pixels.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no image file at {path}")
    notes: list[str] = []
    with open_image(path, max_megapixels) as image:
        texture = pixels(image, notes)
    warn_of(path.name, notes)
    return torch.from_numpy(texture).to(dtype=dtype, device=device)


def named_image(
    name: str,
    folders: Sequence[Path],
    max_megapixels: float,
    notes: list[str],
    known: dict[Path, Array | None],
) -> Array | None:
    """The pixels of an image that a file names, or None with a note.

    Args:
        name: As it is in the file; a path of another machine is looked for by its last part.
        folders: Where it is looked for, in turn.
        max_megapixels: The largest image that is read.
        notes: Gets a note if it is not there, or cannot be read.
        known: The images that were read before, by their paths.
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    places = (find_file(folder, word) for word in dict.fromkeys((name, last)) for folder in folders)
    path = next((place for place in places if place is not None), None)
    if path is None:
        note(notes, f"its texture {name} is not there")
        return None
    if path not in known:
        known[path] = None
        try:
            with open_image(path, max_megapixels) as image:
                known[path] = pixels(image, notes)
        except (UnreadableImageError, OSError):
            note(notes, f"its texture {name} is no readable image")
    return known[path]


def pixels(image: Image, notes: list[str]) -> Array:
    """The pixels of an image: RGB in [0, 1], [H, W, 3], row 0 at the top."""
    picture = Picture(image)
    if picture.white != 255:  # grey, deeper than 8 bits
        grey = picture.rows(0, image.height)[0].astype(np.float64)
        grey /= picture.white  # in place, here and below: copies of a large image are expensive
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            note(notes, "the transparency of its texture is dropped")
    if image.mode == "CMYK":
        note(notes, "the colours of its texture in CMYK, inks of a printer, are a guess")
    values = np.array(image.convert("RGB"), np.float64)
    values /= 255
    return values


def to_image(texture: Tensor) -> Image:
    """A texture [H, W, 3] as an 8-bit RGB image."""
    from PIL import Image

    return Image.fromarray(to_bytes(texture))


def to_png(texture: Tensor) -> bytes:
    """The content of a PNG file of a texture [H, W, 3]."""
    file = BytesIO()
    to_image(texture).save(file, format="PNG")
    return file.getvalue()


def to_bytes(colors: Tensor) -> Array:
    """Colours in [0, 1] as bytes 0 .. 255, rounded."""
    return (colors.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
