"""What the renderer asks of a backend, its table of kernels; and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor

from gendr.kernels.backends import AnyBackend, Choice
from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends import reference
from gendr.rendering.geometry import ImageSize, ScreenFaces

# Its table has kernels of some functions of `reference`, by "rendering." and their names; for the
# others the definition runs. Kernels of alpha are not asked for CDFs of the user's, which torch
# evaluates on the pairs that are listed.
Backend: TypeAlias = AnyBackend

_MODULES = {
    "cpu": "gendr.rendering.backends.cpu.backend",
    "triton": "gendr.rendering.backends.triton.backend",
    "reference": "gendr.rendering.backends.reference",
}
choose = Choice("rendering", _MODULES, batched="rendering").choose


def operation(backend: Backend, name: str) -> Callable[..., Any]:
    """What computes a part of a picture: the kernels of a backend, or else the definition.

    Args:
        backend: by `choose`.
        name: of a function of `gendr.rendering.backends.reference`, whose arguments and results
            it has.
    """
    found = backend.KERNELS.get(f"rendering.{name}")
    return getattr(reference, name) if found is None else found


def alpha(
    backend: Backend, faces: ScreenFaces, size: ImageSize, aggregation: Aggregation
) -> Tensor:
    """Alpha of every pixel, [B, H, W].

    Only torch can evaluate a CDF that is the user's own Python function. It is evaluated on lists
    of pairs, unless there are no kernels of alpha.
    """
    if not aggregation.coverage.has_own_cdf or "rendering.alpha" not in backend.KERNELS:
        return operation(backend, "alpha")(faces, size, aggregation)
    radius = aggregation.coverage.radius()
    runs = operation(backend, "pairs")(faces, size, radius, PAIRS_AT_ONCE)
    distance, gather = operation(backend, "distance"), operation(backend, "gather")
    return alpha_of_pairs(runs, distance, gather, faces, size, aggregation)
