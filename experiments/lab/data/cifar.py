"""CIFAR-10 and CIFAR-100 in their published binary format.

The versions for Python are made of pickles, which may run any code when they are read; they are not
read here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.data.examples import Examples, ExampleSplits
from lab.data.numbers import import_extra

__all__ = ["CIFAR_CLASSES", "cifar10", "cifar100_splits", "download_cifar100", "read_cifar100"]

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FILES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
FOLDER_10, FOLDER_100 = "cifar-10-batches-bin", "cifar-100-binary"
URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
# As the page of the data set gives it.
MD5 = "03b5dce01913d631647c71ecec9e9cb8"
SHAPE, CLASSES_100 = (3, 32, 32), 100
# The last images of the training file validate.
VALIDATION = 5000


def cifar10(folder: str | Path, part: str) -> tuple[Tensor, Tensor]:
    """Images of CIFAR-10.

    Args:
        folder: with the files data_batch_1.bin .. 5 and test_batch.bin, or the folder
            cifar-10-batches-bin of them.
        part: "train" or "test".

    Returns:
        Images [N, 3, 32, 32] and labels [N] in 0 .. 9, both uint8.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or there is no such part.
    """
    if part not in FILES:
        raise ValueError(f"part must be train or test, got {part!r}")
    folder = Path(folder)
    if (folder / FOLDER_10).is_dir():
        folder = folder / FOLDER_10
    parts = [_records(folder / name, 1, len(CIFAR_CLASSES)) for name in FILES[part]]
    records = torch.from_numpy(np.concatenate(parts))
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].contiguous()


def read_cifar100(path: str | Path) -> Examples:
    """Images and fine labels of train.bin or test.bin.

    A record is the coarse label, the fine label, and 3,072 bytes of the image, plane by plane.

    Args:
        path: of the file.

    Returns:
        Images [N, 3, 32, 32] uint8, and labels [N] in 0 .. 99.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if its size or a label does not fit the format.
    """
    records = _records(Path(path), 2, CLASSES_100)
    images = torch.from_numpy(records[:, 2:].copy()).reshape(-1, *SHAPE)
    return Examples(images, torch.from_numpy(records[:, 1].astype(np.int64)), CLASSES_100)


def _records(path: Path, labels: int, classes: int) -> NDArray[np.uint8]:
    """The records of a file, [N, labels + 3072]; the last of the labels is the class."""
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path.name} in {path.parent}; the binary version of CIFAR has it"
        )
    data = np.frombuffer(path.read_bytes(), np.uint8)
    size = labels + int(np.prod(SHAPE))
    if not len(data) or len(data) % size:
        raise ValueError(
            f"{path} must hold records of {size} bytes, got {len(data)} bytes; get it again"
        )
    records = data.reshape(-1, size)
    largest = records[:, labels - 1].max()
    if largest >= classes:
        raise ValueError(f"{path} has the label {largest}, allowed are 0 .. {classes - 1}")
    return records


def cifar100_splits(folder: str | Path) -> ExampleSplits:
    """45,000 images to train, 5,000 to validate, 10,000 to test.

    Args:
        folder: with train.bin and test.bin, or with the folder cifar-100-binary of these.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if one is damaged, or there are too few images.
    """
    folder = Path(folder)
    folder = folder / FOLDER_100 if (folder / FOLDER_100).is_dir() else folder
    train = read_cifar100(folder / "train.bin")
    test = read_cifar100(folder / "test.bin")
    if len(train.labels) <= VALIDATION:
        raise ValueError(
            f"{folder} must have more than {VALIDATION} training images, of which the last "
            f"{VALIDATION} validate, got {len(train.labels)}"
        )
    return ExampleSplits(
        Examples(train.features[:-VALIDATION], train.labels[:-VALIDATION], CLASSES_100),
        Examples(train.features[-VALIDATION:], train.labels[-VALIDATION:], CLASSES_100),
        test,
    )


def download_cifar100(folder: str | Path) -> None:
    """Download and unpack CIFAR-100 (161 MB) if it is not in the folder, and check it.

    Raises:
        OSError: if the download fails.
        RuntimeError: if pooch is not installed.
        ValueError: if the file is not the one that was expected.
    """
    folder = Path(folder)
    if (folder / FOLDER_100).is_dir() or (folder / "train.bin").is_file():
        return
    pooch = import_extra(
        "pooch",
        "downloading CIFAR-100 needs pooch: pip install '.[training]' in the repository; or "
        f"unpack {URL} in {folder} yourself",
    )
    pooch.retrieve(
        URL, known_hash=f"md5:{MD5}", fname=Path(URL).name, path=folder,
        processor=pooch.Untar(extract_dir="."),
    )  # fmt: skip
