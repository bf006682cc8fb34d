"""The experiments of the papers: every renderer of the family solves the same task.

The folders: `engine` runs a grid of tasks and keeps its results, `studies` are the tasks and the
trainings, `report` shows what they came to, and `script` is what the scripts in the repository's
folder experiments have in common.

Source: thesis, sections 5.4.1 and 5.4.2; Petersen et al., GenDR, CVPR 2022.
"""

__all__ = ["PROTOCOLS"]

# "laptop" is reduced: two cores need an hour or two for all instances. "paper" is as published,
# for a GPU. Every task has both.
PROTOCOLS = ("laptop", "paper")
