"""The studies that the family exists for: what every renderer makes of the same task.

`make_task` gives a task, shape optimisation or camera pose, at the published protocol or at one
that a laptop finishes for all 1242 instances.

Source: thesis, sections 5.4.1 and 5.4.2; Petersen et al., GenDR, CVPR 2022.
"""

from gendr.experiments.pose import PoseProtocol, PoseTask
from gendr.experiments.shape import ShapeProtocol, ShapeTask
from gendr.experiments.tasks import Outcome, Task, Trial, make_task

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
