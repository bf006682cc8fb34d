"""Run many instances of the family on one task: choose them, order them, run them.

>>> chosen = jobs(select(dists=["gamma*"], tconorms=["yager"]))
>>> with Store("results.sqlite", write=True) as store:
...     run = store.begin(task.name, task.protocol_json(), seed=0)
...     status = run_grid(store, run, chosen, LocalExecutor(task, workers=2))
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from gendr._runtime.names import nearest
from lab.engine.executors import Attempt, Executor
from lab.engine.store import Run, Store

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

__all__ = ["Job", "Progress", "Status", "forecast", "jobs", "run_grid", "select"]

# How many attempts an instance gets in all if its processes are lost.
ATTEMPTS = 3
# After this many lost processes before the first result, the run is stopped: none can work.
HOPELESS = 10
# Seconds that the loop waits for an attempt to end, and between two readings of the file.
POLL, HEARTBEAT = 1.0, 5.0
# How much slower the forecast takes heavy jobs to be while it has seen only one kind.
HEAVIER = 10.0
# Seconds between two lines of progress if there is no terminal for a progress bar.
LINE = 60.0


# ---------------------------------------------------------------------------------------------
# which instances


def select(
    dists: Sequence[str] = (), tconorms: Sequence[str] = (), limit: int | None = None
) -> list[Instance]:
    """The instances of the benchmark that patterns choose, in its order.

    A pattern is matched against the text of a distribution or a T-conorm, with * ? [] as in file
    names. The bare name of a law or of a family stands for all its members.

    Args:
        dists: a distribution is chosen if any of these matches; all are if there are none.
        tconorms: the same for T-conorms.
        limit: keep this many, the first ones; None keeps all.

    Raises:
        ValueError: for a pattern that matches nothing; near names are listed.
    """
    from gendr import distributions, instances, tnorms

    every = instances()
    dist_texts = dict.fromkeys(str(instance.dist) for instance in every)
    tconorm_texts = dict.fromkeys(str(instance.tconorm) for instance in every)
    canonical_dist = _canonical(distributions.get)
    canonical_tconorm = _canonical(tnorms.tconorm)
    chosen_dists = _matching("distribution", dists, list(dist_texts), canonical_dist)
    chosen_tconorms = _matching("T-conorm", tconorms, list(tconorm_texts), canonical_tconorm)
    chosen = [
        instance
        for instance in every
        if str(instance.dist) in chosen_dists and str(instance.tconorm) in chosen_tconorms
    ]
    return chosen[:limit]


def _canonical(parse: Callable[[str], Any]) -> Callable[[str], str]:
    """A function that turns the text of a user into that which `str` gives of the same member."""

    def canonical(text: str) -> str:
        try:
            return str(parse(text))
        except ValueError:  # a pattern, a bare name, or nothing at all
            return text

    return canonical


def _matching(
    what: str, patterns: Sequence[str], texts: Sequence[str], canonical: Callable[[str], str]
) -> set[str]:
    """The texts that any of the patterns matches; all if there are none."""
    if not patterns:
        return set(texts)
    names = {text: text.partition(".")[0].partition("(")[0] for text in texts}
    chosen: set[str] = set()
    for pattern in patterns:
        bare = pattern if pattern in names.values() else canonical(pattern)
        found = {t for t in texts if bare in (t, names[t]) or fnmatchcase(t, pattern)}
        if not found:
            near = nearest(pattern, {*texts, *names.values()})
            raise ValueError(
                f"no {what} of the benchmark matches {pattern!r}; the nearest: {', '.join(near)}"
            )
        chosen |= found
    return chosen


# ---------------------------------------------------------------------------------------------
# in what order


@dataclass(frozen=True)
class Job:
    """One instance to run, as far as the order and the forecast need to know it.

    Attributes:
        name: the name of the instance.
        law: the text of its distribution; jobs of one law take about the same time.
        reach: the distance at which it still looks for faces, in NDC at a usual scale; a job with
            a larger reach is slower.
    """

    name: str
    law: str
    reach: float

    @property
    def is_heavy(self) -> bool:
        """Whether every pixel meets every face."""
        return self.reach > 2.0  # the image is 2 wide


def jobs(instances: Iterable[Instance]) -> list[Job]:
    """Instances as jobs, in the order in which they are best run.

    First comes one job of each law, heavy and light in turn, so that the forecast soon has seen all
    laws; then the heavy jobs, so that no heavy one starts last and keeps the rest waiting.
    """
    every = [_job(instance) for instance in instances]
    every.sort(key=lambda job: -job.reach)  # stable: equals stay in the order of the benchmark
    members: defaultdict[str, list[Job]] = defaultdict(list)
    for job in every:
        members[job.law].append(job)
    # Take the middle job of each law: the first T-conorm, the maximum, is cheaper than the others.
    scouts = list(_from_both_ends([law[len(law) // 2] for law in members.values()]))
    known = set(scouts)
    return scouts + [job for job in every if job not in known]


def _job(instance: Instance) -> Job:
    reach = instance.dist.radius(1e-2, 1e-4)  # at a usual scale and cutoff
    return Job(instance.name, str(instance.dist), float(reach))


def _from_both_ends(scouts: Iterable[Job]) -> Iterator[Job]:
    """The first, the last, the second, the last but one, ..."""
    rest = deque(scouts)
    while rest:
        yield rest.popleft()
        rest.reverse()


def forecast(left: Mapping[Job, float], done: Mapping[Job, float], workers: int) -> float | None:
    """Forecast the seconds until all jobs are done, from the times of finished jobs.

    Args:
        left: jobs that are not done -> seconds that they have been running for, 0 for most.
        done: jobs that are done -> seconds that they took.
        workers: how many jobs run at once, >= 1.

    Returns:
        The seconds, or None while no job is done. Jobs of a law are taken to be as slow as its
        finished jobs on average; a law without finished jobs as slow as the median of the other
        laws of its kind, heavy or light.
    """
    seen: defaultdict[str, list[float]] = defaultdict(list)
    is_heavy: dict[str, bool] = {}
    for job, seconds in done.items():
        seen[job.law].append(seconds)
        is_heavy[job.law] = job.is_heavy
    if not seen:
        return None
    means = {law: statistics.fmean(seconds) for law, seconds in seen.items()}
    typical = {
        kind: statistics.median(means[law] for law in means if is_heavy[law] is kind)
        for kind in set(is_heavy.values())
    }
    typical.setdefault(True, typical.get(False, 0.0) * HEAVIER)
    typical.setdefault(False, typical[True] / HEAVIER)
    needed = [
        max(means.get(job.law, typical[job.is_heavy]) - running, 0.0)
        for job, running in left.items()
    ]
    # It takes at least the work divided by the workers, and at least the longest job.
    return max(math.fsum(needed) / workers, max(needed, default=0.0))


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
        seconds_left: a forecast, None while nothing is known.
    """

    total: int
    scores: Mapping[str, float]
    failed: int
    running: int
    seconds_left: float | None

    @property
    def left(self) -> int:
        """How many are neither done nor given up."""
        return self.total - len(self.scores) - self.failed

    def best(self, better: Literal["lower", "higher"]) -> tuple[str, float] | None:
        """Name and score of the best instance so far; None if there is none."""
        finite = [item for item in self.scores.items() if not math.isnan(item[1])]
        choose = min if better == "lower" else max
        return choose(finite, key=lambda item: item[1], default=None)


