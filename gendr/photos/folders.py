"""Image folders as a whole: their frames and cameras, before pixels are read; and single photos."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from gendr._common.checks import check_image_size
from gendr.mesh.cameras import Camera
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.reports import warn_caller
from gendr.mesh.images import Picture
from gendr.photos.camera_files.lenses import Lens, Rows, Straightening, straightening
from gendr.photos.camera_files.transforms import (
    TransformsFrame,
    lens_of,
    list_frames,
    pose_of,
    read_cameras,
)
from gendr.photos.images import Planes, highest, is_grey, lowest, open_photo, resized

# The spacing of float32 numbers at the eyes of cameras, divided by the extent of the ring around an
# object, from which on coordinates count from another origin: a tenth of a pixel in a photo of
# 10,000.
_COARSEST_OF_EYES = 1e-5
# How far from black and white pixels of a mask may be, and the share of them that may be farther.
_NEARLY, _BETWEEN = 0.1, 0.2
# Masks that are darker everywhere may be labels, or colours of a palette.
_SOLID = 0.9


class NoMasksError(ValueError):
    """Photos show the object and its background alike."""


@final
@dataclass(frozen=True)
class Folder:
    """An image folder of which no pixel has been read yet.

    Attributes:
        file: What its cameras were read from, for messages.
        frames: Its frames.
        size: (H, W) of what all images are laid into, in the middle: their largest sides.
        sizes: (H, W) to which each is resized.
        camera: A camera for each frame, float64, relative to 0, for images of `size`.
        straightenings: What is undone in the image of each frame.
    """

    file: Path
    frames: tuple[TransformsFrame, ...]
    size: tuple[int, int]
    sizes: tuple[tuple[int, int], ...]
    camera: Camera
    straightenings: tuple[Straightening | None, ...]

    def cameras(self, dtype: torch.dtype, device: torch.device | str) -> Camera:
        """The cameras in a dtype, relative to an origin with which it holds their places."""
        origin = _origin_of_eyes(self.camera.eye.numpy(), dtype)
        return self.camera.relative_to(torch.from_numpy(origin)).to(device, dtype)

    def place(self, i: int) -> tuple[slice, slice]:
        """Rows and columns of what images are laid into that image i fills."""
        beside = [(most - n) // 2 for most, n in zip(self.size, self.sizes[i], strict=True)]
        rows, columns = (slice(k, k + n) for k, n in zip(beside, self.sizes[i], strict=True))
        return rows, columns

    def laid(self, i: int, planes: Planes) -> Planes:
        """Planes [C, h, w] of image i, with 0 beside them: [C, H, W]."""
        if self.sizes[i] == self.size:
            return planes
        page = np.zeros((len(planes), *self.size), planes.dtype)
        page[(slice(None), *self.place(i))] = planes
        return page

    def groups(self) -> list[list[int]]:
        """The rows of images of one size and orientation, for each of these."""
        return grouped(zip(self.sizes, self.quarters, strict=True))

    @property
    def quarters(self) -> tuple[int, ...]:
        """Quarter turns to the right that make each image upright."""
        return tuple(frame.quarters for frame in self.frames)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the frames in the file."""
        return tuple(frame.name for frame in self.frames)


