"""The threads of the compiled kernels: all kernels share one pool."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

_own_threads: int | None = None
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive one


def set_num_threads(threads: int | None) -> None:
    """Set how many threads the compiled kernels use; None, the default, is as many as torch uses.

    Results do not depend on it. It also lets torch itself run on one thread while the kernels use
    all cores: on a busy machine torch's threads wait for each other, so that a program with small
    tensors is faster with one.

    Raises:
        TypeError: if `threads` is neither an int nor None.
        ValueError: if it is below 1.
    """
    from gendr._runtime.checks import check_count

    global _own_threads
    _own_threads = None if threads is None else check_count("threads", threads)


def num_threads() -> int:
    """Threads of the compiled kernels as they are now.

    Programs that do without torch have as many as there are cores.
    """
    if _own_threads:
        return _own_threads
    torch = sys.modules.get("torch")
    return (os.cpu_count() or 1) if torch is None else torch.get_num_threads()


@contextmanager
def torch_on_one_thread(kernels: int | None = None) -> Generator[None, None, None]:
    """Torch on one thread for a while; the kernels on `kernels`, by default on all that they had.

    Torch's tensors are small in fits and in experiments, and its threads wait for each other where
    a machine is busy: a fit took six times as long beside another program.
    """
    import torch

    ours, torchs = _own_threads, torch.get_num_threads()
    set_num_threads(num_threads() if kernels is None else kernels)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(torchs)
        set_num_threads(ours)


def run(
    kernel: Callable[..., None], units: int, *args: Any, pieces: int = 8, alone: bool = False
) -> None:
    """Run kernel(*args, start, stop) over 0 .. units - 1 on all threads.

    Kernels write only what belongs to their units, so the result does not depend on the split.

    Args:
        kernel: a function that leaves the lock of Python.
        units: how many there are.
        args: what the kernel takes before the units.
        pieces: for each thread, into which the units are cut.
        alone: whether this thread does all of it: waking another one takes about 0.1 ms.
    """
    threads = num_threads()
    if units == 0:
        return
    if alone or threads == 1 or units == 1:
        kernel(*args, 0, units)
        return
    bounds = np.linspace(0, units, min(units, threads * pieces) + 1).astype(np.int64).tolist()
    left = deque(pairwise(bounds))

    def work() -> None:
        while left:
            try:
                start, stop = left.popleft()
            except IndexError:  # another thread took the last piece
                return
            kernel(*args, start, stop)

    pool = _pools.get(threads)
    if pool is None:  # setdefault, as another thread may have made one meanwhile
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads - 1, "gendr"))
    helpers = [pool.submit(work) for _ in range(min(threads, len(left)) - 1)]
    # This thread works too. Helpers that have not started when it is done are cancelled; those that
    # have are waited for, also after an exception: nobody may write any more what is then let go.
    try:
        work()
    finally:
        left.clear()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
