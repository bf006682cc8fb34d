"""Checks and facts that several commands share."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from gendr import __version__

__all__ = ["as_json", "check_checkpoint", "model_file", "versions"]


def as_json(values: Any) -> bytes:
    """Plain values as the content of a file."""
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()


def check_checkpoint(folder: Path, name: str) -> None:
    """For --resume: find out whether there is something to go on with.

    Raises:
        ValueError: if the folder has no file of that name.
    """
    if not (folder / name).is_file():
        raise ValueError(f"--resume: no {name} in {folder}; leave --resume out to start anew")


def model_file(text: str) -> Path:
    """The path of a mesh file, or of the built-in example of that name.

    Raises:
        ValueError: if there is neither such a file nor such an example.
    """
    from gendr.mesh.examples import example_file, example_names

    path = Path(text)
    if path.exists():
        return path
    if text in example_names():
        return example_file(text)
    raise ValueError(f"no such file or folder: {path}; built in: {', '.join(example_names())}")


def versions() -> dict[str, str]:
    """The versions of Python, of gendr and of what it computes with."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "gendr": __version__}
    for name in ("torch", "numpy", "scipy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
