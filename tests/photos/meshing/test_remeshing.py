"""Remeshing: the surface stays, its kind and its borders too, and faces become even."""

import igl
import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial import Delaunay

from gendr import Mesh
from gendr.mesh import cube, icosphere, mesh_quality
from gendr.photos import remesh
from support.cases import for_each


def torus():
    return Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.25, 48, 16))


def capsule():
    """Needles at the poles, and faces twenty times as long as wide along the side."""
    return Mesh.from_trimesh(trimesh.creation.capsule(2.0, 0.3, count=[32, 8]))


def lengths(mesh):
    a, b = mesh.edges.T
    return (mesh.vertices[a] - mesh.vertices[b]).norm(dim=-1)


@for_each(make=[torus, capsule, lambda: icosphere(3)], target=[0.05, 0.12, 0.3], rotating=3)
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
        found.interpolated(start.vertices), found.mesh.vertices, atol=2e-3, rtol=0
    )
    # The same input gives the same bits, in any place of the world.
    far = start.with_origin(torch.tensor([5.0, 6.0, 7.0]))
    again = remesh(far, 0.1)
    assert torch.equal(again.mesh.origin, far.origin)
    assert torch.equal(again.mesh.vertices, found.mesh.vertices)
    assert torch.equal(again.weights, found.weights)
    one = torch.ones(len(start.vertices), 2, dtype=torch.float64)
    torch.testing.assert_close(found.interpolated(one), one[:1].expand(len(found.mesh.vertices), 2))


@for_each(target=[0.02, 10.0])
def test_a_tetrahedron_stays_a_body(target):
    corners = torch.tensor([[0, 0, 0], [0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.2]])
    start = Mesh(corners, torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    found = remesh(start, target).mesh.to_trimesh()
    assert found.is_watertight
    assert found.euler_number == 2
    assert found.volume == pytest.approx(0.2**3 / 6, rel=0.2)


@for_each(target=[0.2, 0.5, 3.0])
def test_a_thin_handle_is_not_pinched_off(target):
    """Edges longer than the way around the tube: three short ones stay, or it would be cut."""
    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.03, 64, 6))
    found = remesh(ring, target).mesh.to_trimesh()
    assert found.is_watertight
    assert found.euler_number == 0
    assert len(found.split(only_watertight=False)) == 1
    # Of no two vertices there are two edges, and around each the faces are one fan.
    counts = np.unique(found.edges_sorted, axis=0, return_counts=True)[1]
    assert (counts == 2).all()
    fans = igl.is_vertex_manifold(np.asarray(found.faces, dtype=np.int64))
    assert np.asarray(fans).all()


def test_faces_that_were_needles():
    """Points at random on a ball have faces of all shapes."""
    points = np.random.default_rng(0).normal(size=(600, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    start = Mesh.from_trimesh(trimesh.convex.convex_hull(points))
    assert mesh_quality(start)["smallest_angle"] < 2
    found = remesh(start, 0.15)
    assert mesh_quality(found.mesh)["smallest_angle"] > 20
    assert mesh_quality(found.mesh)["euler"] == 2


@for_each(target=[0.03, 0.1, 0.2])
def test_no_face_of_a_plane_turns_over(target):
    """Points at random in a square with a notch."""
    points = np.random.default_rng(1).random((500, 2))
    points = np.concatenate([points, [[0, 0], [0, 1], [1, 0], [1, 1]]])
    faces = Delaunay(points).simplices
    corners = points[faces]
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / 2
    faces[area < 0] = faces[area < 0][:, ::-1]
    middle = corners.mean(1)
    kept = (np.abs(middle[:, 0] - 0.5) > 0.1) | (middle[:, 1] > 0.6)
    start = Mesh(torch.from_numpy(np.pad(points, ((0, 0), (0, 1)))), torch.from_numpy(faces[kept]))
    found = remesh(start, target).mesh.to_trimesh()
    assert (found.triangles_cross[:, 2] > 0).all()
    assert found.area == pytest.approx(np.abs(area[kept]).sum(), rel=1e-9)
    assert np.abs(found.vertices[:, 2]).max() == 0


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


def test_bad_input():
    ball, empty = icosphere(1), Mesh(torch.zeros(3, 3), torch.zeros(0, 3, dtype=torch.int64))
    for mesh, length, iterations, message in (
        (ball.repeated(2), 0.1, 5, "one mesh is needed, got a batch of 2"),
        (empty, 0.1, 5, "has no faces"),
        (ball, 0.0, 5, "target_length must be > 0"),
        (ball, 0.1, 0, "iterations must be >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            remesh(mesh, length, iterations=iterations)


def test_the_work_is_told():
    done = []
    plain, told = (remesh(icosphere(2), 0.2, callback=tell) for tell in (None, done.append))
    assert torch.equal(plain.mesh.vertices, told.mesh.vertices)
    assert len(done) == 6
    assert done == sorted(done)
    assert (done[0] > 0, done[-1]) == (True, 1.0)
