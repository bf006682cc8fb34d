"""Subdivision: faces are split in four at the midpoints of their edges."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.vectors import gathered
from gendr.mesh.topology import Topology
from gendr.mesh.uvs import UVs


def split_topology(topology: Topology) -> Topology:
    """Split each face in four; the meshes must share their faces.

    The midpoints of the edges of a mesh are numbered after its vertices, in the order of its edges;
    face i becomes faces 4i .. 4i + 3.
    """
    faces = _split_faces(topology)
    count = topology.vertex_counts[0] + len(topology.local_edges[0])
    batch = len(topology.vertex_counts)
    return Topology(faces, (count,), (len(faces),), True).repeated(batch)


def split_uvs(uvs: UVs) -> UVs:
    """The UVs of the same faces split in four."""
    values, counts, device = uvs.values, uvs.counts, uvs.values.device
    over = Topology(uvs.faces, (len(values),), (len(uvs.faces),), True)
    edges, faces = over.local_edges[0], _split_faces(over)
    fine = with_midpoints(values, edges, 1)
    if len(counts) == 1:
        return UVs(fine, faces, (len(fine),))
    # Midpoints come after all UVs of the batch: move them behind the UVs of their mesh.
    ends = torch.tensor(counts, device=device).cumsum(0)
    first = torch.cat((torch.arange(len(values), device=device), edges[:, 0]))
    owner = torch.searchsorted(ends, first, right=True)
    order = owner.argsort(stable=True)
    fine_counts = torch.bincount(owner, minlength=len(counts)).tolist()
    return UVs(fine[order], order.argsort()[faces], tuple(fine_counts))


def with_midpoints(values: Tensor, edges: Tensor, batch: int) -> Tensor:
    """Values [B·V, C] of B meshes, with the values at the midpoints of `edges` appended to each."""
    values = values.reshape(batch, values.shape[0] // batch, values.shape[-1])
    ends = gathered(values, edges.reshape(-1), -2).reshape(batch, -1, 2, values.shape[-1])
    return torch.cat((values, ends.mean(2)), 1).flatten(0, 1)


def _split_faces(topology: Topology) -> Tensor:
    """Split each face in four; midpoints are numbered after all vertices: [4F, 3]."""
    faces, count = topology.local, topology.vertex_counts[0]
    a, b, c = faces.unbind(-1)
    ab, bc, ca = (topology.local_edges[1] + count).unbind(-1)
    four = (a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca)
    return torch.stack(four, -1).reshape(-1, 3)
