"""Renderings of shapes from 24 sides with their voxels: the files of the benchmark, and their draw.

    >>> train = ShapeNetRenderings("data/shapenet", ["airplane", "chair"], "train")
    >>> pairs = train.draw(64, generator)      # two views of each of 64 shapes
    >>> pairs.images.shape                     # [2, 64, 4, 64, 64] in [0, 1]

A class has two files for each split ("train", "val", "test"), `{id}_{split}_images.npz` of uint8
[N * 24, 4, 64, 64] and `{id}_{split}_voxels.npz` of [N, 32, 32, 32]. View v is seen from azimuth
-15 v degrees, elevation 30 degrees, distance 2.732, through 30 degrees. The images are mirror
images of what our cameras see, and the axes of the voxels are y, x, -z; both are put right here.

Source: Kato, Ushiku, Harada, Neural 3D Mesh Renderer, 2018 (the files); Liu et al., Soft
Rasterizer, 2019 (their use); thesis section 5.4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_choice, check_count, shape_text
from gendr.mesh import Camera, look_at
from lab.data.npz import map_array
from lab.reconstruction.classes import CLASSES, ShapeClass, find_class

SPLITS = ("train", "val", "test")
VIEWS, SIDE, VOXELS = 24, 64, 32
DISTANCE, ELEVATION, FOV = 2.732, 30.0, 30.0


def camera_of_view(view: Tensor) -> Camera:
    """The cameras of views.

    Args:
        view: [B], whole numbers from 0 to 23: azimuths 15 degrees apart.

    Returns:
        B cameras, float32, on the device of `view`, which look at the middle of the shapes.
    """
    azimuth = -(360.0 / VIEWS) * view.to(torch.float32)
    return look_at(DISTANCE, ELEVATION, azimuth, FOV, device=view.device)


def published_images(images: Tensor) -> Tensor:
    """Images [..., H, W] as the files hold them, or back: the left is on the right."""
    return images.flip(-1)


def seen_images(images: Tensor) -> Tensor:
    """Images uint8 [..., H, W] of the files as our cameras see them, in [0, 1]."""
    return published_images(images).float() / 255


def published_voxels(voxels: Tensor) -> Tensor:
    """Voxels [..., x, y, z] as the files hold them, [..., y, x, -z], or back."""
    return voxels.transpose(-3, -2).flip(-1)


class Pairs(NamedTuple):
    """Two views of each of B shapes.

    Attributes:
        images: [2, B, 4, H, W] RGBA in [0, 1].
        views: [2, B] int64, the number of each view.
        shapes: [B] int64, the number of each shape in the data set.
    """

    images: Tensor
    views: Tensor
    shapes: Tensor


class RenderedShape(NamedTuple):
    """One shape of a data set.

    Attributes:
        images: [24, 4, H, W] RGBA in [0, 1].
        voxels: bool [32, 32, 32], indexed [x, y, z]; the first and last centres are at -1/2, 1/2.
        shape_class: what it is.
    """

    images: Tensor
    voxels: Tensor
    shape_class: ShapeClass


@dataclass(frozen=True)
class _Files:
    """The arrays of one class, as the files hold them."""

    shape_class: ShapeClass
    images: NDArray[np.uint8]  # [N * 24, 4, H, W]
    voxels: NDArray[Any]  # [N, 32, 32, 32]

    @classmethod
    def opened(
        cls, folder: Path, shape_class: ShapeClass, split: str, cache: Path | None
    ) -> _Files:
        """Map the files of a class into memory and check that they fit.

        Raises:
            FileNotFoundError: if one is missing.
            ValueError: if one is damaged, or is no file of this layout.
        """
        paths = [folder / f"{shape_class.id}_{split}_{kind}.npz" for kind in ("images", "voxels")]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path} is missing: {shape_class.name} needs {paths[0].name} and "
                    f"{paths[1].name}; {_found(folder, split)}"
                )
        images, voxels = (map_array(path, cache) for path in paths)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 4:
            raise ValueError(
                f"{paths[0]} must hold uint8 images [N * {VIEWS}, 4, H, W], got {images.dtype} "
                f"{shape_text(images.shape)}"
            )
        if images.shape[2] != images.shape[3] or images.shape[2] < 8:
            raise ValueError(
                f"{paths[0]} must hold square images of at least 8 pixels, got "
                f"{shape_text(images.shape[2:])}"
            )
        if len(images) % VIEWS or len(images) == 0:
            raise ValueError(
                f"{paths[0]} must hold {VIEWS} images of each shape, got {len(images)} in all"
            )
        if voxels.shape[1:] != (VOXELS,) * 3:
            raise ValueError(
                f"{paths[1]} must hold voxels [N, {VOXELS}, {VOXELS}, {VOXELS}], got "
                f"{shape_text(voxels.shape)}"
            )
        if len(voxels) * VIEWS != len(images):
            raise ValueError(
                f"{paths[0].name} holds images of {len(images) // VIEWS} shapes, {paths[1].name} "
                f"voxels of {len(voxels)}; they do not belong together"
            )
        return cls(shape_class, images, voxels)

    def __len__(self) -> int:
        return len(self.voxels)


class ShapeNetRenderings:
    """One split of a data set of rendered shapes; see the module for the files.

    Files are mapped into memory: a draw reads the images that it returns and nothing else. Those of
    compressed files are unpacked once, into a folder beside them.

    Args:
        folder: where the files are.
        classes: names or ids, see `find_class`; by default those of which there are files.
        split: "train", "val" or "test".
        cache: the folder for unpacked copies.

    Attributes:
        classes: the classes, in the order given.
        counts: the number of shapes of each. Shapes are numbered through, class by class.
        side: height and width of the images.

    Raises:
        FileNotFoundError: for a missing folder or file; the message says what is there.
        ValueError: for unknown classes, none, one twice, files that are damaged or do not fit.
    """

    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str] | None = None,
        split: str = "train",
        *,
        cache: str | Path | None = None,
    ) -> None:
        check_choice("split", split, SPLITS)
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is no folder; give that of the npz files")
        there = _ids(folder, split)
        wanted = [find_class(text, there) for text in (there if classes is None else classes)]
        if not wanted:
            raise ValueError(f"no class to read: {_found(folder, split)}")
        twice = {one.name for one in wanted if wanted.count(one) > 1}
        if twice:
            raise ValueError(f"each class may be given once, got {', '.join(sorted(twice))} twice")
        where = None if cache is None else Path(cache)
        self._files = [_Files.opened(folder, one, split, where) for one in wanted]
        self.folder, self.split = folder, split
        self.classes = tuple(wanted)
        self.counts = tuple(len(files) for files in self._files)
        sides = {files.images.shape[-1] for files in self._files}
        if len(sides) > 1:
            raise ValueError(
                f"all classes must have images of the same size, got {sorted(sides)} pixels"
            )
        self.side = sides.pop()
        self._starts = np.cumsum((0, *self.counts))

    def __len__(self) -> int:
        """The number of shapes."""
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> RenderedShape:
        if not -len(self) <= index < len(self):
            raise IndexError(f"shape {index} of {len(self)}")
        shape = torch.tensor([index % len(self)])
        views = torch.arange(VIEWS)
        files, _ = self._place(int(shape))
        return RenderedShape(
            self.images(shape.expand(VIEWS), views), self.voxels(shape)[0], files.shape_class
        )

    def __iter__(self) -> Iterator[RenderedShape]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{one.name} {count}" for one, count in zip(self.classes, self.counts, strict=True)
        )
        return f"ShapeNetRenderings({str(self.folder)!r}, {self.split}: {counts})"

    def class_of(self, shapes: Tensor) -> Tensor:
        """The class of each shape [K], as its place in `classes`, int64."""
        found = np.searchsorted(self._starts, shapes.cpu().numpy(), side="right") - 1
        return torch.from_numpy(found)

    def images(self, shapes: Tensor, views: Tensor) -> Tensor:
        """Images [K, 4, H, W] in [0, 1] of shapes [K] in views [K], as our cameras see them."""
        return seen_images(self.stored_images(shapes, views))

    def stored_images(self, shapes: Tensor, views: Tensor) -> Tensor:
        """The images as files hold them, uint8; `seen_images` of them are what `images` gives."""
        found = np.empty((len(shapes), 4, self.side, self.side), np.uint8)
        for k, (shape, view) in enumerate(zip(shapes.tolist(), views.tolist(), strict=True)):
            files, number = self._place(shape)
            found[k] = files.images[number * VIEWS + view]
        return torch.from_numpy(found)

    def voxels(self, shapes: Tensor) -> Tensor:
        """Voxels, bool [K, 32, 32, 32], of shapes [K], indexed [x, y, z]."""
        found = np.empty((len(shapes), VOXELS, VOXELS, VOXELS), bool)
        for k, shape in enumerate(shapes.tolist()):
            files, number = self._place(shape)
            found[k] = files.voxels[number] > 0
        return published_voxels(torch.from_numpy(found))

    def draw(self, batch: int, generator: torch.Generator) -> Pairs:
        """Two different views of each of `batch` shapes; classes are drawn equally often.

        Args:
            batch: how many shapes, with repetition.
            generator: of the CPU; the draw depends on its state and nothing else.
        """
        shapes, views = self.choose(batch, generator)
        images = self.images(shapes.repeat(2), views.flatten()).unflatten(0, (2, batch))
        return Pairs(images, views, shapes)

    def choose(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """What `draw` draws, without the images: shapes [B] and their two views [2, B], int64."""
        check_count("batch", batch)
        counts, starts = torch.tensor(self.counts), torch.from_numpy(self._starts[:-1])
        of = torch.randint(len(self.counts), (batch,), generator=generator)
        share = torch.rand(batch, generator=generator, dtype=torch.float64)
        shapes = starts[of] + (share * counts[of]).long()
        first = torch.randint(VIEWS, (batch,), generator=generator)
        second = (first + torch.randint(1, VIEWS, (batch,), generator=generator)) % VIEWS
        return shapes, torch.stack([first, second])

    def _place(self, shape: int) -> tuple[_Files, int]:
        """The files of a shape, and its number in them."""
        which = int(np.searchsorted(self._starts, shape, side="right")) - 1
        return self._files[which], shape - int(self._starts[which])


def _ids(folder: Path, split: str) -> list[str]:
    """The ids of classes with images of this split, those of ShapeNet in the usual order."""
    end = f"_{split}_images.npz"
    found = sorted(path.name.removesuffix(end) for path in folder.glob(f"*{end}"))
    known = [one.id for one in CLASSES if one.id in found]
    return known + [name for name in found if name not in known]


def _found(folder: Path, split: str) -> str:
    """What there is, for messages."""
    ids = _ids(folder, split)
    if not ids:
        return f"{folder} has no file *_{split}_images.npz"
    return f"there are {', '.join(find_class(one, ids).name for one in ids)}"
