"""Long work: the one loop that does its steps, what it has come to, and what callbacks get.

Work is a step, `step(state, seconds) -> state`, and the state that it has come to: a value, or an
object that steps change in place and return. A state says its `progress`, in [0, 1], where 1 ends
the loop, and holds all that is needed to go on, bit for bit: plain values and tensors, for a
checkpoint (`gendr.jobs.checkpoint`). Callbacks take one argument, that state; work that is not
one loop, such as stereo and then a descent, calls them with a `Progress`. A training, whose steps
change its network in place, is a `Work`.

Source: the loop of Optimistix (Rader, Lyons & Kidger, 2024), `_iterate.py`.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from gendr.jobs.checkpoint import load_checkpoint, save_checkpoint


class Now(Protocol):
    """What every callback is called with."""

    @property
    def progress(self) -> float:
        """The part of the work that is done, in [0, 1]."""
        ...


class State(Now, Protocol):
    """What steps have come to."""

    def save(self, path: str | Path) -> None:
        """Write a checkpoint."""
        ...


class Progress(float):
    """The part of some work that is done, in [0, 1].

    Attributes:
        stage: what is done now, if there are several stages.
        state: all that is needed to go on from the last step that is done, as plain values and
            tensors: what `resume` takes. None where the work begins anew.
    """

    stage: str
    state: Mapping[str, Any] | None

    def __new__(
        cls, done: float, stage: str = "", state: Mapping[str, Any] | None = None
    ) -> Progress:
        """Make the number."""
        self = super().__new__(cls, done)
        self.stage, self.state = stage, state
        return self

    @property
    def progress(self) -> float:
        """The same number."""
        return float(self)


Tell: TypeAlias = "Callable[[Progress], None]"


def between(tell: Tell, first: float, last: float, stage: str = "") -> Callable[[float], None]:
    """What is to be told the part of some work, from 0 to 1, of work that is a part of other work.

    Args:
        tell: is told the part of all.
        first: the part of all that was done before.
        last: that which is done with it.
        stage: its name.
    """
    return lambda done: tell(Progress(first + (last - first) * done, stage))


class Pace:
    """Now and then: after some seconds, or later, so that it takes a small part of the time.

    >>> if pace.is_due:
    ...     with pace.paused():
    ...         save()

    Args:
        seconds: between the end of one time and the begin of the next.
        part: of the time, at most.
    """

    def __init__(self, seconds: float, part: float = math.inf) -> None:
        self._seconds, self._part = seconds, part
        self._due = time.monotonic() + seconds

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._due

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """While it is done; from its end on, time counts anew."""
        begin = time.monotonic()
        yield
        now = time.monotonic()
        self._due = now + max(self._seconds, (now - begin) / self._part)


class Stopwatch:
    """The seconds of the phases of some work, which follow each other.

    Attributes:
        phases: their seconds, by name.
    """

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._begin = self._last = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """All seconds since the begin."""
        return time.perf_counter() - self._begin

    def lap(self, name: str) -> None:
        """A phase ends, and the next begins."""
        now = time.perf_counter()
        self.phases[name], self._last = round(now - self._last, 3), now

    def lapped(self, phases: Mapping[str, float]) -> None:
        """Phases end that another watch has timed."""
        self.phases |= phases
        self._last = time.perf_counter()

    def seconds(self) -> dict[str, float]:
        """Those of each phase, and `total`."""
        return {**self.phases, "total": round(self.elapsed, 3)}


S = TypeVar("S", bound=State)


def iterate(
    state: S,
    step: Callable[[S, float], S],
    *,
    callback: Callable[[S], object] | None = None,
    checkpoint: str | Path | None = None,
    save_every: float = 60.0,
    seconds: float = math.inf,
) -> S:
    """Do steps until the progress is 1.

    Args:
        state: to begin with.
        step: takes the state and the seconds since the step before it began, which a budget of time
            counts; those of the callback are among them.
        callback: called with the state after every step. What it raises, KeyboardInterrupt
            included, ends the work after a checkpoint.
        checkpoint: a file that is written every `save_every` seconds and at the end.
        save_every: the most that a killed process loses.
        seconds: a limit for the steps of this call; the first step beyond it is the last.

    Returns: the last state.
    """
    pace = Pace(save_every)

    def save() -> None:
        if checkpoint is not None:
            with pace.paused():
                state.save(checkpoint)

    begin = clock = time.perf_counter()
    while state.progress < 1:
        now = time.perf_counter()
        state, clock = step(state, now - clock), now
        if callback is not None:
            try:
                callback(state)
            except BaseException:
                save()
                raise
        if time.perf_counter() - begin >= seconds:
            break
        if pace.is_due:
            save()
    save()
    return state


class Work(ABC):
    """Work whose steps change it in place, as PyTorch's modules and optimisers do.

    Attributes:
        kind: what its checkpoints are of, such as "a training of a router".
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def progress(self) -> float:
        """The part that is done, in [0, 1]."""

    @abstractmethod
    def advance(self) -> object:
        """Do one step."""

    @abstractmethod
    def signature(self) -> dict[str, Any]:
        """Settings and data as plain values; works with equal signatures take equal steps."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on, as plain values and tensors."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; an existing file is replaced only when the new one is complete.

        Raises:
            OSError: if it cannot be written, such as on a full disk; an existing file is kept.
        """
        save_checkpoint(path, self.kind, self.state_dict(), self.signature())

    def restore(self, path: str | Path) -> None:
        """Continue from a checkpoint; on a CPU, bit for bit as if there had been no interruption.

        Raises:
            ValueError: if there is no file, or it is no checkpoint, or that of another work.
        """
        names = self.state_dict().keys()
        self.load_state_dict(load_checkpoint(path, self.kind, names, self.signature()))


W = TypeVar("W", bound=Work)


def drive(
    work: W,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callable[[W], object] | None = None,
    save_every: float = 60.0,
    seconds: float = math.inf,
) -> None:
    """Do the steps of work that they change in place.

    Args:
        work: is changed.
        checkpoint: a file that is written every `save_every` seconds and at the end.
        resume: whether to continue from that file.
        callback: as that of `iterate`, like the next two.
        save_every: seconds between two checkpoints.
        seconds: a limit for the steps of this call.

    Raises:
        ValueError: if there is nothing to resume from.
    """
    if resume:
        if checkpoint is None:
            raise ValueError("resume needs a checkpoint; name its file")
        work.restore(checkpoint)

    def step(work: W, _: float) -> W:
        work.advance()
        return work

    iterate(
        work, step, callback=callback, checkpoint=checkpoint, save_every=save_every,
        seconds=seconds,
    )  # fmt: skip
