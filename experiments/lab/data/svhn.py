"""House numbers (SVHN), cropped and drawn through a window.

Source: thesis, section 3.5; Netzer et al., Reading Digits in Natural Images with Unsupervised
Feature Learning, 2011; Goodfellow et al., Multi-digit Number Recognition from Street View Imagery,
2013.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.arrays import check_unpacked
from gendr._common.checks import check_count, check_shape
from lab.data.numbers import Numbers, Splits, import_extra

__all__ = ["Box", "HouseNumbers", "house_numbers", "svhn_splits"]

# A crop is this part wider and higher than the box of its digits, and resized to SIDE pixels;
# WINDOW is the side of the images that are drawn from it.
MARGIN, SIDE, WINDOW = 0.3, 64, 54
# How many images of which parts of SVHN are for validation.
HELD_OUT = {"train": 3000, "extra": 2000}


@final
@dataclass(frozen=True, eq=False)
class HouseNumbers(Numbers):
    """House numbers of SVHN, drawn through a window at a random place.

    Attributes:
        images: [N, 3, 64, 64], uint8.
        values: [N], int64.
        window: side of the image that is drawn.

    Raises:
        ValueError: a window larger than the images, or images and values that do not fit.
    """

    channels: ClassVar[tuple[int, ...]] = (32, 64, 128, 256)

    images: Tensor
    values: Tensor
    window: int = WINDOW

    def __post_init__(self) -> None:
        sizes = check_shape("images", self.images, "[N, C, H, W]")
        check_shape("values", self.values, "[N]", N=sizes["N"])
        check_count("window", self.window)
        if self.window > min(sizes["H"], sizes["W"]):
            raise ValueError(
                f"window must be at most the side of the images, {min(sizes['H'], sizes['W'])}, "
                f"got {self.window}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """See `Numbers`."""
        return self.images.shape[1], self.window, self.window

    def draw(self, lists: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """See `Numbers`; images in [-1, 1]."""
        where: dict[str, Any] = {"generator": generator, "device": self.device}
        index = torch.randint(len(self.images), (lists, n), **where)
        inside = torch.arange(self.window, device=self.device)
        top, left = (
            torch.randint(side - self.window + 1, (lists, n, 1), **where) + inside
            for side in self.images.shape[2:]
        )
        seen = self.images[index[..., None, None], :, top[..., :, None], left[..., None, :]]
        return seen.movedim(-1, 2).float() / 127.5 - 1, self.values[index]

    def split(self, count: int, seed: int = 0) -> tuple[HouseNumbers, HouseNumbers]:
        """Split at random into two parts: all but `count` numbers, and these `count`.

        Raises:
            ValueError: if there are not more than `count` numbers.
        """
        if len(self.images) <= count:
            raise ValueError(f"more than {count} house numbers are needed, got {len(self.images)}")
        order = torch.randperm(len(self.images), generator=torch.Generator().manual_seed(seed))
        parts = order[count:], order[:count]
        one, two = (
            replace(self, images=self.images[rows], values=self.values[rows]) for rows in parts
        )
        return one, two


class Box(NamedTuple):
    """The box around the digits of a house number, in pixels, and the number that they form."""

    left: float
    top: float
    right: float
    bottom: float
    value: int


def house_numbers(path: str | Path) -> HouseNumbers:
    """Read a part of SVHN, "Format 1", and crop its numbers.

    The box around all digits, made 30 % wider and higher (but not beyond the image), is resized to
    64 x 64 pixels. Reading train.tar.gz takes a minute or two.

    Args:
        path: an archive such as train.tar.gz, or the folder that was unpacked from it.

    Raises:
        FileNotFoundError: if there is neither.
        RuntimeError: if h5py is not installed.
        ValueError: if it is damaged, or no part of SVHN.

    Source: Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning,
    2011; Goodfellow et al., 2013.
    """
    path = Path(path)
    boxes = None
    for name, content in _members(path, ".mat"):
        if name == "digitStruct.mat":
            boxes = read_boxes(content)
    if not boxes:
        raise ValueError(f"{path} has no digitStruct.mat that lists images")
    crops = [
        (crop(content, boxes[name]), boxes[name].value)
        for name, content in _members(path, ".png")
        if name in boxes
    ]
    if len(crops) != len(boxes):
        raise ValueError(f"{path} must have {len(boxes)} images, got {len(crops)}; get it again")
    images, values = zip(*crops, strict=True)
    return HouseNumbers(torch.stack(images), torch.tensor(values))


def svhn_splits(folder: str | Path) -> Splits:
    """The house number task: training, validation and test data.

    As published, 3,000 numbers of train and 2,000 of extra are for validation, though not the same
    ones: they are drawn at random. The part test is the test data.

    Args:
        folder: the folder with train.tar.gz, test.tar.gz and, if wanted, extra.tar.gz, or with the
            folders that were unpacked from them.

    Raises:
        FileNotFoundError: if train or test is missing.
        RuntimeError: if h5py is not installed.
        ValueError: if a part is damaged or too small.
    """
    folder = Path(folder)
    paths = {
        part: path
        for part in ("train", "extra", "test")
        for path in (folder / part, folder / f"{part}.tar.gz")
        if path.exists()
    }
    for part in ("train", "test"):
        if part not in paths:
            raise FileNotFoundError(f"there is no {part}.tar.gz (nor {part}) in {folder}")
    parts = [
        house_numbers(paths[part]).split(count) for part, count in HELD_OUT.items() if part in paths
    ]
    learnt, held_out = (
        HouseNumbers(torch.cat([h.images for h in half]), torch.cat([h.values for h in half]))
        for half in zip(*parts, strict=True)
    )
    return Splits(learnt, held_out, house_numbers(paths["test"]))


def _members(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of an archive or a folder."""
    if path.is_dir():
        for file in sorted(path.glob(f"*{suffix}")):
            yield file.name, file.read_bytes()
        return
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(suffix):
                    check_unpacked(path, member.size)
                    content = archive.extractfile(member)
                    assert content is not None  # for the type checker
                    yield Path(member.name).name, content.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is a damaged archive ({error}); get it again") from None


