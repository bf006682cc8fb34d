"""A task that takes no time, and grid processes that are killed at random moments.

Worker processes import it by its name, so it cannot be part of a test file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from gendr import Instance
from lab.engine.executors import Attempt, LocalExecutor
from lab.engine.grid import run_grid
from lab.engine.store import Store, StoreError
from lab.engine.tasks import Outcome, Trial


@dataclass(frozen=True)
class FakeTask:
    """Scores an instance by its name.

    Every attempt leaves a mark in `folder`, its process id. An instance whose name holds the text
    `kills` kills its process the first time; one that holds `raises` raises an error.
    """

    folder: str
    seconds: float = 0.0
    kills: str = "no instance"
    raises: str = "no instance"

    name: ClassVar[str] = "shape"
    title: ClassVar[str] = "A fake"
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    unit: ClassVar[str] = "nothing"

    def protocol_json(self) -> str:
        """The same protocol for all instances of this task."""
        return '{"task":"fake"}'

    def run(
        self,
        instance: Instance,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> Outcome:
        """Leave a mark, wait, and then behave as the name of the instance says."""
        marks = Path(self.folder) / str(zlib.crc32(instance.name.encode()))
        is_first = not marks.exists()
        with marks.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(self.seconds)
        if self.kills in instance.name and is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.raises in instance.name:
            raise ArithmeticError("this instance\ndoes not converge")
        return outcome_of(instance.name, seed)


class Here:
    """An executor in this process.

    Args:
        run: gives the outcome of an instance.
        lost: how often instances are lost, by their names.
        failing: instances that raise, which may change.
        slots: how many are accepted at once.
        submitted: gets the names of all that were.
    """

    def __init__(
        self,
        run: Callable[[str], Outcome],
        *,
        lost: Mapping[str, int] | None = None,
        failing: Collection[str] = (),
        slots: int = 2,
        submitted: list[str] | None = None,
    ) -> None:
        self.run, self.failing, self.count = run, failing, slots
        self.lost, self.queue = Counter(lost or {}), deque[str]()
        self.submitted = [] if submitted is None else submitted

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.clear()

    def slots(self) -> int:
        """See `LocalExecutor`."""
        return self.count

    def submit(self, instance: str) -> None:
        """See `LocalExecutor`."""
        if len(self.queue) >= self.count:
            raise AssertionError("there is no free slot")
        self.submitted.append(instance)
        self.queue.append(instance)

    def wait(self, seconds: float) -> list[Attempt]:
        """See `LocalExecutor`."""
        if not self.queue:
            time.sleep(0.01)
            return []
        name = self.queue.popleft()
        if self.lost[name] > 0:
            self.lost[name] -= 1
            return [Attempt(name, reason="it was killed", lost=True)]
        if name in self.failing:
            return [Attempt(name, reason="it raised")]
        return [Attempt(name, self.run(name))]


def outcome_of(name: str, seed: int = 0) -> Outcome:
    """The outcome of the fake task for an instance, with a dummy picture."""
    score = random.Random(f"{name} {seed}").random()
    trials = tuple(Trial(10.0**-k, 0.1, seed, score + k) for k in range(3))
    return Outcome(name, score, 1.0, 0.1, 0.01, trials, b"picture of " + name.encode())


def attempts(folder: str | Path) -> list[int]:
    """The process ids of all attempts."""
    return [int(line) for path in Path(folder).iterdir() for line in path.read_text().split()]


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def results_of(path: str | Path) -> dict[str, tuple[float, str]]:
    """Score and date of every instance in a file, by name; empty while there is no file."""
    with suppress(StoreError), Store(path) as store:
        return {
            r.instance: (r.score, r.finished) for run in store.runs() for r in store.results(run)
        }
    return {}


def drive(path: str | Path, names: Sequence[str], task: FakeTask, workers: int) -> None:
    """Run the fake task on a grid, as the script does, but without its imports."""
    with Store(path, write=True) as store:
        run = store.begin(task.name, task.protocol_json(), 0)
        run_grid(store, run, names, LocalExecutor(task, workers))


def kill_and_resume(
    path: str | Path, marks: str, names: Sequence[str], pairs: int, seed: int
) -> list[dict[str, tuple[float, str]]]:
    """Repeatedly start two drivers and kill both at random moments; then let one finish.

    Drivers are forked from this process, so that only their workers have to wait for imports.

    Returns:
        The results after each round; in the last round nothing was killed.
    """
    rng = random.Random(seed)
    task = FakeTask(marks, seconds=0.1)
    rounds: list[dict[str, tuple[float, str]]] = []
    for _ in range(pairs):
        target, deadline = len(results_of(path)) + rng.randrange(4), time.monotonic() + 60
        drivers = [_fork(drive, path, names, task, 1) for _ in range(2)]
        while len(results_of(path)) < target:
            time.sleep(0.02)
            assert time.monotonic() < deadline
        for driver in drivers:
            time.sleep(rng.uniform(0, 0.15))
            os.kill(driver, signal.SIGKILL)
            os.waitpid(driver, 0)
        rounds.append(results_of(path))
    drive(path, names, task, 2)
    return [*rounds, results_of(path)]


def _fork(function: Callable[..., object], *args: Any) -> int:
    """Run a function in a child; returns its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*args)
        finally:
            os._exit(0)
    return pid


def main() -> None:
    """Run `kill_and_resume` with the arguments in argv[1], and print its result.

    Both are JSON.
    """
    rounds = kill_and_resume(**json.loads(sys.argv[1]))
    sys.stdout.write(json.dumps(rounds))
