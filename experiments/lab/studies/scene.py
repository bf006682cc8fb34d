"""Silhouettes of meshes, and what the tasks of shape and pose share."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from gendr._common.checks import check_choice
from gendr.mesh import Mesh
from gendr.photos.visual import PAPER, Closeup, Pixels, difference
from lab.engine.tasks import Progress, canonical_json, changed

ProtocolT = TypeVar("ProtocolT")


@dataclass(frozen=True, eq=False)
class SceneTask(Generic[ProtocolT]):
    """A task with a target mesh.

    Attributes:
        protocol: The protocol of the experiment.
        target: The mesh, of the size and at the place that the task needs.
        device: The device that it runs on.
    """

    name: ClassVar[str]
    protocols: ClassVar[dict[str, Any]]  # by their names

    protocol: ProtocolT
    target: Mesh
    device: str = "cpu"

    @classmethod
    def make(cls, protocol: str, target: str | Path, device: str = "cpu", **changes: Any) -> Self:
        """The task with a protocol, "laptop" or "paper", of the mesh in a file.

        Args:
            protocol: Its name.
            target: The path of the mesh.
            device: The device to run on; it is not a part of the protocol.
            **changes: Fields of the protocol to replace.

        Raises:
            FileNotFoundError: If there is no file at `target`.
            TypeError: If a field has the wrong type.
            ValueError: For unknown names, values out of range, and a target that is no mesh.
        """
        found = cls.protocols[check_choice("protocol", protocol, cls.protocols)]
        return cls.of(changed(found, changes), target, device)

    @classmethod
    def of(cls, protocol: ProtocolT, target: str | Path, device: str = "cpu") -> Self:
        """The task with a protocol, of the mesh in a file, whose colours do not count."""
        mesh = Mesh.load(target)
        return cls(protocol, cls.placed(Mesh(mesh.vertices, mesh.faces), protocol), device)

    @staticmethod
    def placed(mesh: Mesh, protocol: Any) -> Mesh:
        """A mesh with the size and at the place that the task needs."""
        raise NotImplementedError

    def protocol_json(self) -> str:
        """Everything that the scores depend on, as canonical JSON; the target as a hash."""
        protocol: Any = self.protocol
        return canonical_json(self.name, protocol, digest(self.target))


class Meter:
    """Reports the progress of work that consists of equal parts."""

    def __init__(self, parts: int, progress: Progress | None) -> None:
        self.parts, self.progress, self.done = parts, progress, 0

    def advance(self) -> None:
        """Report that one more part is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(self.done / self.parts)


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
