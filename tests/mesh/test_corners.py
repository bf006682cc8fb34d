"""Sums over the corners of faces by lists, as on a GPU, against PyTorch's own."""

import torch

from gendr.mesh import Mesh, cube, icosphere
from support.cases import for_each

BATCH = Mesh.batch([icosphere(0), cube()]).to(torch.float64)
# The last vertex has no face.
LONELY = Mesh(torch.rand(4, 3, dtype=torch.float64), torch.tensor([[2, 0, 1]]))


@for_each(mesh=[BATCH, LONELY])
def test_a_mesh_on_a_gpu_uses_them(mesh, monkeypatch):
    """No atomics: index_add, and the backward pass of index_select, are not called."""
    monkeypatch.setattr("gendr.mesh.mesh.needs_lists", lambda _: True)
    colours = torch.rand(len(mesh.vertices), 3, dtype=torch.float64).requires_grad_()
    vertices = mesh.vertices.clone().requires_grad_()

    def total(vertices, colours):
        own = mesh.with_vertices(vertices).with_vertex_colors(colours)
        return own.vertex_normals.pow(3).sum() + (own.corner_colors * own.face_vertices).sum()

    with torch.profiler.profile() as profile:
        grads = torch.autograd.grad(total(vertices, colours), (vertices, colours))
    called = {event.key for event in profile.key_averages()}
    assert "aten::segment_reduce" in called
    assert not called & {"aten::index_add", "aten::index_add_", "aten::index_put_"}
    assert torch.autograd.gradgradcheck(total, (vertices, colours), fast_mode=True)
    monkeypatch.undo()
    for own, other in zip(
        grads, torch.autograd.grad(total(vertices, colours), (vertices, colours)), strict=True
    ):
        torch.testing.assert_close(own, other)
    assert grads[0].abs().sum() > 0
