"""Run many instances of the family on one task: choose them and run them.

>>> names = [instance.name for instance in select(dists=["gamma*"], tconorms=["yager"])]
>>> with Store("results.sqlite", write=True) as store:
...     run = store.begin(task.name, task.protocol_json(), seed=0)
...     status = run_grid(store, run, names, LocalExecutor(task, workers=2))
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gendr._common.names import nearest
from lab.engine.executors import Attempt, Executor
from lab.engine.store import Run, Store
from lab.engine.tasks import Better

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

# How many attempts an instance gets in all if its processes are lost.
ATTEMPTS = 3
# After this many lost processes before the first result, the run is stopped: none can work.
HOPELESS = 10
# Seconds that the loop waits for an attempt to end, and between two readings of the file.
POLL, HEARTBEAT = 1.0, 5.0
# Seconds between two lines of progress if there is no terminal for a progress bar.
LINE = 60.0


# ---------------------------------------------------------------------------------------------
# which instances


def select(
    dists: Sequence[str] = (), tconorms: Sequence[str] = (), limit: int | None = None
) -> list[Instance]:
    """The instances of the benchmark that patterns choose, in its order.

    A pattern is matched against the text of a distribution or a T-conorm, with * ? [] as in file
    names. The bare name of a distribution or of a family stands for all its members.

    Args:
        dists: a distribution is chosen if any of these matches; all are if there are none.
        tconorms: the same for T-conorms.
        limit: keep this many, the first ones; None keeps all.

    Raises:
        ValueError: for a pattern that matches nothing; near names are listed.
    """
    from gendr import distributions, instances, tnorms

    every = instances()
    texts = {str(i.dist) for i in every}, {str(i.tconorm) for i in every}
    chosen_dists = _matching("distribution", dists, texts[0], distributions.get)
    chosen_tconorms = _matching("T-conorm", tconorms, texts[1], tnorms.tconorm)
    chosen = [i for i in every if str(i.dist) in chosen_dists and str(i.tconorm) in chosen_tconorms]
    return chosen[:limit]


def _matching(
    what: str, patterns: Sequence[str], texts: set[str], parse: Callable[[str], Any]
) -> set[str]:
    """The texts that any of the patterns matches; all if there are none."""
    names = {text: text.partition(".")[0].partition("(")[0] for text in texts}
    chosen: set[str] = set()
    for pattern in patterns:
        wanted = pattern
        if pattern not in names.values():
            try:
                wanted = str(parse(pattern))  # another way to write a member
            except ValueError:
                wanted = pattern
        found = {t for t in texts if wanted in (t, names[t]) or fnmatchcase(t, pattern)}
        if not found:
            near = nearest(pattern, {*texts, *names.values()})
            raise ValueError(
                f"no {what} of the benchmark matches {pattern!r}; the nearest: {', '.join(near)}"
            )
        chosen |= found
    return chosen if patterns else texts


def shuffled(instances: Iterable[Instance]) -> list[str]:
    """The names of instances in a random order, always the same.

    Distributions differ in speed by a factor of ten. In this order every part of a grid has some of
    all, so that the time which is left can be told from the time that was needed.
    """
    names = [instance.name for instance in instances]
    random.Random(0).shuffle(names)
    return names


# ---------------------------------------------------------------------------------------------
# the run


@dataclass(frozen=True)
class Status:
    """The progress of a grid.

    Attributes:
        total: how many instances there are.
        scores: the scores of the finished instances, by name.
        failed: how many were given up.
        running: how many run in this process now.
    """

    total: int
    scores: Mapping[str, float]
    failed: int
    running: int

    @property
    def left(self) -> int:
        """How many are neither done nor given up."""
        return self.total - len(self.scores) - self.failed

    def best(self, better: Better) -> tuple[str, float] | None:
        """Name and score of the best instance so far; None if there is none."""
        finite = [item for item in self.scores.items() if not math.isnan(item[1])]
        choose = min if better == "lower" else max
        return choose(finite, key=lambda item: item[1], default=None)


def run_grid(
    store: Store,
    run: Run,
    names: Sequence[str],
    executor: Executor,
    watch: Callable[[Status], None] | None = None,
) -> Status:
    """Run those instances that are not done yet, and record their results.

    Several processes may do so with the same file. Each of them stays until all instances are done
    or given up, and takes over those of a process that ended early.

    Args:
        store: the results file, open for writing.
        run: a run of that file.
        names: the instances, in the order in which to run them.
        executor: an executor that has not been entered yet.
        watch: called with the status at least once a second.

    Returns:
        The status at the end.

    Raises:
        RuntimeError: if many processes are lost before there is a first result.
    """
    grid = _Grid(store, run, names, executor)
    try:
        if grid.is_left():
            with executor:
                while grid.is_left():
                    grid.step()
                    if watch:
                        watch(grid.status())
        grid.look()
    finally:
        store.release()
    return grid.status()


class _Grid:
    """The instances of a run: waiting, running, done or given up."""

    def __init__(self, store: Store, run: Run, names: Sequence[str], executor: Executor) -> None:
        self.store, self.run, self.executor, self.names = store, run, executor, set(names)
        self.waiting = deque(names)
        self.again: deque[str] = deque()  # claimed by us, to be repeated after a lost process
        self.running: set[str] = set()
        self.attempts: Counter[str] = Counter()
        self.losses_at_first: int | None = 0  # None from the first success on
        self.look()

    def look(self) -> None:
        """Read what all processes have finished or given up, and send our heartbeat."""
        self.looked = time.monotonic()
        self.store.heartbeat()
        results = self.store.results(self.run, pictures=False)
        self.scores = {r.instance: r.score for r in results if r.instance in self.names}
        self.failed = {f.instance for f in self.store.failures(self.run)} & self.names
        settled = self.failed | self.scores.keys()
        self.waiting = deque(name for name in self.waiting if name not in settled)

    def is_left(self) -> bool:
        """Whether anything is left to do or to wait for."""
        return bool(self.waiting or self.again or self.running)

    def step(self) -> None:
        """Give work to idle workers, and settle the attempts that have ended."""
        slots = self.executor.slots()
        while len(self.running) < slots and (name := self.next()):
            self.attempts[name] += 1
            self.running.add(name)
            self.executor.submit(name)
        for attempt in self.executor.wait(POLL):
            self.settle(attempt)
        if time.monotonic() - self.looked > HEARTBEAT:
            self.look()

    def next(self) -> str | None:
        """Claim an instance that no other process works on; None if there is none."""
        if self.again:
            return self.again.popleft()
        for _ in range(len(self.waiting)):
            name = self.waiting.popleft()
            claim = self.store.claim(self.run, name)
            if claim == "claimed":
                return name
            if claim == "taken":
                self.waiting.append(name)  # its process may still give it back
        return None

    def settle(self, attempt: Attempt) -> None:
        """Record an outcome or a failure, or queue a lost instance again.

        Raises:
            RuntimeError: if many processes were lost and none had a result.
        """
        name, outcome = attempt.instance, attempt.outcome
        self.running.remove(name)
        if outcome is not None:
            self.losses_at_first = None
            self.store.record(self.run, outcome)
            self.scores[name] = outcome.score
        elif attempt.lost and self.attempts[name] < ATTEMPTS:
            if self.losses_at_first is not None:
                self.losses_at_first += 1
            if self.losses_at_first == HOPELESS:
                raise RuntimeError(
                    f"{HOPELESS} times a worker was lost before any had a result, the last time: "
                    f"{attempt.reason}; try fewer workers, or one instance in a process of its own"
                )
            self.again.append(name)
        else:
            self.store.give_up(self.run, name, self.attempts[name], attempt.reason)
            self.failed.add(name)

    def status(self) -> Status:
        """The present status."""
        return Status(len(self.names), dict(self.scores), len(self.failed), len(self.running))


@contextmanager
def progress_of(name: str, better: Better) -> Generator[Callable[[Status], None], None, None]:
    """A function that shows the progress of a grid on stderr; once a minute if that is no terminal.

    Args:
        name: the name of the task.
        better: whether its lower or its higher scores are better.
    """
    from tqdm import tqdm

    bar: Any = None

    def show(status: Status) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(
                desc=name, total=status.total, initial=len(status.scores), smoothing=0,
                mininterval=0.1 if sys.stderr.isatty() else LINE, dynamic_ncols=True,
            )  # fmt: skip
        said = [f"{status.failed} failed"] if status.failed else []
        if best := status.best(better):
            said.append(f"best {best[1]:.4f} {best[0]}")
        bar.set_postfix_str(", ".join(said), refresh=False)
        bar.update(len(status.scores) - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
