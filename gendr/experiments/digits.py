"""Images of numbers whose order is known: the data of the sorting experiments.

Four-digit MNIST numbers are put together while they are drawn; house numbers (SVHN) are cropped.
Both live on one device as bytes and are drawn there, list by list:

    >>> train, validation, test = mnist_splits("data/mnist")
    >>> images, values = train.draw(100, 5, generator)       # [100, 5, 1, 28, 112], [100, 5]

Source: thesis, section 3.5; Grover et al., NeuralSort, 2019; Goodfellow et al., Multi-digit Number
Recognition from Street View Imagery, 2013.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import struct
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from gendr._runtime.checks import check_count, check_shape

__all__ = [
    "HouseNumbers",
    "MultiDigits",
    "Numbers",
    "Splits",
    "download_mnist",
    "house_numbers",
    "mnist_digits",
    "mnist_splits",
    "read_idx",
    "svhn_splits",
]

# The files of MNIST, their SHA-256 in their original compression, and a mirror that has them.
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
# As published: of the training images, the last are for validation.
VALIDATION = 5000
# Digits of a number in the four-digit task.
DIGITS = 4
# House numbers: how much wider and higher than its digits a crop is, its side, the side drawn.
MARGIN, SIDE, WINDOW = 0.3, 64, 54
# Of which parts of SVHN how many are for validation.
HELD_OUT = {"train": 3000, "extra": 2000}

UNSIGNED_BYTE = 0x08  # the type of data in an idx file


# ---------------------------------------------------------------------------------------------
# idx files


def read_idx(path: str | Path) -> Tensor:
    """The content of an idx file of bytes, compressed with gzip or not.

    Returns:
        A uint8 tensor of the shape that the file states.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no idx file, holds something else than bytes, or is truncated.
    """
    path = Path(path)
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is a damaged gzip file ({error}); get it again") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[3] == 0:
        raise ValueError(f"{path} is no idx file: it starts with {data[:4].hex() or 'nothing'}")
    if data[2] != UNSIGNED_BYTE:
        raise ValueError(f"{path} must hold bytes (type 0x08), got type {data[2]:#04x}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise ValueError(f"{path} ends within its header; get it again")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise ValueError(
            f"{path} must hold {math.prod(shape)} bytes for its shape {list(shape)}, "
            f"got {len(data) - start}; get it again"
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).copy()).reshape(shape)


def mnist_digits(folder: str | Path, part: str) -> tuple[Tensor, Tensor]:
    """Digits of MNIST, or of any data set in its files, such as Fashion-MNIST.

    Args:
        folder: that holds the idx files, compressed or not.
        part: "train" or "t10k".

    Returns:
        Images [N, H, W] and labels [N] in 0 .. 9, both uint8.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or the two do not fit.
    """
    folder = Path(folder)
    images = read_idx(_found(folder, f"{part}-images-idx3-ubyte"))
    labels = read_idx(_found(folder, f"{part}-labels-idx1-ubyte"))
    check_shape(f"the images of {part} in {folder}", images, "[N, H, W]")
    check_shape(f"the labels of {part} in {folder}", labels, "[N]", N=len(images))
    if not len(labels) or int(labels.max()) > 9:
        got = f"up to {int(labels.max())}" if len(labels) else "none"
        raise ValueError(f"the labels of {part} in {folder} must be 0 .. 9, got {got}")
    return images, labels


def _found(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise FileNotFoundError(f"there is no {name}.gz (nor {name}) in {folder}")


def download_mnist(folder: str | Path) -> None:
    """Download the files of MNIST that a folder lacks, and check them.

    Raises:
        OSError: if that fails.
        RuntimeError: if pooch is not installed.
        ValueError: if a file is not the one that was expected.
    """
    folder = Path(folder)
    missing = [
        name
        for name in MNIST_SHA256
        if not (folder / name).is_file() and not (folder / Path(name).stem).is_file()
    ]
    if not missing:
        return
    try:
        pooch: Any = import_module("pooch")
    except ImportError:
        raise RuntimeError(
            "downloading MNIST needs pooch: pip install 'gendr[training]'; or put its four "
            f"files into {folder} yourself"
        ) from None
    for name in missing:
        pooch.retrieve(
            MNIST_URL + name, known_hash=f"sha256:{MNIST_SHA256[name]}", fname=name, path=folder
        )


# ---------------------------------------------------------------------------------------------
# what is drawn


class Numbers(ABC):
    """Images of numbers on a device, from which lists are drawn.

    Attributes:
        channels: of the convolutions of the published network for them.
    """

    channels: ClassVar[tuple[int, ...]]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image that is drawn."""

    @abstractmethod
    def draw(self, lists: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw lists of numbers, uniformly and with replacement.

        Args:
            lists: how many.
            n: length of each.
            generator: of this device.

        Returns:
            Images [lists, n, C, H, W], float32, and values [lists, n], int64.
        """

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """The same on a device."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where they are."""

    @abstractmethod
    def digest(self) -> str:
        """A short text that other data would not have."""


class Splits(NamedTuple):
    """What is learnt from, what decides when it went best, and what judges that."""

    train: Numbers
    validation: Numbers
    test: Numbers

    def to(self, device: torch.device | str) -> Splits:
        """The same on a device."""
        return Splits(*(numbers.to(device) for numbers in self))


def _digest(*tensors: Tensor) -> str:
    """Of uint8 and int64 tensors, by content."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(repr(tuple(tensor.shape)).encode())
        sha.update(tensor.cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


@final
@dataclass(frozen=True, eq=False)
class MultiDigits(Numbers):
    """Numbers of several digits: images of single digits side by side, the first the highest.

    Attributes:
        images: [N, H, W], uint8.
        labels: [N], uint8, 0 .. 9.
        digits: of a number; four make values in 0 .. 9999.
    """

    channels: ClassVar[tuple[int, ...]] = (32, 64)

    images: Tensor
    labels: Tensor
    digits: int = DIGITS

    def __post_init__(self) -> None:
        check_shape("labels", self.labels, "[N]", **check_shape("images", self.images, "[N, H, W]"))
        check_count("digits", self.digits)

    @property
    def shape(self) -> tuple[int, int, int]:
        """See `Numbers`."""
        height, width = self.images.shape[1:]
        return 1, height, width * self.digits

    @property
    def device(self) -> torch.device:
        """See `Numbers`."""
        return self.images.device

    def to(self, device: torch.device | str) -> MultiDigits:
        """See `Numbers`."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def digest(self) -> str:
        """See `Numbers`."""
        return _digest(self.images, self.labels)

    def draw(self, lists: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """See `Numbers`; images in [0, 1]."""
        size = (lists, n, self.digits)
        index = torch.randint(len(self.images), size, generator=generator, device=self.device)
        side_by_side = self.images[index].movedim(2, -2)  # [lists, n, H, digits, W]
        images = side_by_side.reshape(lists, n, *self.shape).float() / 255
        powers = 10 ** torch.arange(self.digits - 1, -1, -1, device=self.device)
        return images, (self.labels[index].long() * powers).sum(-1)


def mnist_splits(folder: str | Path) -> Splits:
    """The four-digit MNIST task: 55,000 digits to train, 5,000 to validate, 10,000 to test.

    Args:
        folder: that holds the four idx files, compressed or not; see `download_mnist`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or there are too few images.
    """
    images, labels = mnist_digits(folder, "train")
    if len(images) <= VALIDATION:
        raise ValueError(
            f"{folder} must have more than {VALIDATION} training images, of which the last "
            f"{VALIDATION} validate, got {len(images)}"
        )
    return Splits(
        MultiDigits(images[:-VALIDATION], labels[:-VALIDATION]),
        MultiDigits(images[-VALIDATION:], labels[-VALIDATION:]),
        MultiDigits(*mnist_digits(folder, "t10k")),
    )


# ---------------------------------------------------------------------------------------------
# house numbers


@final
@dataclass(frozen=True, eq=False)
class HouseNumbers(Numbers):
    """House numbers of SVHN, drawn through a window at a random place.

    Attributes:
        images: [N, 3, 64, 64], uint8.
        values: [N], int64.
        window: side of the image that is drawn.
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

    @property
    def device(self) -> torch.device:
        """See `Numbers`."""
        return self.images.device

    def to(self, device: torch.device | str) -> HouseNumbers:
        """See `Numbers`."""
        return replace(self, images=self.images.to(device), values=self.values.to(device))

    def digest(self) -> str:
        """See `Numbers`."""
        return _digest(self.images, self.values)

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
        """All but `count`, and these, chosen at random.

        Raises:
            ValueError: if there are no others.
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
    """Where the digits of a house number are, in pixels, and what they say."""

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
        path: an archive such as train.tar.gz, or the folder that is in it.

    Raises:
        FileNotFoundError: if there is none.
        RuntimeError: if h5py is not installed.
        ValueError: if it is damaged or something else.

    Source: Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning,
    2011; Goodfellow et al., 2013.
    """
    path = Path(path)
    boxes = None
    for name, content in _members(path, ".mat"):
        if name == "digitStruct.mat":
            boxes = _read_boxes(content)
    if not boxes:
        raise ValueError(f"{path} has no digitStruct.mat that lists images")
    crops: list[Tensor] = []
    values: list[int] = []
    for name, content in _members(path, ".png"):
        if name in boxes:
            crops.append(_crop(content, boxes[name]))
            values.append(boxes[name].value)
    if len(crops) != len(boxes):
        raise ValueError(f"{path} must have {len(boxes)} images, got {len(crops)}; get it again")
    return HouseNumbers(torch.stack(crops), torch.tensor(values))


def svhn_splits(folder: str | Path) -> Splits:
    """The house number task.

    3,000 numbers of train and 2,000 of extra validate, as published, but other ones; test tests.

    Args:
        folder: that holds train.tar.gz, test.tar.gz and, if wanted, extra.tar.gz, or the folders
            that are in them.

    Raises:
        FileNotFoundError: if there is no train or no test.
        RuntimeError: if h5py is not installed.
        ValueError: if one is damaged or too small.
    """
    folder = Path(folder)
    found = {
        part: path
        for part in ("train", "extra", "test")
        for path in (folder / part, folder / f"{part}.tar.gz")
        if path.exists()
    }
    for part in ("train", "test"):
        if part not in found:
            raise FileNotFoundError(f"there is no {part}.tar.gz (nor {part}) in {folder}")
    parts = [
        house_numbers(found[part]).split(count) for part, count in HELD_OUT.items() if part in found
    ]
    learnt, held_out = (
        HouseNumbers(torch.cat([h.images for h in half]), torch.cat([h.values for h in half]))
        for half in zip(*parts, strict=True)
    )
    return Splits(learnt, held_out, house_numbers(found["test"]))


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
                    content = archive.extractfile(member)
                    assert content is not None  # for the type checker
                    yield Path(member.name).name, content.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is a damaged archive ({error}); get it again") from None


def _read_boxes(content: bytes) -> dict[str, Box]:
    """The boxes of a digitStruct.mat, which is an HDF5 file, by the names of the images."""
    try:
        h5py: Any = import_module("h5py")
    except ImportError:
        raise RuntimeError("reading SVHN needs h5py: pip install 'gendr[svhn]'") from None
    with h5py.File(io.BytesIO(content), "r") as file:
        names, digits = file["digitStruct/name"], file["digitStruct/bbox"]
        return {
            "".join(map(chr, file[name][()].flatten())): _joined(file, file[box])
            for name, box in zip(names[()].flatten(), digits[()].flatten(), strict=True)
        }


def _joined(file: Any, digits: Any) -> Box:
    """What the boxes of single digits make together."""

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


def _crop(content: bytes, box: Box) -> Tensor:
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
