"""The choice of the rendering backend: by device, or by name."""

from __future__ import annotations

from torch import Tensor

from gendr.kernels.backends import Choice
from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends.interface import Backend, operation
from gendr.rendering.geometry import ImageSize, ScreenFaces

_MODULES = {
    "cpu": "gendr.rendering.backends.cpu.backend",
    "triton": "gendr.rendering.backends.triton.backend",
    "reference": "gendr.rendering.backends.reference",
}
choose = Choice("rendering", _MODULES, batched="rendering").choose


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
