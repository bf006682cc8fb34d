"""Files that are whole or not there; folders that can be written to, by one process at a time."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Content: TypeAlias = "bytes | Callable[[BinaryIO], object]"

LOCK = ".gendr-lock"
# On Windows no other process may read a locked byte, so it lies behind the text.
LOCKED_BYTE = 1 << 20


def write_whole(path: Path, content: Content) -> None:
    """Write a file beside its place and move it there, so that it is never half there.

    Args:
        path: Of the file; what was there is replaced.
        content: Bytes, or what writes them to an open file.

    Raises:
        OSError: With the path, if that fails, such as on a full disk; what was there is left.
    """
    write_all({path: content})


def write_all(contents: Mapping[Path, Content]) -> None:
    """Write several files: all are written beside their places before the first is moved there.

    Args:
        contents: Bytes, or what writes them to an open file, by path.

    Raises:
        OSError: With the path of the file that could not be written; what was there is left.
    """
    moves: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            path = path.resolve()  # a link stays one, and what it names is replaced
            # Not the name that another process writes the same file under.
            new = path.with_name(f".new-{os.getpid()}-{path.name}")
            moves[new] = path
            # Made in memory: libraries hide the error of a full disk behind others of their own.
            whole = _made(content) if callable(content) else content
            with _named(path), new.open("wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())  # or a crash could leave the name without the content
        for new, path in moves.items():
            with _named(path):
                new.replace(path)
    finally:
        for new in moves:
            with suppress(OSError):
                new.unlink()


def _made(write: Callable[[BinaryIO], object]) -> memoryview:
    """What a function writes to an open file."""
    file = BytesIO()
    write(file)
    return file.getbuffer()


@contextmanager
def _named(path: Path) -> Generator[None, None, None]:
    """Errors name this path: that of a file that is being written is of no use to anybody."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def writable_folder(folder: Path, option: str = "-o") -> Path:
    """Make a folder and see that files can be written to it.

    Args:
        folder: Which one.
        option: Of the command line, where another can be chosen.

    Raises:
        ValueError: If that fails.
    """
    probe = folder / f".gendr-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"cannot write to {folder} ({reason}); choose another with {option}"
        raise ValueError(message) from None
    return folder


@contextmanager
def locked(folder: Path) -> Generator[None, None, None]:
    """Keep other processes that ask for it out of a folder.

    The system lifts the lock when the process ends, however it ends. Where a file system knows no
    locks there is none.

    Raises:
        ValueError: If another process has it.
    """
    path = folder / LOCK
    file = _open_locked(path)
    try:
        with suppress(OSError):  # who has it is worth knowing, but no reason to give up
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield
    finally:
        # POSIX removes open files, so that nobody can lock this one again; Windows closed ones.
        with suppress(OSError):
            path.unlink()
        file.close()
        if os.name == "nt":
            with suppress(OSError):
                path.unlink()


def _open_locked(path: Path) -> FileIO:
    """The file at a path, locked."""
    while True:
        file = path.open("a+b", buffering=0)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # on POSIX, on Windows
            file.seek(0)
            owner = file.read().decode() or "unknown"
            file.close()
            raise ValueError(
                f"another process (pid {owner}) is writing to {path.parent}; wait until it has "
                "ended, or choose another folder"
            ) from None
        except OSError:
            return file
        try:
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass
        file.close()  # its last owner removed it between our opening and our lock


def _lock(file: FileIO) -> None:
    """Lock an open file at once.

    Raises:
        BlockingIOError: On POSIX, if another process has it.
        PermissionError: On Windows, if another process has it.
        OSError: If the file system knows no locks.
    """
    if os.name == "nt":
        system: Any = importlib.import_module("msvcrt")
        file.seek(LOCKED_BYTE)
        system.locking(file.fileno(), system.LK_NBLCK, 1)
    else:
        system = importlib.import_module("fcntl")
        system.flock(file, system.LOCK_EX | system.LOCK_NB)
