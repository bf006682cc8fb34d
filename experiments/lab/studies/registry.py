"""The tasks by their names.

>>> task = TASKS["shape"].make("laptop", "assets/airplane.obj")
>>> task.run(gendr.instance("logistic/probabilistic")).score
"""

from __future__ import annotations

from lab.studies.pose import PoseTask
from lab.studies.shape import ShapeTask

TASKS: dict[str, type[ShapeTask] | type[PoseTask]] = {t.name: t for t in (ShapeTask, PoseTask)}