def read_boxes(content: bytes) -> dict[str, Box]:
    """The boxes of a digitStruct.mat, which is an HDF5 file, by the names of the images."""
    need = "reading SVHN needs h5py: pip install '.[svhn]' in the repository"
    h5py = import_extra("h5py", need)
    with h5py.File(io.BytesIO(content), "r") as file:
        names, digits = file["digitStruct/name"], file["digitStruct/bbox"]
        return {
            "".join(map(chr, file[name][()].flatten())): _joined(file, file[box])
            for name, box in zip(names[()].flatten(), digits[()].flatten(), strict=True)
        }


def _joined(file: Any, digits: Any) -> Box:
    """The box around the boxes of all digits, and the number that the digits form."""

    def numbers(key: str) -> list[float]:
        """MATLAB stores one number as it is, and several as references to them."""
        values = digits[key][()].flatten()
        return [float(v if len(values) == 1 else file[v][()].item()) for v in values]

    left, top = numbers("left"), numbers("top")
    right = [x + width for x, width in zip(left, numbers("width"), strict=True)]
    bottom = [y + height for y, height in zip(top, numbers("height"), strict=True)]
    # The label of the digit 0 is 10.
    value = int("".join(str(int(label) % 10) for label in numbers("label")))
    return Box(min(left), min(top), max(right), max(bottom), value)


def crop(content: bytes, box: Box) -> Tensor:
    """The number in an image, [3, 64, 64] uint8."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        x, y = MARGIN / 2 * (box.right - box.left), MARGIN / 2 * (box.bottom - box.top)
        area = (
            max(0.0, box.left - x),
            max(0.0, box.top - y),
            min(float(image.width), box.right + x),
            min(float(image.height), box.bottom + y),
        )
        small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, area)
    return torch.from_numpy(np.array(small)).movedim(-1, 0).contiguous()
