"""What an experiment asks of every renderer of the family, and what it gets back.

A task scores one instance: a distribution and a T-conorm. It has a protocol, which holds every
number that the scores depend on, and a target mesh.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

from typing_extensions import Self

from gendr._runtime.checks import check_choice
from gendr.experiments.engine.protocols import PROTOCOLS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from gendr.rendering.instances import Instance

__all__ = [
    "PROTOCOLS",
    "Meter",
    "Outcome",
    "Progress",
    "Task",
    "Trial",
    "canonical_json",
    "changed",
]


Progress: TypeAlias = "Callable[[float], None]"


@dataclass(frozen=True)
class Trial:
    """One candidate of the grid search of one instance.

    Attributes:
        scale: > 0, NDC (NDC^2 for squared distributions).
        learning_rate: Of Adam.
        seed: Of what is drawn at random; where nothing is, as for shapes, the number of the
            independent run that the candidate took part in.
        score: As the task defines it.
    """

    scale: float
    learning_rate: float
    seed: int
    score: float


@dataclass(frozen=True)
class Outcome:
    """What one instance reached.

    Attributes:
        instance: Its name.
        score: Of the best candidate, the mean over the independent runs of the protocol.
        scale: Of the best candidate of all runs, NDC (NDC^2 for squared distributions).
        learning_rate: Of the same candidate.
        seconds: That the instance took.
        trials: All candidates.
        picture: A small PNG of what the best candidate found, or None.
    """

    instance: str
    score: float
    scale: float
    learning_rate: float
    seconds: float
    trials: tuple[Trial, ...]
    picture: bytes | None


class Task(Protocol):
    """An experiment with its protocol and its target; can be pickled.

    Attributes:
        name: Such as "shape".
        title: For the heads of reports.
        better: Which scores are.
        unit: Of the scores, for the axes of figures.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    better: ClassVar[Literal["lower", "higher"]]
    unit: ClassVar[str]

    @classmethod
    def make(cls, protocol: str, target: str | Path, device: str, **overrides: Any) -> Self:
        """The task at a protocol of `PROTOCOLS`, with some of its fields replaced."""
        ...

    def protocol_json(self) -> str:
        """Everything that defines the scores, as canonical JSON; the target by its content."""
        ...

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one instance; the same bits for the same seed on one machine.

        Args:
            instance: A distribution and a T-conorm.
            seed: Of what is drawn at random, >= 0.
            progress: Called now and then with the part that is done, in [0, 1].
        """
        ...


# ---------------------------------------------------------------------------------------------
# what protocols have in common


class Meter:
    """Tells how much is done, in equal parts."""

    def __init__(self, parts: int, progress: Progress | None) -> None:
        self.parts, self.progress, self.done = parts, progress, 0

    def advance(self) -> None:
        """One part more."""
        self.done += 1
        if self.progress is not None:
            self.progress(self.done / self.parts)


_Settings = TypeVar("_Settings", bound="DataclassInstance")


def changed(settings: _Settings, overrides: dict[str, Any]) -> _Settings:
    """A protocol with some of its fields replaced; lists become tuples.

    Raises:
        ValueError: For a field that it does not have, with the nearest names.
    """
    names = [field.name for field in fields(settings)]
    for name in overrides:
        check_choice("field of the protocol", name, names)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in overrides.items()}
    return replace(settings, **values)


def canonical_json(task: str, settings: DataclassInstance, target: str) -> str:
    """A protocol as text: equal texts, equal scores.

    Args:
        task: Its name.
        settings: The protocol.
        target: Digest of the target.
    """
    values = {"task": task, **asdict(settings), "target": target}
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
