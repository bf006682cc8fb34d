"""Files that are written whole or not at all, and folders that one process at a time writes to."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Content: TypeAlias = "bytes | Callable[[BinaryIO], object]"

LOCK = ".gendr-lock"
# On Windows no other process can read a locked byte, so the locked one lies behind the text.
LOCKED_BYTE = 1 << 20
WAIT = 0.02  # seconds between two attempts to get a lock


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
            # With the pid, two processes that write the same file do not share a temporary one.
            new = path.with_name(f".new-{os.getpid()}-{path.name}")
            moves[new] = path
            # First into memory, because libraries hide the error of a full disk behind their own.
            whole = _made(content) if callable(content) else content
            with _named(path), new.open("wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())  # else a crash could leave an empty file
        for new, path in moves.items():
            with _named(path):
                new.replace(path)
    finally:
        for new in moves:
            with suppress(OSError):
                new.unlink()


def _made(write: Callable[[BinaryIO], object]) -> memoryview:
    """The bytes that a function writes to an open file."""
    file = BytesIO()
    write(file)
    return file.getbuffer()


@contextmanager
def _named(path: Path) -> Generator[None, None, None]:
    """Raise errors with this path in place of that of the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def writable_folder(folder: Path, option: str = "-o") -> Path:
    """Make a folder if it is missing, check that files can be written to it, and return it.

    Args:
        folder: The folder.
        option: The command-line option that chooses another one, for the message.

    Raises:
        ValueError: If it cannot be made or written to.
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
def updating(path: Path, patience: float = 60.0) -> Generator[None, None, None]:
    """Hold the right to read a file, change it and write it; others that want to wait meanwhile.

    The lock is a file beside it, and ends with the process, as that of `locked`. On file systems
    that have no locks, nothing is locked.

    Args:
        path: of the file that changes; it need not be there yet.
        patience: seconds after which waiting ends.

    Raises:
        ValueError: If the others take longer than that.
    """
    end = time.monotonic() + patience
    while True:
        try:
            file = _open_locked(path.with_name(f"{LOCK}-{path.name}"))
            break
        except ValueError:
            if time.monotonic() > end:
                raise
            time.sleep(WAIT)
    with _released(file):
        yield


@contextmanager
def locked(folder: Path) -> Generator[None, None, None]:
    """Hold the lock of a folder; other processes that ask for it meanwhile are refused.

    The operating system releases the lock when the process ends, also when it is killed. On file
    systems that have no locks, nothing is locked.

    Raises:
        ValueError: If another process holds the lock.
    """
    with _released(_open_locked(folder / LOCK)):
        yield


@contextmanager
def _released(file: FileIO) -> Generator[None, None, None]:
    """Release the lock of an open file, and remove the file, at the end."""
    path = Path(os.fsdecode(file.name))
    try:
        with suppress(OSError):  # the pid is only for the messages of others
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield
    finally:
        # POSIX can remove the file while it is open, so that nobody can lock it any more; Windows
        # can only remove it once it is closed.
        with suppress(OSError):
            path.unlink()
        file.close()
        if os.name == "nt":
            with suppress(OSError):
                path.unlink()


def _open_locked(path: Path) -> FileIO:
    """Open the file at a path, make it if it is missing, and lock it."""
    while True:
        file = path.open("a+b", buffering=0)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # on POSIX and on Windows
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
        file.close()  # its last owner removed it after we opened and before we locked it


def _lock(file: FileIO) -> None:
    """Lock an open file without waiting.

    Raises:
        BlockingIOError: On POSIX, if another process holds the lock.
        PermissionError: On Windows, if another process holds the lock.
        OSError: If the file system has no locks.
    """
    if os.name == "nt":
        system: Any = importlib.import_module("msvcrt")
        file.seek(LOCKED_BYTE)
        system.locking(file.fileno(), system.LK_NBLCK, 1)
    else:
        system = importlib.import_module("fcntl")
        system.flock(file, system.LOCK_EX | system.LOCK_NB)
