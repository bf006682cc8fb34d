"""The threads of the compiled kernels: all kernels share one pool."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import count, pairwise
from threading import Lock, Thread, get_ident, local
from typing import Any, TypeVar

import numpy as np
from typing_extensions import Self

T = TypeVar("T")
R = TypeVar("R")

_own_threads: int | None = None
_pools: dict[int, ThreadPoolExecutor] = {}
_here = local()  # `alone` in a thread that takes no helpers away from others
_has_run, _crowded = False, Lock()  # a long kernel, of late; held by the thread in `_crowd`
# Seconds that a long kernel takes at least. Where another thread turns round on a core, one that
# wakes has the core at once, and shares it only after a millisecond or some.
_LONG = 1e-3
_QUIET = 0.5  # seconds without long kernels, after which torch has OpenMP to itself
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive one


def set_num_threads(threads: int | None) -> None:
    """Set how many threads the compiled kernels use; None, the default, is as many as torch uses.

    What is done for each photo by itself, as masks, is shared out to as many. Results do not depend
    on it. It also lets torch itself run on one thread while the kernels use all cores: on a busy
    machine torch's threads wait for each other, so that a program with small tensors is faster with
    one.

    Raises:
        TypeError: if `threads` is neither an int nor None.
        ValueError: if it is below 1.
    """
    from gendr._common.checks import check_count

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


@cache
def _openmp() -> ctypes.CDLL | None:
    """What has GNU's OpenMP, on which torch runs, unless it was said how long its threads wait."""
    if sys.platform != "linux" or os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        return None
    return known if hasattr(known := ctypes.CDLL(None), "GOMP_parallel") else None


def _crowd(openmp: ctypes.CDLL) -> None:
    """Let torch's threads sleep while long kernels work, until none has ended for some time.

    Threads of GNU's OpenMP wait for the next operator in a loop of 300,000 turns, 3 to 7 ms, in
    which a kernel's thread on the same core has half of it; of 100 turns, some microseconds, while
    there are more of them than cores. Here one starts, calls free(NULL) and sleeps: one too many
    where torch has all cores. It ends with this thread, as torch alone is slower so, and torch
    between short kernels: waking a thread takes 10 microseconds. Intel's and LLVM's OpenMP do not
    count.

    Source: libgomp of GCC 13, `do_spin` in wait.h, `gomp_team_start` and `gomp_free_thread`.
    """
    global _has_run
    openmp.GOMP_parallel(openmp.free, None, 2, 0)
    while _has_run:
        _has_run = False
        time.sleep(_QUIET)
    _crowded.release()


def run(
    kernel: Callable[..., None],
    units: int,
    *args: Any,
    pieces: int = 8,
    alone: bool = False,
    most: int | None = None,
) -> None:
    """Run kernel(*args, start, stop) over 0 .. units - 1 on all threads.

    Kernels write only what belongs to their units, so the result does not depend on the split.

    Args:
        kernel: a function that leaves the lock of Python.
        units: how many there are.
        args: what the kernel takes before the units.
        pieces: for each thread, into which the units are cut.
        alone: whether this thread does all of it: waking another one takes about 0.1 ms.
        most: threads that do it, at most.
    """
    global _has_run
    if units == 0:
        return
    alone = alone or units == 1 or most == 1 or getattr(_here, "alone", False)
    if alone or (threads := num_threads()) == 1:
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

    begun = time.perf_counter()
    pool = _pools.get(threads)
    if pool is None:  # setdefault, as another thread may have made one meanwhile
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads - 1, "gendr"))
    helpers = [pool.submit(work) for _ in range(min(threads, len(left), most or threads) - 1)]
    # This thread works too. Helpers that have not started when it is done are cancelled; those that
    # have are waited for, also after an exception: nobody may write any more what is then let go.
    try:
        work()
    finally:
        left.clear()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
        # What is cancelled stays in the pool's queue until a helper is free, as it is not while it
        # runs what calls this; it must not hold arrays that long.
        args = ()
        if time.perf_counter() - begun > _LONG:
            _has_run = True
            if (openmp := _openmp()) is not None and _crowded.acquire(blocking=False):
                Thread(target=_crowd, args=(openmp,), name="gendr-crowd", daemon=True).start()


def mapped(
    function: Callable[[T], R],
    items: Sequence[T],
    tell: Callable[[float], None] | None = None,
    most: int | None = None,
    device: Any = None,
) -> list[R]:
    """[function(x) for x in items], on the threads of the kernels.

    For what mostly leaves the lock of Python, as OpenCV, SciPy, Pillow, torch and kernels do, and
    does not depend on the order. Each thread has torch on one thread, and gradients or none as
    where this is called.

    Args:
        function: is called by any thread; of what it raises, that of the first item is raised.
        items: what it is called with.
        tell: called by this thread alone with the part of the items that is done.
        most: threads that do it, at most, where each needs much memory.
        device: where torch computes; only what it does on the CPU is shared out.
    """
    found: dict[int, R] = {}
    errors: dict[int, Exception] = {}
    caller, done = get_ident(), count(1)
    torch: Any = sys.modules.get("torch")
    alone = num_threads() == 1 or len(items) < 2 or most == 1 or _is_elsewhere(device)
    modes = nullcontext if alone or not torch else _modes(torch)

    def some(start: int, stop: int) -> None:
        if get_ident() == caller:
            each(start, stop)
            return
        with modes():
            each(start, stop)

    def each(start: int, stop: int) -> None:
        for i in range(start, stop):
            if any(k < i for k in tuple(errors)):
                return  # what comes after an error is not wanted
            try:
                found[i] = function(items[i])
            except Exception as error:  # noqa: BLE001 (raised below)
                errors[i] = error
                return
            part = next(done) / len(items)
            if tell is not None and get_ident() == caller and part < 1:
                tell(part)

    with torch_on_one_thread() if torch and not alone else nullcontext():
        run(some, len(items), pieces=len(items), alone=alone, most=most)
    if errors:
        raise errors[min(errors)]
    if tell is not None:
        tell(1.0)
    return [found[i] for i in range(len(items))]


class Beside:
    """Calls that another thread does, one after the other, while this one goes on.

    For what mostly leaves the lock of Python, see `mapped`; kernels run there on that thread alone.
    At the end of the context what has not begun is left out, and what has is waited for. Where the
    kernels have one thread there is no other: all is done when it is asked for.

    Args:
        device: where torch computes; only what it does on the CPU is done beside.

    >>> with Beside() as beside:
    ...     drawn = beside.call(draw, mesh)
    ...     step()
    ...     picture = drawn()
    """

    def __init__(self, device: Any = None) -> None:
        alone = num_threads() == 1 or _is_elsewhere(device)
        self._pool = None if alone else ThreadPoolExecutor(1, "gendr-beside")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def call(self, function: Callable[..., R], *args: Any) -> Callable[[], R]:
        """What gives function(*args), or raises what that raised.

        Who asks for what has not begun does it himself.
        """
        torch: Any = sys.modules.get("torch")
        modes = _modes(torch) if torch else nullcontext

        def work() -> R:
            _here.alone = True
            with modes():
                return function(*args)

        future = None if self._pool is None else self._pool.submit(work)

        @cache
        def found() -> R:
            if future is None or future.cancel():
                return function(*args)
            return future.result()

        return found


def _is_elsewhere(device: Any) -> bool:
    return device is not None and device.type != "cpu"


def _modes(torch: Any) -> Callable[[], AbstractContextManager[None]]:
    """What gives another thread the switches of torch that this one has, and one thread of it."""
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    @contextmanager
    def modes() -> Generator[None, None, None]:
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            yield

    return modes