def open_folder(
    path: Path,
    size: int | tuple[int, int] | None,
    max_megapixels: float,
    cameras: str | Path | None = None,
    masks: str | Path | None = None,
) -> Folder:
    """The frames and cameras of an image folder; `gendr.photos.load_views` says more.

    Args:
        path: The folder, or the JSON file.
        size: The shorter side, or (H, W), to which every image is resized.
        max_megapixels: The largest image that is allowed, in million pixels.
        cameras: The file of the cameras, if it is not in the folder.
        masks: The folder of the masks, if it is not in the folder.

    Raises:
        ValueError: if what `load_views` says of folders, sizes, poses and lenses does not hold.
    """
    given = read_cameras(path, None if cameras is None else Path(cameras))
    given = replace(given, masks=None if masks is None else Path(masks))
    frames = list_frames(given, max_megapixels)
    lenses = [lens_of(given.meta, frame) for frame in frames]
    names, sizes = [frame.where for frame in frames], [frame.size for frame in frames]
    straightenings = straightening(lenses, sizes, names)
    targets: list[tuple[int, int]] = []
    pinholes: list[Lens] = []
    for frame, lens, bent in zip(frames, lenses, straightenings, strict=True):
        own = frame.size if bent is None else bent.size(frame.size)
        pinhole = lens if bent is None else bent.pinhole(frame.size)
        targets.append(_target_size(own, size))
        pinholes.append(pinhole.scaled(targets[-1][1] / own[1], targets[-1][0] / own[0]))
    page = max(h for h, _ in targets), max(w for _, w in targets)
    poses = [pose_of(frame) for frame in frames]
    camera = Camera.from_opengl(camera_to_world=torch.from_numpy(np.stack(poses)), fov=30.0)
    k = torch.tensor([[p.fx, p.fy, p.cx, p.cy] for p in pinholes], dtype=torch.float64)
    folder = Folder(given.file, tuple(frames), page, tuple(targets), camera, straightenings)
    places = [folder.place(i) for i in range(len(frames))]
    corner = torch.tensor([[x.start, y.start] for y, x in places], dtype=torch.float64)
    end = torch.tensor([[x.stop, y.stop] for y, x in places], dtype=torch.float64)
    pixels = Camera.from_intrinsics(
        image_size=page,
        fx=k[:, 0],
        fy=k[:, 1],
        cx=k[:, 2] + corner[:, 0],
        cy=k[:, 3] + corner[:, 1],
        rotation=camera.rotation,
        translation=camera.translation,
    )
    if len(set(targets)) > 1:
        wide = torch.tensor([page[1], page[0]], dtype=torch.float64)
        (left, top), (right, bottom) = (((2 * x - wide) / min(page)).T for x in (corner, end))
        pixels = pixels.with_window(torch.stack([left, -bottom, right, -top], 1))
    return replace(folder, camera=pixels.with_origin(torch.zeros(3)))


def grouped(keys: Iterable[Hashable]) -> list[list[int]]:
    """The rows of equal keys, for each of the keys."""
    found: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    return list(found.values())


def has_mask(folder: Folder, i: int, max_megapixels: float) -> bool:
    """Whether image i of a folder has a mask: a file, transparency, or that it is one itself.

    Which a grey one is if nearly all of it is black or white; else it is a photo without colours.
    """
    frame = folder.frames[i]
    if frame.mask is not None:
        return True
    with open_photo(frame.image, max_megapixels, frame.turn) as opened:
        image = Picture(opened)
        if not is_opaque(image):
            return True
        if image.channels in (2, 4) or not is_grey(image):
            return False
        grey = image.rows(0, image.size[0])[0] / image.white
        return float((np.abs(grey - 0.5) > 0.5 - _NEARLY).mean()) > 1 - _BETWEEN


def read_photo(folder: Folder, i: int, max_megapixels: float) -> tuple[Planes, bool]:
    """Image i of a folder, with its mask if it has one: a file of its own, or transparency.

    Returns:
        The mask, or 1, and RGB times the mask: [4, H, W] in [0, 1], 0 beside the photo; and whether
        there is a mask.

    Raises:
        ValueError: if the image or the mask is unreadable or too large.
    """
    frame, bent, size = folder.frames[i], folder.straightenings[i], folder.sizes[i]
    with open_photo(frame.image, max_megapixels, frame.turn) as opened:
        image = Picture(opened)
        if frame.mask is not None:
            with open_photo(frame.mask, max_megapixels, frame.mask_turn, is_mask=True) as mask:
                return folder.laid(i, masked(frame, image, Picture(mask), size, bent)[0]), True
        if not is_opaque(image):
            return folder.laid(i, masked(frame, image, image, size, bent)[0]), True
        channels = [0, 1, 2] if image.channels > 2 else [0, 0, 0]

        def rows(start: int, stop: int) -> npt.NDArray[np.float64]:
            own = image.rows(start, stop)
            planes = [np.full(own[0].shape, image.white), *(own[c] for c in channels)]
            return np.stack(planes).astype(np.float64)

        planes = resized_straight(rows, frame.size, size, bent) / np.float32(image.white)
        return folder.laid(i, planes.clip(0, 1)), False


