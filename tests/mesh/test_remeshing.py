import numpy as np
import pytest
import torch
import trimesh

from gendr import Mesh
from gendr.mesh import cube, icosphere, mesh_quality, remesh
from gendr.mesh.remeshing import without_cuts


def torus():
    return Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.25, 48, 16))


def capsule():
    """Needles at the poles, and faces twenty times as long as wide along the side."""
    return Mesh.from_trimesh(trimesh.creation.capsule(2.0, 0.3, count=[32, 8]))


def lengths(mesh):
    a, b = mesh.edges.T
    return (mesh.vertices[a] - mesh.vertices[b]).norm(dim=-1)


@pytest.mark.parametrize("target", [0.05, 0.12, 0.3])
@pytest.mark.parametrize("make", [torus, capsule, lambda: icosphere(3)])
def test_a_closed_surface_keeps_its_kind_and_gets_even_faces(make, target):
    start = make()
    found = remesh(start, target).mesh
    before, after = start.to_trimesh(), found.to_trimesh()
    assert after.is_watertight
    assert after.is_winding_consistent
    assert after.euler_number == before.euler_number
    assert after.volume == pytest.approx(before.volume, rel=0.02 + 3 * target**2)
    assert float(lengths(found).mean()) == pytest.approx(target, rel=0.1)
    assert float(lengths(found).max()) < 1.6 * target
    quality = mesh_quality(found)
    assert quality["smallest_angle"] > 20
    assert quality["self_intersections"] == 0
    # All vertices are on the old surface.
    distance = trimesh.proximity.closest_point(before, found.vertices.double().numpy())[1]
    assert distance.max() < 1e-5 + 0.02 * target


def test_values_are_carried_along():
    start = torus()
    found = remesh(start, 0.1)
    assert (found.weights >= 0).all()
    torch.testing.assert_close(found.weights.sum(1), torch.ones(len(found.weights)))
    # A linear function of the place is the same on both sides.
    torch.testing.assert_close(
        found.carried(start.vertices), found.mesh.vertices, atol=2e-3, rtol=0
    )
    one = torch.ones(len(start.vertices), 2, dtype=torch.float64)
    torch.testing.assert_close(found.carried(one), one[:1].expand(len(found.mesh.vertices), 2))


def test_the_same_input_gives_the_same_bits():
    first, second = (remesh(capsule(), 0.07) for _ in range(2))
    assert torch.equal(first.mesh.vertices, second.mesh.vertices)
    assert torch.equal(first.mesh.faces, second.mesh.faces)
    assert torch.equal(first.weights, second.weights)


@pytest.mark.parametrize("target", [0.02, 10.0])
def test_a_tetrahedron_stays_a_body(target):
    corners = torch.tensor([[0, 0, 0], [0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.2]])
    start = Mesh(corners, torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    found = remesh(start, target).mesh.to_trimesh()
    assert found.is_watertight
    assert found.euler_number == 2
    assert found.volume == pytest.approx(0.2**3 / 6, rel=0.2)


def test_faces_that_were_needles():
    """Points at random on a ball have faces of all shapes."""
    points = np.random.default_rng(0).normal(size=(600, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    start = Mesh.from_trimesh(trimesh.convex.convex_hull(points))
    assert mesh_quality(start)["smallest_angle"] < 2
    found = remesh(start, 0.15)
    assert mesh_quality(found.mesh)["smallest_angle"] > 20
    assert mesh_quality(found.mesh)["euler"] == 2


def test_borders_stay():
    ball = icosphere(3)
    start = Mesh(ball.vertices, ball.faces[ball.vertices[ball.faces][:, :, 2].mean(1) < 0.4])
    found = remesh(start, 0.12).mesh
    there, here = (m.to_trimesh() for m in (start, found))
    assert here.euler_number == there.euler_number == 1

    def border(mesh):
        edges, counts = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
        return {tuple(p) for p in mesh.vertices[np.unique(edges[counts == 1])].round(5)}

    assert border(there) <= border(here)
    assert here.area == pytest.approx(there.area, rel=0.03)


def test_edges_of_more_than_two_faces_stay():
    one = cube(2)
    other = one.translated(torch.tensor([2.0, 2.0, 0.0]))
    faces = torch.cat([one.faces, other.faces + len(one.vertices)])
    both = trimesh.Trimesh(torch.cat([one.vertices, other.vertices]).numpy(), faces.numpy())
    both.merge_vertices()
    start = Mesh.from_trimesh(both)
    found = remesh(start, 0.3).mesh.to_trimesh()
    edges, counts = np.unique(found.edges_sorted, axis=0, return_counts=True)
    assert set(counts) == {2, 4}
    joined = found.vertices[np.unique(edges[counts == 4])]
    assert np.allclose(joined[:, :2], 1)
    assert sorted(joined[:, 2]) == pytest.approx([-1, 0, 1])
    assert found.volume == pytest.approx(16, rel=0.03)


def test_the_origin_and_the_dtype_are_kept():
    start = icosphere(2, dtype=torch.float64).with_origin(torch.tensor([5.0, 6.0, 7.0]).double())
    found = remesh(start, 0.3)
    assert found.mesh.dtype == torch.float64
    assert torch.equal(found.mesh.origin, start.origin)


def test_cuts_are_smoothed_away():
    """One vertex of a ball is pushed through the other side; what is not near stays."""
    ball = icosphere(3)
    x = ball.vertices.clone()
    top = int(x[:, 2].argmax())
    x[top] = torch.tensor([0.0, 0.0, -1.05])
    folded = ball.with_vertices(x)
    assert mesh_quality(folded)["self_intersections"] > 0
    found = without_cuts(folded)
    assert mesh_quality(found)["self_intersections"] == 0
    assert torch.equal(found.faces, ball.faces)
    moved = (found.vertices != x).any(1)
    assert 0 < int(moved.sum()) < len(x) / 2
    assert torch.equal(without_cuts(ball).vertices, ball.vertices)


def test_bad_input():
    ball = icosphere(1)
    with pytest.raises(ValueError, match="one mesh is needed, got a batch of 2"):
        remesh(Mesh.batch([ball, ball]), 0.1)
    with pytest.raises(ValueError, match="has no faces"):
        remesh(Mesh(torch.zeros(3, 3), torch.zeros(0, 3, dtype=torch.int64)), 0.1)
    with pytest.raises(ValueError, match="target_length must be > 0"):
        remesh(ball, 0.0)
    with pytest.raises(ValueError, match="iterations must be >= 1"):
        remesh(ball, 0.1, iterations=0)
