"""Checks and facts that several commands share."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from gendr import __version__

__all__ = [
    "FINISHED", "METRICS", "as_json", "check_checkpoint", "check_effect", "check_output",
    "check_own", "given_options", "model_file", "read_json", "shrunk_to", "versions",
]  # fmt: skip

# What is known of results, beside them.
METRICS = "metrics.json"
FINISHED = "{}: finished already, by the same input and options\n"


def as_json(values: Any) -> bytes:
    """Plain values as the content of a file."""
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()


def read_json(file: Path) -> dict[str, Any]:
    """What a file of `as_json` holds by name; nothing if there is none, or one of others."""
    with suppress(OSError, RecursionError, TypeError, ValueError):
        return dict(json.loads(file.read_bytes()))
    return {}


def shrunk_to(
    most: int, path: Path, cameras: str | None = None, *, max_megapixels: float
) -> int | None:
    """The shorter side to which photos are brought if none is said: None for that which they have.

    Args:
        most: the largest.
        path: of the photos.
        cameras: their file, if it is not with the photos.
        max_megapixels: of the photos, at most.
    """
    from gendr.photos.views import view_sizes

    sizes = view_sizes(path, cameras=cameras, max_megapixels=max_megapixels)
    return most if min(map(min, sizes)) > most else None


def check_checkpoint(folder: Path, name: str) -> None:
    """For --resume: find out whether there is something to go on with.

    Raises:
        ValueError: if the folder has no file of that name.
    """
    if not (folder / name).is_file():
        raise ValueError(f"--resume: no {name} in {folder}; leave --resume out to start anew")


def given_options(args: Any, names: str) -> list[str]:
    """Those of some options that are not as by default, as they are written.

    Args:
        args: of a command, some of them in its `settings`.
        names: of the options, with spaces between.
    """
    found: list[str] = []
    for name in names.split():
        own = args if hasattr(args, name) else args.settings
        value = getattr(own, name)
        if value != getattr(type(own), name):  # where a dataclass keeps the default
            found.append(f"--{'no-' if value is False else ''}{name.replace('_', '-')}")
    return found


def check_effect(args: Any, *rows: tuple[object, str, str]) -> None:
    """Refuse options that have no effect beside others.

    Args:
        args: of a command.
        rows: whether it is so, the names of the options, and why.

    Raises:
        ValueError: naming the first of them that is given.
    """
    for holds, names, why in rows:
        if holds and (flags := given_options(args, names)):
            raise ValueError(f"{flags[0]} has no effect, as {why}; leave it out")


def check_own(folder: Path, name: str, kind: str) -> None:
    """Refuse a folder whose checkpoint, which would be replaced, is of another command.

    Raises:
        ValueError: naming the file.
    """
    from gendr.jobs.checkpoint import load_checkpoint

    if (folder / name).is_file():
        load_checkpoint(folder / name, kind)


def check_output(folder: Path, source: Path, results: Collection[str] = ()) -> None:
    """Refuse an output folder in which the input would be replaced, or results taken for photos.

    Args:
        folder: for results.
        source: a folder of photos, or a file.
        results: the names of files that are written.

    Raises:
        ValueError: naming the input.
    """
    if source.is_dir():
        # Also where no photos are yet: pictures among the results would be, and no fit be resumed.
        harmed = folder.resolve() in {place.resolve() for place in (source, source / "images")}
    else:
        harmed = source.name in results and source.parent.resolve() == folder.resolve()
    if harmed:
        raise ValueError(
            f"-o {folder} is where {source} is, which results would replace or be taken for; "
            "choose another folder"
        )


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
