"""The reference backend: no kernels, so that every algorithm runs as the torch code of its file.

It is what a GPU runs, batched, and what the kernels are compared with. Twice differentiable.
"""

from __future__ import annotations

from torch import Tensor

shortest_path = shortest_path_graph = alignment = bubble_sort = None


def available() -> str | None:
    """None: it needs nothing but torch."""
    return None


def supports(tensor: Tensor) -> bool:
    """True: it works on every device of torch."""
    return True
