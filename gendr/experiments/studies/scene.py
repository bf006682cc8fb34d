"""Silhouettes of meshes, for the studies of shape and pose."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
from torch import Tensor

from gendr.mesh import Mesh
from gendr.visual import PAPER, Pixels, difference

__all__ = ["as_png", "digest", "load_target", "overlays"]


def load_target(path: str | Path) -> Mesh:
    """The shape of a mesh file, without its colours.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no mesh.
    """
    mesh = Mesh.load(path)
    return Mesh(mesh.vertices, mesh.faces)


def digest(mesh: Mesh) -> str:
    """SHA-256 of the vertices and faces."""
    hashed = hashlib.sha256()
    for tensor in (mesh.vertices, mesh.faces):
        hashed.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def overlays(target: Tensor, found: Tensor, columns: int) -> Pixels:
    """Pairs of masks, one over the other, in rows.

    Args:
        target: [B, H, W] in [0, 1].
        found: [B, H, W] in [0, 1].
        columns: >= 1, tiles in a row; rows are filled up with white.

    Returns:
        [R H, columns W, 3] uint8, grey where both are, blue where only the target is, orange where
        only the other is.
    """
    masks = (x.detach().double().cpu().numpy() for x in (target, found))
    tiles = [difference(a, b) for a, b in zip(*masks, strict=True)]
    tiles += [np.full_like(tiles[0], PAPER)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def as_png(pixels: Pixels) -> bytes:
    """An image [H, W, 3] as a PNG file, with the palette of at most 64 colours that it needs."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
