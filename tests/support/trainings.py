"""A training that is interrupted and goes on, for tests that this changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gendr.jobs.training import TrainingLoop, drive

R = TypeVar("R")


class _InterruptedError(Exception):
    pass


def trained(training: TrainingLoop[Any, Any], **options: Any) -> Any:
    """The result of a training after all its steps, with the options of `drive`."""
    drive(training, **options)
    return training.result()


def resumed(train: Callable[..., R], checkpoint: Path, at: int) -> tuple[R, list[int]]:
    """Interrupt a training after a step, then go on from its checkpoint.

    Args:
        train: does all steps, and takes `checkpoint`, `resume` and `callback` as `drive` does.
        checkpoint: the file.
        at: the step.

    Returns:
        What the training came to, and the steps that were done after the interruption.

    Raises:
        AssertionError: if it ended before that step.
    """

    def stop(training: Any) -> None:
        if training.step == at:
            raise _InterruptedError

    try:
        train(checkpoint=checkpoint, callback=stop)
    except _InterruptedError:
        pass
    else:
        raise AssertionError(f"the training ended before step {at}")
    steps: list[int] = []
    result = train(
        checkpoint=checkpoint,
        resume=True,
        callback=lambda training: steps.append(training.step),
    )
    return result, steps