def run_grid(
    store: Store,
    run: Run,
    chosen: Sequence[Job],
    executor: Executor,
    watch: Callable[[Status], None] | None = None,
) -> Status:
    """Run those jobs that are not done yet, and record their results.

    Several processes may do so with the same file. Each of them stays until all jobs are done or
    given up, and takes over the jobs of a process that ended early.

    Args:
        store: the results file, open for writing.
        run: a run of that file.
        chosen: the jobs, in the order in which to run them.
        executor: an executor that has not been entered yet.
        watch: called with the status at least once a second.

    Returns:
        The status at the end.

    Raises:
        RuntimeError: if many processes are lost before there is a first result.
    """
    grid = _Grid(store, run, chosen, executor)
    try:
        if not grid.is_over():
            with executor:
                while not grid.is_over():
                    grid.step()
                    if watch:
                        watch(grid.status())
        grid.look()
    finally:
        store.release()
    return grid.status()


class _Grid:
    """The jobs of a run: waiting, under way, done or given up."""

    def __init__(self, store: Store, run: Run, chosen: Sequence[Job], executor: Executor) -> None:
        self.store, self.run, self.executor = store, run, executor
        self.jobs = {job.name: job for job in chosen}
        self.waiting = deque(chosen)
        self.again: deque[Job] = deque()  # claimed by us, to be repeated after a lost process
        self.started: dict[Job, float] = {}  # running here, and since when
        self.attempts: Counter[Job] = Counter()
        self.losses_at_first: int | None = 0  # None from the first success on
        self.slots = 0
        self.look()

    def look(self) -> None:
        """Read what all processes have finished or given up, and send our heartbeat."""
        self.looked = time.monotonic()
        self.store.heartbeat()
        jobs, run = self.jobs, self.run
        results = self.store.results(run, pictures=False)
        self.done = {jobs[r.instance]: (r.score, r.seconds) for r in results if r.instance in jobs}
        given_up = self.store.failures(run)
        self.failed = {jobs[f.instance] for f in given_up if f.instance in jobs}
        self.waiting = deque(j for j in self.waiting if j not in self.done and j not in self.failed)
        self.at_work = self.store.at_work(run)

    def is_over(self) -> bool:
        """Whether nothing is left to do or to wait for."""
        return not (self.waiting or self.again or self.started)

    def step(self) -> None:
        """Give work to idle workers, and settle the attempts that have ended."""
        self.slots = self.executor.slots()
        while len(self.started) < self.slots and (job := self.next()):
            self.attempts[job] += 1
            self.started[job] = time.monotonic()
            self.executor.submit(job.name)
        for attempt in self.executor.wait(POLL):
            self.settle(attempt)
        if time.monotonic() - self.looked > HEARTBEAT:
            self.look()

    def next(self) -> Job | None:
        """Claim a job that no other process works on; None if there is none."""
        if self.again:
            return self.again.popleft()
        for _ in range(len(self.waiting)):
            job = self.waiting.popleft()
            claim = self.store.claim(self.run, job.name)
            if claim == "claimed":
                return job
            if claim == "taken":
                self.waiting.append(job)  # its process may still give it back
        return None

    def settle(self, attempt: Attempt) -> None:
        """Record an outcome or a failure, or queue a lost job again."""
        job = self.jobs[attempt.instance]
        del self.started[job]
        if attempt.outcome is not None:
            self.losses_at_first = None
            self.store.record(self.run, attempt.outcome)
            self.done[job] = (attempt.outcome.score, attempt.outcome.seconds)
        elif attempt.lost and self.attempts[job] < ATTEMPTS:
            self.check_hope(attempt.reason)
            self.again.append(job)
        else:
            self.store.give_up(self.run, job.name, self.attempts[job], attempt.reason)
            self.failed.add(job)

    def check_hope(self, reason: str) -> None:
        """Raise if many processes were lost and none had a result."""
        if self.losses_at_first is None:
            return
        self.losses_at_first += 1
        if self.losses_at_first == HOPELESS:
            raise RuntimeError(
                f"{HOPELESS} times a worker was lost before any had a result, the last time: "
                f"{reason}; try fewer workers, or one instance in a process of its own"
            )

    def status(self) -> Status:
        """The present status."""
        now = time.monotonic()
        left = {
            job: now - self.started[job] if job in self.started else 0.0
            for job in self.jobs.values()
            if job not in self.done and job not in self.failed
        }
        seconds = {job: seconds for job, (_, seconds) in self.done.items()}
        workers = max(self.slots, self.at_work, 1)
        return Status(
            total=len(self.jobs),
            scores={job.name: score for job, (score, _) in self.done.items()},
            failed=len(self.failed),
            running=len(self.started),
            seconds_left=forecast(left, seconds, workers),
        )


