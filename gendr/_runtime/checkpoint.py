"""Checkpoints: plain values and tensors in one file that is whole or not there.

A file names its format, and is read without running code from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.files import write_whole

__all__ = ["load_checkpoint", "save_checkpoint"]

# Where a file has the name of its format.
FORMAT = "format"


def save_checkpoint(path: str | Path, kind: str, values: Mapping[str, Any]) -> None:
    """Write a checkpoint; a file that is there is replaced only when the new one is whole.

    Args:
        path: Of the file.
        kind: What it is of and the version of its layout, such as "gendr fit 1".
        values: Numbers, texts, None, tensors, and lists, tuples and dicts of them. Tensors are
            written without their graph and as if they were on the CPU.

    Raises:
        OSError: With the path, if it cannot be written, such as on a full disk; what was there is
            left.
        ValueError: If the values have the name under which the format is written.
    """
    if FORMAT in values:
        raise ValueError(f"{FORMAT!r} is taken, it names the kind of a checkpoint")
    content = {FORMAT: kind, **_on_cpu(dict(values))}
    write_whole(Path(path), lambda file: torch.save(content, file))


def load_checkpoint(
    path: str | Path,
    kind: str,
    names: Collection[str],
    what: str,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: Of the file.
        kind: As it was saved with.
        names: Of the values that it must have.
        what: It is of, for messages, such as "a fit".
        device: Where its tensors shall be.

    Returns:
        The values that were saved.

    Raises:
        ValueError: If there is none, or the file is something else.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no checkpoint to resume from at {path}; start without resuming")
    try:
        content = torch.load(path, map_location=device, weights_only=True)
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
    """The same values with all tensors on the CPU; those that shared their memory still do."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_on_cpu(each) for each in value)
    return value
