"""Reading the photos that splats are trained on: masked ones over a colour, or whole pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from gendr._common.checks import check_count
from gendr.jobs.devices import on_given_devices
from gendr.kernels.threads import mapped
from gendr.mesh import Camera
from gendr.mesh.images import MAX_MEGAPIXELS
from gendr.photos.backdrop import still_backdrop
from gendr.photos.folders import open_folder, read_photo
from gendr.photos.images import decoded_at_once
from gendr.photos.views import color_of

__all__ = ["WHITE", "Photos", "evened", "load_photos"]

# From here on a photo may show anything that is brighter.
WHITE = 0.98


@final
@dataclass(frozen=True, eq=False)
class Photos:
    """B pictures of one scene from known cameras.

    Attributes:
        images: [B, 3, H, W] in [0, 1], over the background where they are transparent.
        alpha: [B, H, W] in [0, 1], 1 in pictures without a mask; None if none has one.
        camera: B cameras. Pictures of several sizes lie in the middle of [H, W], and the cameras
            have a `window`, beside which pictures and alpha say nothing.
        names: The names of the frames in the file.
        background: [3], RGB: what is behind the masks; of whole pictures, the median of the pixels
            at their borders, to start from. Or [3, H, W]: a backdrop that stands still.
        quarters: Quarter turns to the right that make each picture upright, as its EXIF data say;
            () if all are.
        exposures: [B, 3], how bright each is beside the others, where that is known: factors of
            RGB, of geometric mean 1.
        passing: bool [B, H, W], where something stood before the scene in one picture, where that
            is known. The images have there what the others show, which is not to be learnt.
    """

    images: Tensor
    alpha: Tensor | None
    camera: Camera
    names: tuple[str, ...]
    background: Tensor
    quarters: tuple[int, ...] = ()
    exposures: Tensor | None = None
    passing: Tensor | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        height, width = self.image_size
        kind = "whole" if self.alpha is None else "alpha"
        return f"Photos({len(self)} pictures, {width}×{height}, {kind}, {self.images.device})"

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.images.shape[2], self.images.shape[3]

    def __getitem__(self, index: Sequence[int]) -> Photos:
        """The pictures of a list of indices."""
        alpha = None if self.alpha is None else self.alpha[index]
        names = tuple(self.names[i] for i in index)
        quarters = tuple(self.quarters[i] for i in index) if self.quarters else ()
        images, camera = self.images[index], self.camera[index]
        exposures, passing = (
            None if x is None else x[index] for x in (self.exposures, self.passing)
        )
        behind = self.background
        return Photos(images, alpha, camera, names, behind, quarters, exposures, passing)

    def cropped(self, image: Tensor, i: int) -> Tensor:
        """The part of an image [..., H, W] that picture i fills, upright."""
        rows, columns = self.camera[i].region(self.image_size)[0]
        quarters = self.quarters[i] if self.quarters else 0
        return torch.rot90(image[..., rows, columns], -quarters, (-2, -1))

    def to(self, *args: Any, **kwargs: Any) -> Photos:
        """The same in another dtype or on another device, as `Tensor.to`."""
        alpha, exposures = (
            None if x is None else x.to(*args, **kwargs) for x in (self.alpha, self.exposures)
        )
        images, camera = self.images.to(*args, **kwargs), self.camera.to(*args, **kwargs)
        behind = self.background.to(*args, **kwargs)
        passing = None if self.passing is None else self.passing.to(images.device)
        return Photos(images, alpha, camera, self.names, behind, self.quarters, exposures, passing)

    def split(self, every: int = 10, offset: int = 5) -> tuple[Photos, Photos]:
        """Those to train on, and those held out: numbers offset, offset + every, ...

        Raises:
            ValueError: if none is held out.
        """
        check_count("every", every, least=2)
        held_out = range(check_count("offset", offset, least=0), len(self), every)
        if not held_out:
            raise ValueError(f"{len(self)} pictures have no number {offset} to hold out")
        return self[[i for i in range(len(self)) if i not in held_out]], self[[*held_out]]

    def before_backdrop(self) -> Photos | None:
        """Whole pictures before a backdrop that stands still in all, as on a turntable.

        Returns:
            The same with masks and the backdrop; None if it does not stand still around the rim.
        """
        found = None if self.camera.window is not None else still_backdrop(self.images)
        return None if found is None else replace(self, alpha=found[1], background=found[0])


def evened(colors: Tensor, gains: Tensor) -> Tensor:
    """Colours without the exposures, factors >= 0 of them; what is white stays so."""
    return torch.where(colors >= WHITE, colors, (colors / gains).clamp(max=1))


@on_given_devices
def load_photos(
    path: str | Path,
    *,
    cameras: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    background: str | Sequence[float] = "white",
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Photos:
    """Read a folder of pictures with poses, as `gendr.photos.load_views` does, masks or no masks.

    Masks are files or alpha channels; a picture without one counts as a whole.

    Args:
        path: The folder, or the JSON file.
        cameras: The JSON file of the cameras, if it is not in the folder.
        size: Resize to this shorter side, or to (H, W), by averages over areas.
        background: What transparent pictures are laid over: a name or #rrggbb, or RGB in [0, 1].
        max_megapixels: The largest image that is read, in million pixels.
        dtype: float32 or float64.
        device: Where the tensors live.

    Raises:
        TypeError: If `dtype` is neither float32 nor float64.
        ValueError: As `load_views`, but for what that says of masks.
    """
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}")
    behind = torch.tensor(color_of(background), dtype=dtype)
    folder = open_folder(Path(path), size, max_megapixels, cameras)
    images = torch.empty(len(folder.frames), 3, *folder.size, dtype=dtype)
    alpha = torch.empty(len(folder.frames), *folder.size, dtype=dtype)

    def read(i: int) -> bool:
        planes, has_mask = read_photo(folder, i, max_megapixels)
        alpha[i], images[i] = torch.from_numpy(planes[0]), torch.from_numpy(planes[1:])
        return has_mask

    largest = max((frame.size for frame in folder.frames), key=math.prod)
    any_mask = any(mapped(read, range(len(images)), most=decoded_at_once(largest)))
    if any_mask:
        images += (1 - alpha)[:, None] * behind[:, None, None]
    else:
        rims = []
        for i in range(len(images)):
            own = images[i][(slice(None), *folder.place(i))]
            rims += [own[:, [0, -1]].flatten(1), own[:, :, [0, -1]].flatten(1)]
        behind = torch.cat(rims, 1).median(1).values
    photos = Photos(
        images, alpha if any_mask else None, folder.cameras(dtype, "cpu"), folder.names, behind,
        folder.quarters,
    )  # fmt: skip
    return photos.to(device)
