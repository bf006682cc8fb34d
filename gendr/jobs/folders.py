"""Folders for results: they can be written to, and one process at a time does."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".gendr-lock"
# What cameras, masks, frames and results in a folder were made from.
SOURCES = ".gendr-sources.json"


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
def output_folder(folder: Path) -> Generator[None, None, None]:
    """Make a folder for results if it is missing, and hold its lock.

    One that was made here and holds no result at the end, as where input is refused, goes again.

    Args:
        folder: The folder.

    Raises:
        ValueError: If it cannot be written to, or another process does.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with locked(writable_folder(folder)):
            yield
    finally:
        with suppress(OSError):  # which holds something
            if folder in made and [file.name for file in folder.iterdir()] == [SOURCES]:
                (folder / SOURCES).unlink()
            for place in made:
                place.rmdir()


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
