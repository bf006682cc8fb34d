"""Checkpoints: plain values and tensors in one file, which is written whole or not at all.

A file names its format, and is read without running code from it.
"""

from __future__ import annotations

import hashlib
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._common.arrays import UnpackingError, check_unpacked
from gendr._common.files import write_whole

__all__ = ["digest", "load_checkpoint", "save_checkpoint"]

# The key under which a file holds the name of its format.
FORMAT = "format"


def save_checkpoint(path: str | Path, kind: str, values: Mapping[str, Any]) -> None:
    """Write a checkpoint; an existing file is replaced only when the new one is complete.

    Args:
        path: The file to write.
        kind: What the checkpoint holds and the version of its layout, such as "gendr fit 1".
        values: Numbers, texts, None, tensors, and lists, tuples and dicts of them. Tensors are
            written without their graph and as if they were on the CPU.

    Raises:
        OSError: With the path, if it cannot be written, such as on a full disk; an existing file
            is left as it was.
        ValueError: If the values use the key "format", which the name of the format needs.
    """
    if FORMAT in values:
        raise ValueError(f"{FORMAT!r} is taken, it names the kind of a checkpoint")
    content = {FORMAT: kind, **_on_cpu(dict(values))}
    write_whole(Path(path), lambda file: torch.save(content, file))


def digest(*tensors: Tensor) -> str:
    """A text that tells tensors from others: the SHA-256 of their values."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def load_checkpoint(
    path: str | Path,
    kind: str,
    names: Collection[str],
    what: str,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: The file to read.
        kind: The `kind` with which it was saved.
        names: Names of the values that the file must hold.
        what: What the checkpoint is of, for messages, such as "a fit".
        device: The device for its tensors.

    Returns:
        The values that were saved.

    Raises:
        ValueError: If there is no file, or it is something else than such a checkpoint.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no checkpoint to resume from at {path}; start without resuming")
    try:
        if zipfile.is_zipfile(path):  # PyTorch would unpack whatever a compressed file claims
            with zipfile.ZipFile(path) as archive:
                check_unpacked(path, sum(member.file_size for member in archive.infolist()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch, about the pickles of other programs
            content = torch.load(path, map_location=device, weights_only=True)
    except UnpackingError:
        raise
    except Exception as error:  # noqa: BLE001 (unpicklers raise anything on a foreign file)
        raise ValueError(_foreign(path, what, type(error).__name__)) from None
    if not isinstance(content, dict) or content.pop(FORMAT, None) != kind:
        raise ValueError(_foreign(path, what, "another format"))
    if missing := sorted(set(names) - content.keys()):
        raise ValueError(_foreign(path, what, f"it lacks {missing[0]}"))
    return content


def _foreign(path: Path, what: str, reason: str) -> str:
    return f"{path} is no checkpoint of {what} ({reason}); delete it, or name another file"


def _on_cpu(value: Any) -> Any:
    """The same values with all tensors on the CPU; tensors that shared memory still share it."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_on_cpu(each) for each in value)
    return value
