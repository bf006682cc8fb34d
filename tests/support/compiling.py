"""Processes that compile Numba's kernels together, so that none is compiled twice.

Processes of the tests that start together on a new machine need the same kernels at the same time.
Here one compiles a kernel and whoever needs it meanwhile waits, and loads it from the disk; other
kernels are compiled at the same time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def no_kernel_twice(folder: Path) -> Generator[None]:
    """Within it, who compiles a kernel that is kept on disk holds the lock of a file.

    It is one lock for all kinds of arguments of a kernel, because they share an index on disk.
    Kernels call each other in one direction, so two processes never wait for each other; and the
    lock of the compiler is taken first, so that two threads of a process don't either.

    Args:
        folder: of the locks, the same one for all processes; made if it is missing.
    """
    from numba.core.caching import NullCache
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    folder.mkdir(exist_ok=True)
    held: set[Path] = set()

    def alone(compile: Callable[..., Any], function: str) -> Callable[..., Any]:
        def compiled(self: Any, *args: Any) -> Any:
            if isinstance(self._cache, NullCache):
                return compile(self, *args)
            of = getattr(self, function)
            path = (
                folder / hashlib.sha256(f"{of.__module__} {of.__qualname__}".encode()).hexdigest()
            )
            with global_compiler_lock:
                if path in held:  # a kernel that calls itself
                    return compile(self, *args)
                held.add(path)
                try:
                    with _locked(path):
                        return compile(self, *args)
                finally:
                    held.remove(path)

        return compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", alone(Dispatcher.compile, "py_func"))
        patch.setattr(CFunc, "compile", alone(CFunc.compile, "_pyfunc"))
        yield


@contextmanager
def _locked(path: Path) -> Generator[None]:
    import fcntl  # which Windows does not have

    with path.open("wb") as file:  # whose end unlocks it
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