def resized_straight(
    rows: Rows, size: tuple[int, int], target: tuple[int, int], bent: Straightening | None
) -> Planes:
    """`resized` for what may have to be straightened first."""
    if bent is None:
        return resized(rows, size, target)
    return resized(bent.undone(rows, size), bent.size(size), target)


def masked(
    frame: TransformsFrame,
    image: Picture,
    mask: Picture,
    size: tuple[int, int],
    bent: Straightening | None = None,
) -> tuple[Planes, float]:
    """A decoded image with its mask: colours are multiplied by it, then both are shrunk.

    Args:
        frame: What the image is of.
        image: Grey or RGB, perhaps with alpha.
        mask: Its mask; the image itself, if that is its mask or has an alpha channel.
        size: (H, W) of the result.
        bent: What is undone before, if anything.

    Returns:
        The mask and, unless the image is only a mask, RGB over black: [1 or 4, *size] in [0, 1];
        and the largest value of the mask at its full size.
    """
    alpha = _mask_channel(frame, mask)
    largest = highest(mask, alpha) / mask.white
    if 0 < largest <= 1 / 255 + 1e-9:
        raise ValueError(
            f"{frame.mask or frame.image}: the mask holds only 0 and 1 of 255; multiply it by 255"
        )
    if frame.mask is not None and 0 < largest < _SOLID:
        warn_caller(
            f"a mask in {frame.mask.parent} reaches {255 * largest:.3g} of 255 only: the object is "
            "taken for transparent; if its numbers are labels, write 255 for the object"
        )
    is_mask = mask is image and alpha == 0
    colors = [] if is_mask else [0, 1, 2] if image.channels > 2 else [0, 0, 0]

    def rows(start: int, stop: int) -> npt.NDArray[np.float64]:
        own = image.rows(start, stop)
        weight = own[alpha] if mask is image else mask.rows(start, stop)[alpha]
        planes = np.empty((1 + len(colors), *weight.shape))
        planes[0] = weight
        for plane, channel in zip(planes[1:], colors, strict=True):
            np.multiply(own[channel], weight, out=plane, dtype=np.float64)
        return planes

    planes = resized_straight(rows, frame.size, size, bent)
    planes[0] /= mask.white
    planes[1:] /= image.white * mask.white
    return planes.clip(0, 1), largest


def is_opaque(image: Picture) -> bool:
    """Whether no pixel lets the background through."""
    if image.channels not in (2, 4):
        return True
    return lowest(image, image.channels - 1) == image.white


def _mask_channel(frame: TransformsFrame, picture: Picture) -> int:
    """The channel that is the mask: alpha, unless it is opaque, or the first of a grey picture."""
    if not is_opaque(picture):
        return picture.channels - 1
    if is_grey(picture):
        return 0
    if frame.mask is not None:
        raise ValueError(f"{frame.mask}: a mask must be grey or have transparency, got colours")
    alpha = "no alpha channel" if picture.channels == 3 else "an alpha channel that is opaque"
    raise NoMasksError(
        f"{frame.where}: no mask: {frame.image.name} has {alpha} and is not grey; give images with "
        "transparency, mask_path, a folder masks, or the colour of a plain background"
    )


def _target_size(shape: tuple[int, int], size: int | tuple[int, int] | None) -> tuple[int, int]:
    """(H, W) after resizing."""
    if size is None:
        return shape
    pair = check_image_size(size, "size")
    if isinstance(size, Iterable):
        return pair
    height, width = (max(1, round(n * pair[0] / min(shape))) for n in shape)
    return height, width


def _origin_of_eyes(eyes: npt.NDArray[Any], dtype: torch.dtype) -> npt.NDArray[Any]:
    """The origin from which the coordinates of cameras should count: float64 [3], 0 if not needed.

    Args:
        eyes: [B, 3], in the world. If all are at one place, their extent counts as 1.
        dtype: The dtype that the cameras will have.
    """
    points = (
        eyes
        if len(eyes) and np.ptp(eyes, 0).max() > 0
        else np.concatenate([eyes - 0.5, eyes + 0.5])
    )
    return origin_of(points, dtype, _COARSEST_OF_EYES)
