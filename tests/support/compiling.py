"""Processes that compile Numba's kernels one after another, so that none is compiled twice.

Processes of the tests that start together on a new machine need the same kernels at the same time.
Each would compile them for most of a minute; here the second waits, and loads what the first has
compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def one_process_compiles(path: Path) -> Generator[None]:
    """Within it, whoever holds Numba's lock of its compiler holds the lock of a file, too.

    Under that lock, Numba looks into its cache on disk before it compiles.

    Args:
        path: the file, the same one for all processes; made if it is missing.
    """
    from numba.core import event

    held = _Held(path)

    class Lock(event.Listener):
        def on_start(self, event: Any) -> None:
            held.enter()

        def on_end(self, event: Any) -> None:
            held.leave()

    with event.install_listener("numba:compiler_lock", Lock()):
        yield


class _Held(threading.local):
    """How often a thread has entered, and the locked file while it is inside."""

    def __init__(self, path: Path) -> None:
        self._path, self._depth = path, 0
        self._file: IO[bytes] | None = None

    def enter(self) -> None:
        if self._depth == 0:
            import fcntl  # which Windows does not have

            self._file = self._path.open("wb")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            self._file.close()  # which unlocks it
            self._file = None
