"""Checkpoints: what work has come to, as plain values and tensors, in one file of one format.

A file is written whole or not at all, and says what work it is of and with which settings and data.
It is read without running code from it.
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

FORMAT = "gendr checkpoint 1"
_DIGEST = "sha256:"


class OtherWorkError(ValueError):
    """A checkpoint is of work with other settings or data."""


def save_checkpoint(
    path: str | Path, kind: str, state: Mapping[str, Any], signature: Mapping[str, Any]
) -> None:
    """Write a checkpoint; an existing file is replaced only when the new one is complete.

    Args:
        path: The file to write.
        kind: What it is of, such as "a fit".
        state: Numbers, texts, None, tensors, and lists, tuples and dicts of them. Tensors are
            written without their graph and as if they were on the CPU.
        signature: Settings and digests of data: work of equal signatures takes equal steps.

    Raises:
        OSError: With the path, if it cannot be written, such as on a full disk; an existing file
            is left as it was.
    """
    content = {"format": FORMAT, "kind": kind, "signature": signature, "state": state}
    write_whole(Path(path), lambda file: torch.save(_on_cpu(content), file))


def digest(*tensors: Tensor) -> str:
    """A text that tells tensors from others: the SHA-256 of their values."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return _DIGEST + total.hexdigest()


def load_checkpoint(
    path: str | Path,
    kind: str,
    names: Collection[str] = (),
    signature: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Read the state of a checkpoint.

    Args:
        path: The file to read.
        kind: With which it was saved.
        names: Values that the state must hold.
        signature: What must be as it was; None checks nothing.
        device: The device for its tensors.

    Raises:
        OtherWorkError: If it is of work with another signature; a ValueError.
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
        raise ValueError(_foreign(path, kind, type(error).__name__)) from None
    if not isinstance(content, dict) or (content.get("format"), content.get("kind")) != (
        FORMAT, kind,
    ):  # fmt: skip
        raise ValueError(_foreign(path, kind, "another format"))
    state = content["state"]
    if missing := sorted(set(names) - state.keys()):
        raise ValueError(_foreign(path, kind, f"it lacks {missing[0]}"))
    if signature is not None:
        check_same(str(path), kind, content["signature"], signature)
    return state


def check_same(source: str, kind: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with work of another signature.

    Args:
        source: where it is from, for the message.
        kind: what it is.
        then: its signature.
        now: what it should be.

    Raises:
        OtherWorkError: naming the first value that differs; of data only what they are.
    """
    for name, value in now.items():
        if (before := then.get(name)) != value:
            what = f"with {name} = {before}, now it is {value}"
            if str(value).startswith(_DIGEST):
                what = f"of other {name}"
            raise OtherWorkError(
                f"{source} is {kind} {what}; resume with the same settings and data, or start anew "
                "elsewhere"
            )


def check_steps(done: int, asked: int) -> None:
    """Refuse to go on where more steps are done than there shall be.

    Raises:
        ValueError: naming both numbers.
    """
    if done > asked:
        raise ValueError(
            f"the checkpoint has {done} steps, more than the {asked} asked for; resume with more "
            "steps, or start anew"
        )


def _foreign(path: Path, kind: str, reason: str) -> str:
    return f"{path} is no checkpoint of {kind} ({reason}); delete it, or choose another place"


def _on_cpu(value: Any) -> Any:
    """The same values with all tensors on the CPU; tensors that shared memory still share it."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {key: _on_cpu(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_on_cpu(each) for each in value)
    return value
