"""Sums over the corners of faces by lists, as on a GPU, against PyTorch's own."""

import torch

from gendr.mesh import Mesh, cube, icosphere
from gendr.mesh.corners import at_corners, sums_of_corners
from support.cases import for_each

BATCH = Mesh.batch([icosphere(0), cube()]).to(torch.float64)
# The last vertex has no face.
LONELY = Mesh(torch.rand(4, 3, dtype=torch.float64), torch.tensor([[2, 0, 1]]))


@for_each(mesh=[BATCH, LONELY])
def test_values_sums_and_their_gradients(mesh):
    count, faces = len(mesh.vertices), mesh.faces
    values = torch.rand(count, 2, dtype=torch.float64, requires_grad=True)
    parts = torch.rand(3 * len(faces), 2, dtype=torch.float64, requires_grad=True)
    found = []
    for lists in (None, mesh.vertex_corners):
        spread, joined = (
            at_corners(values, faces, lists), sums_of_corners(parts, faces, count, lists)
        )  # fmt: skip
        grads = torch.autograd.grad(
            (spread.square() * spread.detach().flip(0)).sum() + joined.pow(3).sum(),
            (values, parts),
        )
        found.append((spread, joined, *grads))
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other)
    assert found[0][2].abs().sum() > 0


def test_they_are_differentiable_twice():
    mesh = LONELY
    values = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    parts = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    lists = mesh.vertex_corners
    square = lambda x: at_corners(x, mesh.faces, lists).square()  # noqa: E731
    assert torch.autograd.gradgradcheck(square, values)
    cube_of_sums = lambda x: sums_of_corners(x, mesh.faces, 4, lists).pow(3)  # noqa: E731
    assert torch.autograd.gradgradcheck(cube_of_sums, parts)


def test_a_mesh_on_a_gpu_uses_them(monkeypatch):
    """No atomics: index_add, and the backward pass of index_select, are not called."""
    from gendr.mesh import mesh as module

    monkeypatch.setattr(module, "needs_lists", lambda _: True)
    colours = torch.rand(len(BATCH.vertices), 3, dtype=torch.float64)
    vertices = BATCH.vertices.clone().requires_grad_()
    mesh = BATCH.with_vertex_colors(colours.requires_grad_()).with_vertices(vertices)
    with torch.profiler.profile() as profile:
        total = mesh.vertex_normals.pow(3).sum() + (mesh.corner_colors * mesh.face_vertices).sum()
        grads = torch.autograd.grad(total, (vertices, colours))
    called = {event.key for event in profile.key_averages()}
    assert "aten::segment_reduce" in called
    assert not called & {"aten::index_add", "aten::index_add_", "aten::index_put_"}
    monkeypatch.undo()
    total = mesh.vertex_normals.pow(3).sum() + (mesh.corner_colors * mesh.face_vertices).sum()
    for own, other in zip(grads, torch.autograd.grad(total, (vertices, colours)), strict=True):
        torch.testing.assert_close(own, other)
