"""The quality of a mesh: closedness, genus, angles, and faces that cut each other."""

import numpy as np
import pytest
import torch
import trimesh

from gendr import Mesh
from gendr.mesh import cube, icosphere, mesh_quality


def test_quality_of_a_ball():
    found = mesh_quality(icosphere(2))
    assert found["is_watertight"]
    assert (found["euler"], found["parts"], found["genus"]) == (2, 1, 0)
    angles = trimesh.Trimesh(*(t.numpy() for t in (icosphere(2).vertices, icosphere(2).faces)))
    assert found["smallest_angle"] == pytest.approx(np.degrees(angles.face_angles.min()), rel=1e-5)
    assert found["self_intersections"] == 0


def test_genus():
    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.2))
    assert mesh_quality(ring)["genus"] == 1
    two = trimesh.util.concatenate([ring.to_trimesh(), trimesh.creation.box([9.0, 9.0, 9.0])])
    found = mesh_quality(Mesh.from_trimesh(two))
    assert (found["parts"], found["genus"], found["self_intersections"]) == (2, 1, 0)


def test_open_mesh():
    mesh = icosphere(1)
    found = mesh_quality(Mesh(mesh.vertices, mesh.faces[1:]))
    assert not found["is_watertight"]
    assert found["genus"] is None
    assert found["euler"] == 1


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
    expected = set()
    for i, one in enumerate(corners):
        for j, two in enumerate(corners):
            if set(faces[i].tolist()) & set(faces[j].tolist()):
                continue
            for k in range(3):
                p, q = one[k], one[(k + 1) % 3]
                matrix = np.stack([two[1] - two[0], two[2] - two[0], p - q], 1)
                if abs(np.linalg.det(matrix)) < 1e-12:
                    continue
                u, v, t = np.linalg.solve(matrix, p - two[0])
                if u > 0 and v > 0 and u + v < 1 and 0 < t < 1:
                    expected.add(j)
    assert len(expected) > 20
    assert mesh_quality(mesh)["self_intersections"] == len(expected)


def test_batch_is_refused():
    with pytest.raises(ValueError, match="one mesh is needed, got a batch of 2"):
        mesh_quality(Mesh.batch([cube(1), cube(1)]))


def test_cuts_of_many_faces_are_not_counted():
    found = mesh_quality(icosphere(6))
    assert found["genus"] == 0
    assert found["self_intersections"] is None
