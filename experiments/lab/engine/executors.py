"""Where instances run: processes of this machine, or a Ray cluster.

An executor takes names of instances and returns attempts. It knows nothing of results files and
repeats nothing itself. An attempt either has an outcome, or failed in the task (and would fail
again), or was lost with its process (and may succeed if it is repeated). It is a context manager:
entering it starts what it needs, leaving it stops all running work.

Workers run torch, and with it the kernels of the CPU backend, on one thread each.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gendr._common.checks import check_count
from lab.cluster import connect, import_ray

if TYPE_CHECKING:
    from lab.engine.tasks import Outcome, Task

# Seconds that a worker gets to end on its own.
PATIENCE = 5.0


@dataclass(frozen=True)
class Attempt:
    """The result of running one instance once.

    Attributes:
        instance: the name of the instance.
        outcome: the outcome, or None if the attempt failed.
        reason: why it failed, in one line; empty if it did not.
        lost: whether it failed because its process was lost, not because of the task.
    """

    instance: str
    outcome: Outcome | None = None
    reason: str = ""
    lost: bool = False


# ---------------------------------------------------------------------------------------------
# in the worker


@lru_cache(maxsize=1)
def _load(pickled: bytes) -> Task:
    """The task of this worker, unpickled once, so that what it prepares is kept."""
    import torch

    torch.set_num_threads(1)
    return pickle.loads(pickled)


def attempt_task(task: bytes, seed: int, instance: str) -> Attempt:
    """Run one instance. What goes wrong is told and stops nothing."""
    import gendr

    try:
        return Attempt(instance, _load(task).run(gendr.instance(instance), seed=seed))
    except Exception as error:  # noqa: BLE001  # a task may raise anything; the grid goes on
        return Attempt(instance, reason=_reason(error))


def _reason(error: Exception) -> str:
    """The error and its place in one line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}:{place.lineno})"


def _serve(pipe: Connection, task: bytes, seed: int) -> None:
    """The loop of a local worker: run what the pipe names until it closes."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(EOFError):
        while True:
            pipe.send(attempt_task(task, seed, pipe.recv()))


def _leave_with_parent() -> None:
    """End this worker when its parent has died."""
    parent = parent_process()
    assert parent is not None  # for the type checker
    parent.join()
    os._exit(1)


# ---------------------------------------------------------------------------------------------
# processes of this machine


@dataclass
class _Worker:
    """A process, our end of its pipe, and the instance that it runs."""

    process: SpawnProcess
    pipe: Connection
    instance: str | None = None


class LocalExecutor:
    """Processes of this machine, each of which runs one instance at a time.

    Processes start when they are needed, and are replaced when they die.

    Args:
        task: the task that they run.
        workers: how many processes, >= 1.
        seed: the seed of the task.
    """

    def __init__(self, task: Task, workers: int, *, seed: int = 0) -> None:
        self._task, self._seed = pickle.dumps(task), seed
        self._count = check_count("workers", workers)
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.pipe.close()  # an idle worker ends at that
            if worker.instance is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
        self._workers.clear()

    def slots(self) -> int:
        """How many instances may run at once."""
        return self._count

    def submit(self, instance: str) -> None:
        """Start an instance; there must be a free slot."""
        idle = (worker for worker in self._workers if worker.instance is None)
        worker = next(idle, None) or self._start()
        worker.instance = instance
        with suppress(OSError):  # the worker died, which `wait` will find
            worker.pipe.send(instance)

    def _start(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._task, self._seed))
        with _no_interrupts():
            process.start()
        theirs.close()  # so that our end closes when the process dies
        worker = _Worker(process, ours)  # pyright: ignore[reportArgumentType]  # as on Windows
        self._workers.append(worker)
        return worker

    def wait(self, seconds: float) -> list[Attempt]:
        """The attempts that have ended since; waits at most `seconds` for the first of them."""
        busy = {worker.pipe: worker for worker in self._workers if worker.instance is not None}
        if not busy:
            time.sleep(seconds)
        ready = connection.wait(list(busy), seconds) if busy else []
        return [self._receive(worker) for pipe, worker in busy.items() if pipe in ready]

    def _receive(self, worker: _Worker) -> Attempt:
        """The attempt that a worker sends, or a lost one if the worker is dead."""
        try:
            attempt = worker.pipe.recv()
        except (EOFError, OSError):
            attempt = Attempt(str(worker.instance), reason=self._bury(worker), lost=True)
        worker.instance = None
        return attempt

    def _bury(self, worker: _Worker) -> str:
        """Remove a dead worker and say how it died."""
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.process.close()
        how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return f"its worker {how}" + (", perhaps for want of memory" if code == -9 else "")


@contextmanager
def _no_interrupts() -> Generator[None, None, None]:
    """Let processes that start here ignore Ctrl-C: a terminal sends it to all, the parent acts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------------------------------------
# a cluster


class RayExecutor:
    """Tasks on a Ray cluster: an instance takes one core, and part of a GPU if asked for.

    The machines of the cluster need the same version of gendr.

    Args:
        task: the task to run.
        address: the address of the cluster, as `ray.init` takes it; None starts a cluster on this
            machine.
        workers: the most instances at once; None is as many as the cluster has room for.
        gpus: GPUs per instance, such as 0.25.
        seed: the seed of the task.

    Raises:
        RuntimeError: if Ray is not installed.
    """

    def __init__(
        self,
        task: Task,
        *,
        address: str | None = None,
        workers: int | None = None,
        gpus: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._ray = import_ray()
        self._blob, self._seed = pickle.dumps(task), seed
        self._address, self._gpus = address, gpus
        self._most = None if workers is None else check_count("workers", workers)
        self._running: dict[Any, str] = {}  # names by the references of their results

    def __enter__(self) -> RayExecutor:
        """Connect to the cluster.

        Raises:
            ConnectionError: if there is no cluster at the address.
            RuntimeError: if the cluster has no room for a single instance.
        """
        connect(self._ray, self._address, self._most)
        try:
            if self._room() < 1:
                raise RuntimeError(
                    f"no machine of the cluster has a core and {self._gpus:g} of a GPU to spare"
                )
            self._task = self._ray.put(self._blob)
            remote = self._ray.remote(num_cpus=1, num_gpus=self._gpus, max_retries=0)
            self._attempt = remote(attempt_task)
        except BaseException:
            self._ray.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._ray.shutdown()

    def _room(self) -> int:
        """How many instances fit into the cluster as it is now."""
        resources = self._ray.cluster_resources()
        room = resources.get("CPU", 0.0)
        if self._gpus:
            room = min(room, resources.get("GPU", 0.0) / self._gpus)
        return int(room)

    def slots(self) -> int:
        """How many instances may run at once; if machines come and go, this changes."""
        room = self._room()
        return room if self._most is None else min(room, self._most)

    def submit(self, instance: str) -> None:
        """See `LocalExecutor`."""
        reference = self._attempt.remote(self._task, self._seed, instance)
        self._running[reference] = instance

    def wait(self, seconds: float) -> list[Attempt]:
        """See `LocalExecutor`."""
        if not self._running:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._running), timeout=seconds)
        return [self._receive(reference) for reference in ready]

    def _receive(self, reference: Any) -> Attempt:
        instance = self._running.pop(reference)
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:  # outside the task, such as a missing package
            return Attempt(instance, reason=_reason(error))
        except errors.RayError as error:
            said = str(error).strip().partition("\n")[0]
            return Attempt(instance, reason=f"{type(error).__name__}: {said}", lost=True)


Executor: TypeAlias = "LocalExecutor | RayExecutor"
