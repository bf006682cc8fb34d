"""The tasks by their names.

>>> task = make_task("shape", "laptop", "assets/airplane.obj")
>>> task.run(gendr.instance("logistic/probabilistic")).score
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gendr._runtime.checks import check_choice
from lab.engine.tasks import Task
from lab.studies.pose import PoseTask
from lab.studies.shape import ShapeTask

__all__ = ["TASKS", "make_task"]

TASKS: dict[str, type[Task]] = {task.name: task for task in (ShapeTask, PoseTask)}


def make_task(
    name: str,
    protocol: str = "laptop",
    target: str | Path | None = None,
    *,
    device: str = "cpu",
    **overrides: Any,
) -> Task:
    """A task by its name.

    Args:
        name: "shape" or "pose".
        protocol: "laptop", for two cores and an hour or two, or "paper", as it was published.
        target: Path of a mesh.
        device: The device to run on; it is not a part of the protocol.
        **overrides: Fields of the protocol, `ShapeProtocol` or `PoseProtocol`, to replace.

    Raises:
        FileNotFoundError: If there is no file at `target`.
        TypeError: If an override has the wrong type.
        ValueError: For unknown names, values out of range, and a target that is no mesh.
    """
    kind = TASKS[check_choice("task", name, TASKS)]
    if target is None:
        raise ValueError(f"the {name} task needs a target; give the path of a mesh")
    return kind.make(protocol, target, device, **overrides)
