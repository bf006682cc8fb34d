"""Silhouettes of meshes, for the studies of shape and pose."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gendr.mesh import Mesh
from gendr.visual import PAPER, Closeup, Pixels, difference

__all__ = ["as_png", "close_ups", "digest", "load_target", "overlays"]


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
    return _in_rows([difference(a, b) for a, b in zip(*masks, strict=True)], columns)


def close_ups(target: Tensor, found: Tensor, columns: int, side: int) -> Pixels:
    """`overlays` that are cut so that both masks of a pair fill their tile.

    Args:
        target: [B, H, W] in [0, 1], larger than the tiles.
        found: [B, H, W] in [0, 1].
        columns: >= 1, tiles in a row.
        side: pixels of a tile.

    Returns:
        [R side, columns side, 3] uint8.
    """
    tiles: list[Pixels] = []
    for pair in zip(target, found, strict=True):
        window = Closeup.of(torch.maximum(*pair)[None], side)
        across = max(window.half)
        window = replace(window, half=(across, across), size=(side, side))
        tiles.append(difference(*(window.cut(mask, 0) for mask in pair)))
    return _in_rows(tiles, columns)


def _in_rows(tiles: list[Pixels], columns: int) -> Pixels:
    """Tiles in rows, of which the last is filled up with white."""
    tiles = tiles + [np.full_like(tiles[0], PAPER)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def as_png(pixels: Pixels) -> bytes:
    """An image [H, W, 3] as a PNG file, with the palette of at most 64 colours that it needs."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
