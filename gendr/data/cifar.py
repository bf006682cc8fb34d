"""CIFAR-10, in its binary version.

The version for Python is made of pickles, which may run any code when they are read; it is not
read here.

Source: Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

__all__ = ["CIFAR_CLASSES", "cifar10"]

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FILES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
FOLDER = "cifar-10-batches-bin"
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # a label and an image


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
    if (folder / FOLDER).is_dir():
        folder = folder / FOLDER
    found = [_records(folder / name) for name in FILES[part]]
    records = torch.from_numpy(np.concatenate(found))
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].contiguous()


def _records(path: Path) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path.name} in {path.parent}; the binary version of CIFAR-10 has it"
        )
    data = np.frombuffer(path.read_bytes(), np.uint8)
    if not len(data) or len(data) % RECORD:
        raise ValueError(
            f"{path} must hold records of {RECORD} bytes, got {len(data)} bytes; get it again"
        )
    records = data.reshape(-1, RECORD)
    if records[:, 0].max() > 9:
        raise ValueError(f"{path} has the label {records[:, 0].max()}, allowed are 0 .. 9")
    return records
