"""The choice of the rendering backend: by device, or by name."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from gendr._common.checks import check_choice
from gendr.kernels.backends import Choice
from gendr.primitives.choice import backends as of_primitives
from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends.interface import Backend
from gendr.rendering.geometry import ImageSize, ScreenFaces

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "triton", "reference")


def _load(name: str) -> Backend:
    if name == "cpu":
        from gendr.rendering.backends.cpu import backend as module
    elif name == "triton":
        from gendr.rendering.backends.triton import backend as module
    else:
        from gendr.rendering.backends import reference as module
    return cast("Backend", module)


_choice = Choice(_load, NAMES, batched="rendering")
choose = _choice.choose


def backends(of: str = "rendering") -> dict[str, str | None]:
    """Every backend's name -> None if it is usable here, else the reason why not.

    Args:
        of: "rendering", or "primitives": `rasterize`, `interpolate`, `texture` and `antialias`.

    Raises:
        ValueError: for another one.
    """
    known = {"rendering": _choice.backends, "primitives": of_primitives}
    return known[check_choice("of", of, tuple(known))]()


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
