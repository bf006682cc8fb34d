"""Files that are written whole or not at all, and folders that one process at a time writes to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeAlias

Content: TypeAlias = "bytes | Callable[[BinaryIO], object]"

LOCK = ".gendr-lock"


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
def locked(path: Path, patience: float = 0.0) -> Generator[None, None, None]:
    """Hold the lock of a folder, or of a file that is read, changed and written.

    Other processes that ask for it meanwhile wait, or are refused. The lock is a file in the folder
    or beside the file. The operating system releases it when the process ends, also when it is
    killed. On file systems that have no locks, nothing is locked.

    Args:
        path: A folder that is there, or a file, which need not be.
        patience: Seconds after which waiting ends.

    Raises:
        ValueError: If another process holds the lock longer than that.
    """
    from filelock import FileLock, Timeout

    file = path / LOCK if path.is_dir() else path.with_name(f"{LOCK}-{path.name}")
    lock = FileLock(file)
    try:
        lock.acquire(timeout=patience, poll_interval=0.02)
    except Timeout:
        pid = ""
        with suppress(OSError):  # the pid is only for the message
            pid = file.read_text()
        raise ValueError(
            f"another process (pid {pid or 'unknown'}) is writing to {file.parent}; wait until it "
            "has ended, or choose another folder"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    with suppress(OSError):
        file.write_text(str(os.getpid()))
    try:
        yield
    finally:
        if os.name != "nt":  # where an open file can be removed, nobody can lock it any more
            file.unlink(missing_ok=True)
        lock.release()
