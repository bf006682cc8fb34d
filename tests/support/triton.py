"""Where Triton's kernels run in tests, and launches so small that all their loops turn.

Import it after `pytest.importorskip("triton")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from gendr.kernels.triton.launch import Launcher, interpreted

INTERPRETED = interpreted()
DEVICE = "cpu" if INTERPRETED else "cuda"

needs_a_place = pytest.mark.skipif(
    not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU or the interpreter"
)
needs_the_interpreter = pytest.mark.skipif(not INTERPRETED, reason="it hooks the interpreter")


def small_tiles(patch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Rendering in small tiles and blocks, with lists for all and faces in pieces.

    Every grid has more than one program.

    Args:
        changes: other values of fields of the launch.
    """
    from gendr.rendering.backends.triton import ordered, tiles

    small = {"tile": (4, 8), "block_faces": 4, "block_pixels": 16, "programs": 20, "walked": 0}
    patch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, **small | changes))
    patch.setattr(ordered, "LAUNCH", replace(tiles.LAUNCH, block_faces=1))
    for name, value in {"PIECE": 24, "PIECES": 4, "_WHOLE": 0, "SEGMENT": 4}.items():
        patch.setattr(tiles, name, value)


def as_on_a_gpu(patch: pytest.MonkeyPatch) -> None:
    """Rendering in the tiles that a GPU gets, and gates in its blocks."""
    from gendr.logic.backends.triton import backend
    from gendr.rendering.backends.triton import tiles

    patch.setattr(tiles, "LAUNCH", tiles.TileLaunch())
    patch.setattr(backend, "LAUNCH", backend.GateLaunch())


def small_gates(patch: pytest.MonkeyPatch) -> None:
    """Layers of gates in grids of several programs, all of whose loops turn."""
    from gendr.logic.backends.triton import backend

    small = backend.GateLaunch(batch=4, elements=8, table_elements=16)
    patch.setattr(backend, "LAUNCH", small)


def small_projections(patch: pytest.MonkeyPatch) -> None:
    """Projections in grids of several programs, whose loops turn more than once."""
    from gendr.rendering.backends.triton import project

    small = project.ProjectLaunch(faces=32, depths=16, lanes=16, corners=2, images=2)
    patch.setattr(project, "LAUNCH", small)


def small_sums(patch: pytest.MonkeyPatch, **changes: int) -> None:
    """Primitives in grids of several programs, none of them full.

    Segments have blocks, and blocks of blocks.
    """
    from gendr.primitives.triton.sums import LAUNCH

    small = {"block": 64, "rows": 64, "blocks": 8, "group": 4, "small": 6, "chunk": 64}
    for name, value in (small | {"programs": 3} | changes).items():
        patch.setattr(LAUNCH, name, value)


def small_rows(patch: pytest.MonkeyPatch, block: int) -> int:
    """Rows of top-k masks and losses in blocks of so many; returns the longest row of a mask."""
    from gendr.topk.backends.triton import backend

    patch.setattr(backend, "BLOCK", block)
    return backend.Mask.most


def launched_by(patch: pytest.MonkeyPatch, call: Callable[..., None]) -> None:
    """Launches become `call(launch, launcher, grid, *args)`; the first of these launches."""
    launch = Launcher.__call__
    patch.setattr(Launcher, "__call__", lambda *given: call(launch, *given))
