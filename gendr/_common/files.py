"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Content: TypeAlias = "bytes | Callable[[BinaryIO], object]"
# Windows does not replace a file while another program reads it, such as `gendr view` or what looks
# for viruses: seconds to wait before the next attempt.
_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6) if os.name == "nt" else ()

# Temporary files, and how many seconds after the last change they are none that is being written.
_NEW, _LEFT = re.compile(r"\.new-\d+-"), 600
_swept: set[Path] = set()  # folders


def write_whole(path: Path, content: Content) -> None:
    """Write a file under a temporary name and rename it, so that nobody finds half a file.

    Args:
        path: The file to write; an existing one is replaced.
        content: Bytes, or a function that writes them to an open binary file.

    Raises:
        OSError: With the path, if that fails, such as on a full disk; an existing file is kept.
    """
    write_all({path: content})


def write_all(contents: Mapping[Path, Content]) -> None:
    """Write several files: all under temporary names first, and only then are they renamed.

    Args:
        contents: By path: bytes, or a function that writes them to an open binary file.

    Raises:
        OSError: With the path of the file that could not be written; existing files are kept.
    """
    moves: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            path = path.resolve()  # a link stays a link; the file that it points to is replaced
            _sweep(path.parent)
            # With the pid, two processes that write the same file do not share a temporary one.
            new = path.with_name(f".new-{os.getpid()}-{path.name}")
            moves[new] = path
            with _named(path), new.open("wb") as file:
                if callable(content):
                    _watched(content, file)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())  # else a crash could leave an empty file
        for new, path in moves.items():
            with _named(path):
                _move(new, path)
    finally:
        for new in moves:
            with suppress(OSError):
                new.unlink()


def _sweep(folder: Path) -> None:
    """Remove what programs that were killed while they wrote have left there, once a process."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError):  # of a folder that is not there, which writing will tell
        for file in folder.iterdir():
            if _NEW.match(file.name) and time.time() - file.stat().st_mtime > _LEFT:
                file.unlink(missing_ok=True)


def _move(new: Path, path: Path) -> None:
    for wait in _WAITS:
        try:
            new.replace(path)
        except PermissionError:
            time.sleep(wait)
        else:
            return
    new.replace(path)


def _watched(write: Callable[[BinaryIO], object], file: BinaryIO) -> None:
    """Let a function write to a file, and raise what the disk said, which libraries may hide."""
    watched: Any = _Watched(file)
    try:
        write(watched)
    finally:
        if watched.error is not None:
            raise watched.error


class _Watched:
    """An open file that keeps the error of a write."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "fileno":  # by which libraries would write past this
            raise AttributeError(name)
        return getattr(self._file, name)


@contextmanager
def _named(path: Path) -> Generator[None, None, None]:
    """Raise errors with this path in place of that of the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
