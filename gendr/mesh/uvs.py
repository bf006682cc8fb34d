"""Texture coordinates of the meshes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gendr._common.vectors import gathered
from gendr.mesh.topology import offsets


@dataclass(frozen=True, eq=False)
class UVs:
    """Texture coordinates, and the index of the one that each corner of a face has.

    Attributes:
        values: [ΣT, 2], u right, v up; the coordinates of all meshes one after the other.
        faces: int64 [ΣF, 3], indices into `values`.
        counts: T, the number of coordinates, of each mesh.
    """

    values: Tensor
    faces: Tensor
    counts: tuple[int, ...]

    @staticmethod
    def joined(parts: Sequence[UVs]) -> UVs:
        """The UVs of the meshes of several batches."""
        starts = offsets([len(part.values) for part in parts])
        return UVs(
            torch.cat([part.values for part in parts]),
            torch.cat([part.faces + start for part, start in zip(parts, starts, strict=True)]),
            tuple(n for part in parts for n in part.counts),
        )

    def of_mesh(self, i: int, faces: slice) -> UVs:
        """The UVs of mesh i, which has these faces."""
        start, count = offsets(self.counts)[i], self.counts[i]
        return UVs(self.values[start : start + count], self.faces[faces] - start, (count,))

    def map(self, function: Callable[[Tensor], Tensor]) -> UVs:
        """The same indices with `function` applied to the coordinates."""
        return replace(self, values=function(self.values))

    def to(self, device: torch.device) -> UVs:
        """The same UVs on another device."""
        return replace(self, values=self.values.to(device), faces=self.faces.to(device))

    def corners(self) -> Tensor:
        """Coordinates of the corners of all faces: [ΣF, 3, 2]."""
        return gathered(self.values, self.faces.reshape(-1)).reshape(-1, 3, 2)
