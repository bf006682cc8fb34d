"""What is the same for all backends: alpha, also of CDFs that only torch can evaluate."""

from __future__ import annotations

from torch import Tensor

from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends.interface import Backend
from gendr.rendering.geometry import ImageSize, ScreenFaces

__all__ = ["alpha"]


def alpha(
    backend: Backend, faces: ScreenFaces, size: ImageSize, aggregation: Aggregation
) -> Tensor:
    """Alpha of every pixel, [B, H, W].

    Only torch can evaluate a CDF that is the user's own Python function. It is evaluated on lists
    of pairs, unless the backend takes any CDF itself (`Backend.TAKES_ANY_CDF`).
    """
    if not aggregation.coverage.has_own_cdf or backend.TAKES_ANY_CDF:
        return backend.alpha(faces, size, aggregation)
    runs = backend.pairs(faces, size, aggregation.coverage.radius(), PAIRS_AT_ONCE)
    return alpha_of_pairs(runs, backend.distance, backend.gather, faces, size, aggregation)
