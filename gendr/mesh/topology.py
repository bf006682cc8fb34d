"""The connectivity of a mesh, without its vertex positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import (
    check_device,
    check_float,
    check_index,
    check_integer,
    check_shape,
)
from gendr._common.tracing import once


def offsets(counts: Sequence[int]) -> tuple[int, ...]:
    """The index at which each part starts: an exclusive running sum of the counts."""
    return tuple(accumulate(counts, initial=0))[:-1]


def owners(counts: Sequence[int], device: torch.device) -> Tensor:
    """For every packed element, which of the meshes it belongs to: int64 [sum of counts]."""
    size = torch.tensor(counts, device=device)
    return torch.arange(len(counts), device=device).repeat_interleave(size)


def connected_parts(faces: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    """For each of `count` vertices the number of its part, those that faces [F, 3] connect."""
    a, b = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
    first = np.arange(count)  # of the part of each vertex, as far as it is known
    while len(a):
        high, low = np.maximum(first[a], first[b]), np.minimum(first[a], first[b])
        np.minimum.at(first, high, low)
        while (first != (further := first[first])).any():
            first = further
        apart = first[a] != first[b]
        a, b = a[apart], b[apart]
    return (np.cumsum(first == np.arange(count), dtype=np.int32) - 1)[first]


def euler_and_parts(faces: NDArray[np.int64]) -> tuple[int, int]:
    """Vertices - edges + faces of what faces [F, 3] use, and the number of connected parts."""
    count = int(faces.max(initial=-1)) + 1
    used = np.zeros(count, bool)
    used[faces] = True
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), 1)
    key = np.sort(ends[:, 0] * count + ends[:, 1])
    edges = int(np.count_nonzero(np.diff(key, prepend=-1)))
    parts = int(connected_parts(faces, count).max(initial=-1)) + 1 - int(np.sum(~used))
    return int(used.sum()) - edges + len(faces), parts


@dataclass(frozen=True, eq=False)
class Topology:
    """The connectivity that all meshes share which differ in vertex positions only.

    `local` holds the faces [F, 3] of one mesh if all B meshes share them, otherwise the packed
    faces. A batch of copies refers to the `one` that it copies, so that what is computed for it is
    reused.
    """

    local: Tensor
    vertex_counts: tuple[int, ...]
    face_counts: tuple[int, ...]
    shared: bool
    one: Topology | None = None

    @once
    def faces(self) -> Tensor:
        """Packed indices [ΣF, 3]."""
        if not self.shared or len(self.vertex_counts) == 1:
            return self.local
        start = torch.tensor(offsets(self.vertex_counts), device=self.local.device)
        return (self.local + start[:, None, None]).reshape(-1, 3)

    @once
    def local_edges(self) -> tuple[Tensor, Tensor]:
        """Unique undirected edges [E, 2], smaller index first, and the edges of each face [F, 3].

        Edge k of a face joins its corners k and k + 1 (mod 3). If all meshes share their faces, the
        edges are those of one mesh, otherwise they are packed.
        """
        if self.one is not None:
            return self.one.local_edges
        ends = torch.stack((self.local, self.local.roll(-1, dims=1)), -1)  # [F, 3, 2]
        low, high = ends.amin(-1), ends.amax(-1)
        base = max(1, sum(self.vertex_counts))
        key, of_face = torch.unique(low * base + high, return_inverse=True)
        return torch.stack((key // base, key % base), -1), of_face.reshape(-1, 3)

    @once
    def vertex_corners(self) -> tuple[Tensor, Tensor]:
        """The corners of faces that are each vertex, in the order of the faces, all packed.

        Returns:
            Int32 [ΣV + 1], where the list of each vertex starts, and int32 [3 ΣF], the lists one
            after the other; an entry is 3 times the face plus the corner.
        """
        corners, entries = torch.sort(self.faces.reshape(-1), stable=True)
        numbers = torch.arange(sum(self.vertex_counts) + 1, device=corners.device)
        return torch.searchsorted(corners, numbers, out_int32=True), entries.to(torch.int32)

    @once
    def edges(self) -> Tensor:
        """Unique undirected edges, packed: [ΣE, 2]."""
        edges = self.local_edges[0]
        if not self.shared or len(self.vertex_counts) == 1:
            return edges
        start = torch.tensor(offsets(self.vertex_counts), device=edges.device)
        return (edges + start[:, None, None]).reshape(-1, 2)

    @once
    def closed(self) -> bool:
        """Whether every edge is traversed once in each direction, as on a closed surface."""
        if self.local.numel() == 0:
            return False
        edges, of_face = self.local_edges
        forward = (self.local < self.local.roll(-1, dims=1)).reshape(-1)
        count = torch.bincount(of_face.reshape(-1), minlength=len(edges))
        ahead = torch.bincount(of_face.reshape(-1)[forward], minlength=len(edges))
        return bool((count == 2).all()) and bool((ahead == 1).all())

    @once
    def _copies(self) -> dict[int, Topology]:
        return {1: self}

    def repeated(self, count: int) -> Topology:
        """The topology of `count` copies of a single mesh; it is cached for each count."""
        if count not in self._copies:
            self._copies[count] = Topology(
                self.local, self.vertex_counts * count, self.face_counts * count, True, self
            )
        return self._copies[count]

    @staticmethod
    def joined(parts: Sequence[Topology]) -> Topology:
        """Join several topologies; copies of one mesh stay copies."""
        first = parts[0]
        one = first.one or first
        if first.shared and all((part.one or part) is one for part in parts):
            return one.repeated(sum(len(part.vertex_counts) for part in parts))
        starts = offsets([sum(part.vertex_counts) for part in parts])
        return Topology(
            torch.cat([part.faces + start for part, start in zip(parts, starts, strict=True)]),
            tuple(n for part in parts for n in part.vertex_counts),
            tuple(n for part in parts for n in part.face_counts),
            shared=False,
        )

    def of_mesh(self, i: int) -> Topology:
        """The topology of mesh i of a batch."""
        if self.one is not None:
            return self.one
        vertex, face = offsets(self.vertex_counts)[i], offsets(self.face_counts)[i]
        count = self.face_counts[i]
        local = self.local[face : face + count] - vertex
        return Topology(local, (self.vertex_counts[i],), (count,), shared=True)

    def to(self, device: torch.device) -> Topology:
        """The same topology on another device."""
        if self.local.device == device:
            return self
        if self.one is not None:
            return self.one.to(device).repeated(len(self.vertex_counts))
        return Topology(self.local.to(device), self.vertex_counts, self.face_counts, self.shared)


def checked_topology(vertices: Tensor, faces: Tensor) -> Topology:
    """The topology of the meshes whose vertices and faces a user gives, see `gendr.Mesh`.

    Args:
        vertices: [V, 3] or [B, V, 3]; their values do not matter here.
        faces: [F, 3], common to all meshes, or [B, F, 3].

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for shapes, devices or indices that are not allowed.
    """
    check_float("vertices", vertices)
    faces = check_integer("faces", faces)
    known = check_shape("vertices", vertices, "[V, 3] or [B, V, 3]")
    batch, count = known.get("B", 1), known["V"]
    if vertices.ndim == 2:
        sizes = check_shape("faces", faces, "[F, 3]")
    else:
        sizes = check_shape("faces", faces, "[F, 3] or [B, F, 3]", B=batch)
        if batch == 0:
            raise ValueError("vertices must hold at least one mesh, got shape [0, V, 3]")
    check_device("faces", faces, "vertices", vertices)
    check_index("faces", faces, count, "vertices")
    if faces.ndim == 2:
        return Topology(faces, (count,), (sizes["F"],), True).repeated(batch)
    start = count * torch.arange(batch, device=faces.device)
    local = (faces + start[:, None, None]).reshape(-1, 3)
    return Topology(local, (count,) * batch, (sizes["F"],) * batch, batch == 1)
