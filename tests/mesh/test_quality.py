"""The quality of a mesh: closedness, genus, angles, and faces that cut each other."""

import numpy as np
import pytest
import torch
import trimesh
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from gendr import Mesh
from gendr.mesh import cube, icosphere, mesh_quality


def test_quality_of_a_ball():
    found = mesh_quality(icosphere(2))
    assert found["is_watertight"]
    assert (found["euler"], found["parts"], found["genus"]) == (2, 1, 0)
    angles = trimesh.Trimesh(*(t.numpy() for t in (icosphere(2).vertices, icosphere(2).faces)))
    assert found["smallest_angle"] == pytest.approx(np.degrees(angles.face_angles.min()), rel=1e-5)
    assert found["self_intersections"] == 0


def test_genus_and_open_meshes():
    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.2))
    assert mesh_quality(ring)["genus"] == 1
    two = trimesh.util.concatenate([ring.to_trimesh(), trimesh.creation.box([9.0, 9.0, 9.0])])
    found = mesh_quality(Mesh.from_trimesh(two))
    assert (found["parts"], found["genus"], found["self_intersections"]) == (2, 1, 0)

    found = mesh_quality(Mesh(icosphere(1).vertices, icosphere(1).faces[1:]))
    assert not found["is_watertight"]
    assert found["genus"] is None
    assert found["euler"] == 1

    ends = torch.tensor([[0.0, 0, 1], [1.0, 0, 1], [0.0, 1, 1]])
    both = torch.cat([ends.new_zeros(1, 3), ends, -ends])
    faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    cones = Mesh(both, torch.cat([faces, torch.where(faces > 0, faces + 3, 0).flip(1)]))
    found = mesh_quality(cones)  # two closed surfaces that share one vertex
    assert found["is_watertight"]
    assert (found["euler"], found["parts"], found["genus"]) == (3, 1, None)


def test_faces_that_are_cut():
    """A needle's edges pass through two faces of a cube; no edge of the cube cuts the needle."""
    box = cube(1)
    needle = torch.tensor([[0.1, 0.3, -3.0], [0.101, 0.3, -3.0], [0.1, 0.301, 3.0]])
    faces = torch.cat([box.faces, torch.tensor([[0, 1, 2]]) + len(box.vertices)])
    both = Mesh(torch.cat([box.vertices, needle.to(box.vertices)]), faces)
    assert mesh_quality(box)["self_intersections"] == 0
    assert mesh_quality(both)["self_intersections"] == 2


def test_two_balls_that_overlap():
    """Every pair of faces, by brute force."""
    ball = icosphere(1)
    other = ball.translated(torch.tensor([0.7, 0.1, 0.05]))
    faces = torch.cat([ball.faces, other.faces + len(ball.vertices)])
    mesh = Mesh(torch.cat([ball.vertices, other.vertices]), faces)
    corners = mesh.vertices[mesh.faces].double().numpy()
    apart = [set(one) & set(two) == set() for one in faces.tolist() for two in faces.tolist()]
    edge = corners - np.roll(corners, -1, 1)  # p - q
    sides = corners[:, 1:] - corners[:, :1]
    pairs = np.argwhere(np.reshape(apart, (len(corners), -1)))
    one, two = np.repeat(pairs, 3, 0).T
    k = np.tile(range(3), len(pairs))
    matrix = np.stack([sides[two, 0], sides[two, 1], edge[one, k]], -1)
    good = abs(np.linalg.det(matrix)) > 1e-12
    start = (corners[one, k] - corners[two, 0])[good]
    u, v, t = np.linalg.solve(matrix[good], start[..., None])[..., 0].T
    expected = set(two[good][(u > 0) & (v > 0) & (u + v < 1) & (0 < t) & (t < 1)])
    assert len(expected) > 20
    assert mesh_quality(mesh)["self_intersections"] == len(expected)


def test_batches_are_refused_and_cuts_of_many_faces_not_counted(monkeypatch):
    with pytest.raises(ValueError, match="one mesh is needed, got a batch of 2"):
        mesh_quality(Mesh.batch([cube(1), cube(1)]))
    monkeypatch.setattr("gendr.mesh.quality._MOST", 79)
    assert mesh_quality(icosphere(1))["self_intersections"] is None


def test_connected_parts_are_those_of_scipy(monkeypatch):
    """Also of chains in any order, which take most rounds; crumbs tell whose face is whose."""
    monkeypatch.setattr("gendr.mesh.quality._MOST", 0)
    rng = np.random.default_rng(0)
    chain = np.stack([np.arange(i, 998 + i) for i in range(3)], 1)
    meshes = [(rng.integers(0, 1000, (n, 3)), 1000) for n in (0, 100, 300, 400, 2000)]
    meshes += [(chain, 1000), (chain[:, ::-1], 1000), (rng.permutation(1000)[chain], 1003)]
    for faces, count in meshes:
        ends = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
        graph = coo_matrix((np.ones(2 * len(faces)), ends), shape=(count, count))
        part = connected_components(graph, directed=False)[1]
        corners = rng.normal(size=(count, 3))
        a, b, c = (corners[faces[:, i]] for i in range(3))
        share = np.bincount(part[faces[:, 0]], np.linalg.norm(np.cross(b - a, c - a), axis=1))
        found = mesh_quality(Mesh(torch.from_numpy(corners), torch.from_numpy(faces.copy())))
        used = np.unique(part[faces])
        assert found["parts"] == len(used)
        assert found["crumbs"] == (share[used] < 0.01 * share.sum()).sum()
