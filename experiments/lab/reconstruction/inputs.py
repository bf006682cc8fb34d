"""Images of anyone's as the network wants them: square, small, the object in the middle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh.images import MAX_MEGAPIXELS
from gendr.photos.images import open_photo, rgba
from gendr.photos.plain_background import object_mask

__all__ = ["FILL", "network_input", "read_image"]

# How much of the square the longer side of the mask takes: about as much as the shapes of the
# published renderings take of theirs.
FILL = 0.6


def read_image(
    path: str | Path,
    side: int = 64,
    *,
    fill: float = FILL,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> Tensor:
    """An image file as the network wants it: RGBA [4, side, side] in [0, 1].

    It is turned upright, as its EXIF data say.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is no image, is too large, or shows no object; the message names it.
    """
    with open_photo(Path(path), max_megapixels) as image:
        pixels = rgba(image)
    try:
        return network_input(torch.from_numpy(pixels), side, fill=fill)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def network_input(image: Tensor, side: int = 64, *, fill: float = FILL) -> Tensor:
    """Cut an image to a square around its object and resize it.

    Args:
        image: RGBA [4, H, W] in [0, 1], straight colours. If it is opaque everywhere, the object
            is what differs from the colour of the border.
        side: of the result.
        fill: how much of the square the longer side of the object takes, in (0, 1].

    Returns:
        [4, side, side] in [0, 1]; colours are 0 where alpha is.

    Raises:
        ValueError: if no object is seen, or an opaque image has no plain background.
    """
    from PIL import Image

    colour, alpha = image[:3], object_mask(image)
    rows, columns = ((alpha > 0.5).any(axis).nonzero().reshape(-1) for axis in (1, 0))
    if not len(rows):
        raise ValueError("its alpha channel is 0 everywhere, so no object is seen")
    (top, bottom), (left, right) = (
        (int(place[0]), int(place[-1]) + 1) for place in (rows, columns)
    )
    half = max(bottom - top, right - left) / fill / 2
    middle = (top + bottom) / 2, (left + right) / 2
    # With colours times alpha, the background is not mixed into the border of the object.
    planes = torch.cat([colour * alpha, alpha[None]]).float().numpy()
    border = int(np.ceil(half)) + 1
    box = (
        middle[1] - half + border, middle[0] - half + border,
        middle[1] + half + border, middle[0] + half + border,
    )  # fmt: skip
    small = [_resized(Image.fromarray(np.pad(plane, border)), side, box) for plane in planes]
    cut = torch.from_numpy(np.stack(small)).clamp(0, 1)
    return torch.cat([(cut[:3] / cut[3:].clamp(min=1e-6)).clamp(0, 1) * (cut[3:] > 0), cut[3:]])


def _resized(
    plane: object, side: int, box: tuple[float, float, float, float]
) -> NDArray[np.float32]:
    """A part of a Pillow image; means over areas where it shrinks."""
    from PIL import Image

    assert isinstance(plane, Image.Image)  # for the type checker
    shrinks = box[2] - box[0] >= side
    how = Image.Resampling.BOX if shrinks else Image.Resampling.BILINEAR
    return np.asarray(plane.resize((side, side), how, box), np.float32)
