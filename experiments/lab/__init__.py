"""The experiments of the papers: every renderer of the family solves the same task.

`make_task` makes a task, shape optimisation or camera pose, with the published protocol or with a
smaller one that a laptop finishes for all 1242 instances.

The folders: `engine` runs a grid of tasks and keeps its results, `studies` are the tasks and the
other experiments, `report` shows the results of a grid, and `script` is what the scripts in the
repository's folder experiments have in common. Names are imported when they are first used, so that
the --help of a script does not wait for torch.

Source: thesis, sections 5.4.1 and 5.4.2; Petersen et al., GenDR, CVPR 2022.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.engine.tasks import Outcome, Task, Trial
    from lab.studies.pose import PoseProtocol, PoseTask
    from lab.studies.registry import make_task
    from lab.studies.shape import ShapeProtocol, ShapeTask

__all__ = [
    "Outcome",
    "PoseProtocol",
    "PoseTask",
    "ShapeProtocol",
    "ShapeTask",
    "Task",
    "Trial",
    "make_task",
]

_HOME = {
    "Outcome": "engine.tasks",
    "PoseProtocol": "studies.pose",
    "PoseTask": "studies.pose",
    "ShapeProtocol": "studies.shape",
    "ShapeTask": "studies.shape",
    "Task": "engine.tasks",
    "Trial": "engine.tasks",
    "make_task": "studies.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    value = getattr(import_module(f"lab.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
