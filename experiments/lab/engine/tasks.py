"""The interface of a task, which scores renderers of the family, and of its outcomes.

A task scores one instance: a distribution and a T-conorm. It has a protocol, which holds every
number that the scores depend on, and a target mesh.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

from gendr._common.checks import check_choice

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from gendr.rendering.instances import Instance

Better: TypeAlias = Literal["lower", "higher"]
# Called now and then with the part that is done, in [0, 1].
Progress: TypeAlias = "Callable[[float], object]"


@dataclass(frozen=True)
class Trial:
    """One candidate of the grid search of one instance.

    Attributes:
        scale: > 0, NDC (NDC^2 for squared distributions).
        learning_rate: The learning rate of Adam.
        seed: The seed of the random draws; in tasks without any, such as shapes, the number of the
            independent run that the candidate belongs to.
        score: The score, as the task defines it.
    """

    scale: float
    learning_rate: float
    seed: int
    score: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of one instance.

    Attributes:
        instance: The name of the instance.
        score: The score of the best candidate, as a mean over the independent runs of the protocol.
        scale: The scale of the best candidate of all runs, NDC (NDC^2 for squared distributions).
        learning_rate: The learning rate of the same candidate.
        seconds: How long the instance took.
        trials: All candidates.
        picture: A small PNG of what the best candidate found, or None.
    """

    instance: str
    score: float
    scale: float
    learning_rate: float
    seconds: float
    trials: tuple[Trial, ...]
    picture: bytes | None = None


class Task(Protocol):
    """An experiment that scores renderers, and can be pickled.

    Attributes:
        name: The name, such as "shape".
        title: The title in reports.
        better: Whether lower or higher scores are better.
        unit: The unit of the scores, for the axes of figures.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    better: ClassVar[Better]
    unit: ClassVar[str]

    def protocol_json(self) -> str:
        """Everything that the scores depend on, as canonical JSON; the target as a hash."""
        ...

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one instance; the same bits for the same seed on one machine.

        Args:
            instance: A distribution and a T-conorm.
            seed: The seed of the random draws, >= 0.
            progress: Called now and then with the part that is done, in [0, 1].
        """
        ...


_Settings = TypeVar("_Settings", bound="DataclassInstance")


def changed(settings: _Settings, overrides: dict[str, Any]) -> _Settings:
    """A protocol with some of its fields replaced; lists become tuples.

    Raises:
        ValueError: For a field that the protocol does not have; the nearest names are listed.
    """
    names = [field.name for field in fields(settings)]
    for name in overrides:
        check_choice("field of the protocol", name, names)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in overrides.items()}
    return replace(settings, **values)


def canonical_json(task: str, settings: DataclassInstance, target: str) -> str:
    """A protocol as text; runs with equal texts have equal scores.

    Args:
        task: The name of the task.
        settings: The protocol.
        target: A hash of the target.
    """
    values = {"task": task, **asdict(settings), "target": target}
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