# ---------------------------------------------------------------------------------------------
# what the user sees


class Progress:
    """A progress bar on stderr, or a line a minute if stderr is no terminal.

    Args:
        name: the name of the task.
        better: whether its lower or its higher scores are better.
    """

    def __init__(self, name: str, better: Literal["lower", "higher"]) -> None:
        self._name = name
        self._better: Literal["lower", "higher"] = better
        self._bar: Any = None
        self._next_line = 0.0

    def __call__(self, status: Status) -> None:
        """Show the progress of the grid."""
        if sys.stderr.isatty():
            self._draw(status)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE
            done = f"{len(status.scores)} of {status.total} done"
            sys.stderr.write(f"{self._name}: {done}, {self.text(status)}\n")

    def text(self, status: Status) -> str:
        """The status in words, without the number of finished instances."""
        parts = [f"{status.failed} failed"] if status.failed else []
        if status.left and status.seconds_left is not None:
            parts.append(f"about {_duration(status.seconds_left)} left")
        elif status.left:
            parts.append(f"{status.left} left")
        if best := status.best(self._better):
            parts.append(f"best {best[1]:.4f} {best[0]}")
        return ", ".join(parts)

    def _draw(self, status: Status) -> None:
        from tqdm import tqdm

        if self._bar is None:
            layout = "{desc}: {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt}{postfix}"
            self._bar = tqdm(
                total=status.total, desc=self._name, bar_format=layout, dynamic_ncols=True
            )
        self._bar.n = len(status.scores)
        self._bar.set_postfix_str(self.text(status))

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def _duration(seconds: float) -> str:
    """A duration as text, rounded as coarsely as a forecast is."""
    if seconds < 60:
        return f"{max(5 * math.ceil(seconds / 5), 5)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
