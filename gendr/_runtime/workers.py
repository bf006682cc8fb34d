"""Calls of a function for many inputs, in threads or processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

from gendr._runtime.checks import check_choice, check_count

Parallel: TypeAlias = Literal["threads", "processes"]


class Workers:
    """A function that is called for many inputs at once.

    Args:
        function: of one or more arguments.
        workers: how many threads or processes call it; 1 is this thread.
        parallel: "threads" for functions that release the lock of Python, as most of NumPy and
            SciPy do; "processes" for others, which must be importable.

    Raises:
        TypeError: for what cannot be called.
        ValueError: for fewer than one worker, or another kind of them.
    """

    def __init__(
        self, function: Callable[..., Any], workers: int = 1, parallel: Parallel = "threads"
    ) -> None:
        if not callable(function):
            raise TypeError(f"a function of arrays is needed, got {type(function).__name__}")
        self.function = function
        self.workers = check_count("workers", workers)
        self.parallel = check_choice("parallel", parallel, ("threads", "processes"))
        self._pool: Executor | None = None

    def map(self, *inputs: Sequence[Any]) -> list[Any]:
        """The results in the order of the inputs; one sequence for each argument."""
        if self.workers == 1:
            return list(map(self.function, *inputs))
        if self._pool is None:
            self._pool = (
                ThreadPoolExecutor(self.workers, "gendr-worker")
                if self.parallel == "threads"
                else ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"))
            )
        chunk = max(1, len(inputs[0]) // (4 * self.workers))
        return list(self._pool.map(self.function, *inputs, chunksize=chunk))

    def close(self) -> None:
        """End the threads or processes; they start again when they are needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
