"""MNIST, and four-digit numbers made of its digits while lists are drawn.

    >>> train, validation, test = mnist_splits("data/mnist")
    >>> images, values = train.draw(100, 5, generator)       # [100, 5, 1, 28, 112], [100, 5]

Source: thesis, section 3.5; Grover et al., NeuralSort, 2019.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.arrays import check_unpacked
from gendr._common.checks import check_count, check_shape
from lab.data.numbers import Numbers, Splits, import_extra

__all__ = ["MultiDigits", "download_mnist", "mnist_digits", "mnist_splits", "read_idx"]

# A mirror of the MNIST files, and the SHA-256 of each file as it was compressed originally.
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
# As published, this many of the training images, the last ones, are for validation.
VALIDATION = 5000
# How many digits a number of the four-digit task has.
DIGITS = 4
UNSIGNED_BYTE = 0x08  # the type of data in an idx file


# ---------------------------------------------------------------------------------------------
# files


def read_idx(path: str | Path) -> Tensor:
    """The content of an idx file of bytes, compressed with gzip or not.

    Args:
        path: of the file, such as train-images-idx3-ubyte.gz.

    Returns:
        A uint8 tensor of the shape that the file states.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no idx file, holds anything but bytes, or is truncated.
    """
    path = Path(path)
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                head = file.read(4 + 4 * 255)  # the longest there is
                size = _size(head)
                check_unpacked(path, size)
                # What is beyond the shape need not be unpacked to be refused.
                data = head + file.read(max(0, size + 1 - len(head)))
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


def _size(head: bytes) -> int:
    """Bytes of an idx file whose header this is; 0 if it is none."""
    if len(head) < 4 or len(head) < 4 + 4 * head[3]:
        return 0
    return 4 + 4 * head[3] + math.prod(struct.unpack(f">{head[3]}I", head[4 : 4 + 4 * head[3]]))


def mnist_digits(folder: str | Path, part: str) -> tuple[Tensor, Tensor]:
    """Digits of MNIST, or of a data set in the same file format, such as Fashion-MNIST.

    Args:
        folder: the folder with the idx files, compressed or not.
        part: "train" or "t10k", as the files are called.

    Returns:
        Images [N, H, W] and labels [N] in 0 .. 9, both uint8.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or images and labels do not fit together.
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
    """Download the MNIST files that are missing in a folder, and check them.

    Raises:
        OSError: if the download fails.
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
    pooch = import_extra(
        "pooch",
        "downloading MNIST needs pooch: pip install '.[training]' in the repository; or put "
        f"its four files into {folder} yourself",
    )
    for name in missing:
        pooch.retrieve(
            MNIST_URL + name, known_hash=f"sha256:{MNIST_SHA256[name]}", fname=name, path=folder
        )


# ---------------------------------------------------------------------------------------------
# numbers


@final
@dataclass(frozen=True, eq=False)
class MultiDigits(Numbers):
    """Numbers of several digits: images of single digits side by side, the leading digit first.

    Attributes:
        images: [N, H, W], uint8.
        labels: [N], uint8, 0 .. 9.
        digits: how many digits a number has; four make values in 0 .. 9999.
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
        folder: the folder with the four idx files, compressed or not; see `download_mnist`.

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
