"""CIFAR-100 in its published binary format.

Source: Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr.data.examples import Examples, ExampleSplits

__all__ = ["cifar100_splits", "download_cifar100", "read_cifar100"]

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
# As the page of the data set gives it.
MD5 = "03b5dce01913d631647c71ecec9e9cb8"
FOLDER = "cifar-100-binary"
SHAPE, CLASSES = (3, 32, 32), 100
# The last images of the training file validate.
VALIDATION = 5000


def read_cifar100(path: str | Path) -> Examples:
    """Images and fine labels of train.bin or test.bin.

    A record is the coarse label, the fine label, and 3,072 bytes of the image, plane by plane.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if its size or a label does not fit the format.
    """
    path = Path(path)
    data = np.fromfile(path, np.uint8)
    size = 2 + int(np.prod(SHAPE))
    if not len(data) or len(data) % size:
        raise ValueError(
            f"{path} must hold records of {size} bytes, got {len(data)} bytes; get it again"
        )
    records = data.reshape(-1, size)
    if records[:, 1].max() >= CLASSES:
        raise ValueError(f"labels in {path} must be 0 .. 99, got {records[:, 1].max()}")
    images = torch.from_numpy(records[:, 2:].copy()).reshape(-1, *SHAPE)
    return Examples(images, torch.from_numpy(records[:, 1].astype(np.int64)), CLASSES)


def cifar100_splits(folder: str | Path) -> ExampleSplits:
    """45,000 images to train, 5,000 to validate, 10,000 to test.

    Args:
        folder: with train.bin and test.bin, or with the folder cifar-100-binary of these.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if one is damaged, or there are too few images.
    """
    folder = Path(folder)
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    for name in ("train.bin", "test.bin"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"there is no {name} in {folder}")
    train = read_cifar100(folder / "train.bin")
    if len(train.labels) <= VALIDATION:
        raise ValueError(
            f"{folder} must have more than {VALIDATION} training images, of which the last "
            f"{VALIDATION} validate, got {len(train.labels)}"
        )
    return ExampleSplits(
        Examples(train.features[:-VALIDATION], train.labels[:-VALIDATION], CLASSES),
        Examples(train.features[-VALIDATION:], train.labels[-VALIDATION:], CLASSES),
        read_cifar100(folder / "test.bin"),
    )


def download_cifar100(folder: str | Path) -> None:
    """Download and unpack CIFAR-100 (161 MB) if it is not in the folder, and check it.

    Raises:
        OSError: if the download fails.
        RuntimeError: if pooch is not installed.
        ValueError: if the file is not the one that was expected.
    """
    folder = Path(folder)
    if (folder / FOLDER).is_dir() or (folder / "train.bin").is_file():
        return
    try:
        pooch: Any = import_module("pooch")
    except ImportError:
        raise RuntimeError(
            "downloading CIFAR-100 needs pooch: pip install 'gendr[training]'; or unpack "
            f"{URL} in {folder} yourself"
        ) from None
    pooch.retrieve(
        URL, known_hash=f"md5:{MD5}", fname=Path(URL).name, path=folder,
        processor=pooch.Untar(extract_dir="."),
    )  # fmt: skip
