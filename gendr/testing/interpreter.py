"""Triton's interpreter without the work that it repeats."""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["patched_once_per_launch"]


@contextmanager
def patched_once_per_launch() -> Generator[None]:
    """Kernels are interpreted in about half the time, with the same results.

    To interpret a kernel Triton replaces the functions of `triton.language`. It does so at the
    launch, and looks for what is left to replace at every call of a function inside the kernel,
    which takes longer than the call. Here it looks at the first of those calls only, for every
    module that it is to patch.
    """
    from triton.runtime import interpreter

    executor: Any = interpreter.GridExecutor
    function: Any = interpreter.InterpretedFunction
    launch, call = executor.__call__, function.__call__
    patched: set[frozenset[str]] = set()

    @functools.cache
    def seen_by(function: Any) -> frozenset[str]:
        """The modules that are patched for a function: those of the language that it sees."""
        modules = (interpreter.tl, interpreter.tl.core)
        names = function.__globals__.values()
        return frozenset(m.__name__ for m in modules if any(x is m for x in names))

    def quick_launch(self: Any, *args: Any, **options: Any) -> None:
        patched.clear()
        launch(self, *args, **options)

    def quick_call(self: Any, *args: Any, **options: Any) -> Any:
        seen = seen_by(self.fn)
        if seen in patched:
            return self.rewrite()(*args, **options)
        patched.add(seen)
        return call(self, *args, **options)

    executor.__call__, function.__call__ = quick_launch, quick_call
    try:
        yield
    finally:
        executor.__call__, function.__call__ = launch, call
