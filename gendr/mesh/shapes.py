"""Simple shapes made by formulas, as starting points of fits and for tests.

Closed shapes are oriented outwards: seen from outside, corners run counter-clockwise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gendr._common.checks import check_count
from gendr.mesh.mesh import Mesh


def icosphere(
    subdivisions: int = 3,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """Unit sphere from an icosahedron whose faces are split in four, `subdivisions` times.

    Args:
        subdivisions: n >= 0; the sphere has 10·4ⁿ + 2 vertices and 20·4ⁿ faces
            (n = 3: 642 vertices, 1,280 faces).
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: if `subdivisions` is no int.
        ValueError: if it is negative.
    """
    check_count("subdivisions", subdivisions, least=0)
    g = (1 + math.sqrt(5)) / 2
    corners = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0)]
    corners += [(z, x, y) for x, y, z in corners] + [(y, z, x) for x, y, z in corners]
    vertices = torch.tensor(corners, dtype=torch.float64, device="cpu")
    # Faces are the triples of corners at mutual distance 2, the edge length.
    near = (torch.cdist(vertices, vertices) - 2).abs() < 1e-9
    a, b, c = torch.combinations(torch.arange(12, device="cpu"), 3).unbind(-1)
    keep = near[a, b] & near[b, c] & near[a, c]
    faces = _outwards(vertices, torch.stack((a, b, c), -1)[keep])
    mesh = Mesh(torch.nn.functional.normalize(vertices, dim=-1), faces)
    for _ in range(subdivisions):
        mesh = mesh.subdivided()
        mesh = mesh.with_vertices(torch.nn.functional.normalize(mesh.vertices, dim=-1))
    return mesh.to(dtype=dtype, device=device)


def cube_sphere(
    cells: int = 15,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """Unit sphere from a cube whose sides carry `cells` × `cells` squares.

    The grid lines are spaced evenly in angle, which keeps the squares within a factor of about
    1.4 in edge length; each is cut along its shorter diagonal.

    Args:
        cells: n >= 1; the sphere has 6n² + 2 vertices and 12n² faces
            (n = 15: 1,352 vertices, 2,700 faces).
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: if `cells` is no int.
        ValueError: if it is < 1.
    """
    vertices, faces = _cube(cells)
    vertices = torch.tan(vertices * (math.pi / 4))
    mesh = Mesh(torch.nn.functional.normalize(vertices, dim=-1), _shorter_diagonal(vertices, faces))
    return mesh.to(dtype=dtype, device=device)


def cube(
    cells: int = 1,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """Cube [−1, 1]³ with shared corners, every side cut into 2 · `cells`² triangles.

    Args:
        cells: n >= 1; the cube has 6n² + 2 vertices.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: if `cells` is no int.
        ValueError: if it is < 1.
    """
    vertices, quads = _cube(cells)
    return Mesh(vertices, _split(quads)).to(dtype=dtype, device=device)


def grid(
    rows: int = 1,
    columns: int = 1,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """Square [−1, 1]² in the plane z = 0, facing +z, with UVs that span [0, 1]².

    Args:
        rows: Cells along y, >= 1.
        columns: Cells along x, >= 1.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: if a count is no int.
        ValueError: if it is < 1.
    """
    check_count("rows", rows)
    check_count("columns", columns)
    v, u = torch.meshgrid(
        torch.linspace(0, 1, rows + 1, dtype=torch.float64, device="cpu"),
        torch.linspace(0, 1, columns + 1, dtype=torch.float64, device="cpu"),
        indexing="ij",
    )
    uvs = torch.stack((u, v), -1).reshape(-1, 2)
    vertices = torch.cat((2 * uvs - 1, torch.zeros_like(uvs[:, :1])), -1)
    faces = _split(_quads(torch.arange(len(uvs), device="cpu").reshape(rows + 1, columns + 1)))
    return Mesh(vertices, faces, uvs=uvs, face_uvs=faces).to(dtype=dtype, device=device)


def _quads(index: Tensor) -> Tensor:
    """Corners [N, 4], in order around each cell, of a grid of vertex indices [R + 1, C + 1]."""
    corners = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    return torch.stack(corners, -1).reshape(-1, 4)


def _split(quads: Tensor) -> Tensor:
    """Two triangles per quad, cut along corners 0 and 2: [2N, 3]."""
    return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def _shorter_diagonal(vertices: Tensor, quads: Tensor) -> Tensor:
    """Two triangles per quad, cut along its shorter diagonal (0–2 if they are equal)."""
    p = vertices[quads]
    first = (p[:, 0] - p[:, 2]).norm(dim=-1)
    second = (p[:, 1] - p[:, 3]).norm(dim=-1)
    turned = (second < first * (1 - 1e-9))[:, None]
    return _split(torch.where(turned, quads.roll(-1, dims=1), quads))


def _outwards(vertices: Tensor, faces: Tensor) -> Tensor:
    """Flip those polygons [N, K] of a convex body around the origin that face inwards."""
    corners = vertices[faces]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    inwards = (torch.linalg.cross(b - a, c - a) * corners.mean(1)).sum(-1) < 0
    return torch.where(inwards[:, None], faces.flip(1), faces)


def _cube(cells: int) -> tuple[Tensor, Tensor]:
    """Vertices [6n² + 2, 3] and outward quads [6n², 4] of the cube [−1, 1]³."""
    n = check_count("cells", cells)
    line = torch.arange(n + 1, device="cpu")
    i, j = torch.meshgrid(line, line, indexing="ij")
    ends = [torch.stack((torch.full_like(i, k), i, j), -1) for k in (0, n)]
    points = torch.stack([side.roll(axis, -1) for axis in range(3) for side in ends])
    # The sides share their corners and edges: one vertex per distinct lattice point.
    place, index = torch.unique(points.reshape(-1, 3), dim=0, return_inverse=True)
    quads = torch.cat([_quads(side) for side in index.reshape(6, n + 1, n + 1)])
    vertices = 2 * place.double() / n - 1
    return vertices, _outwards(vertices, quads)
