"""The renderers that tasks take where none is named: a distribution and a T-conorm each.

They are chosen by the study (docs/which-renderer.md has what others gain or lose). `gendr.Renderer`
itself has the best of its source, uniform and probabilistic.
"""

from __future__ import annotations

SHAPE = ("logistic", "probabilistic")
POSE = ("uniform", "yager(p=2)")
