"""Example meshes that come with the package."""

from __future__ import annotations

from pathlib import Path

import torch

from gendr._common.checks import check_choice
from gendr.mesh.mesh import Mesh

FOLDER = Path(__file__).parents[1] / "assets"


def example_names() -> tuple[str, ...]:
    """The names of the examples, for `example` and for the command line."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.obj")))


def example_file(name: str) -> Path:
    """The OBJ file of an example.

    Raises:
        ValueError: for an unknown name.
    """
    return FOLDER / f"{check_choice('example', name, example_names())}.obj"


def example(
    name: str = "chair",
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """A mesh that comes with the package: `gendr.mesh.example("chair")`.

    All are closed, connected, without handles and oriented outwards, with y up and centred; the
    longest side of their box is 1.

    Args:
        name: One of `example_names()`.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        ValueError: for an unknown name.
    """
    return Mesh.load(example_file(name), dtype=dtype, device=device)
