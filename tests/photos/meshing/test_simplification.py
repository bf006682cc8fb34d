"""Fewer faces: by cells of a grid, and by quadrics."""

from pathlib import Path

import igl
import numpy as np
import pytest
import torch
import trimesh

import gendr
from gendr.mesh import Mesh, icosphere, look_at, mesh_quality
from gendr.photos.meshing.simplification import clustered, simplified
from gendr.photos.triangles import face_vertices, hard_silhouette
from support.cases import for_each

TEAPOT = Path(__file__).resolve().parents[3] / "assets" / "teapot.obj"


@for_each(faces=[60, 600])
def test_clustered_mesh_looks_alike(faces):
    mesh = Mesh.load(TEAPOT).normalized("sphere").scaled(0.5)
    fewer = clustered(mesh, faces)
    assert faces / 2 < len(fewer.faces) <= faces
    camera = look_at(3.0, 20.0, torch.arange(0.0, 360, 60), 40.0)
    masks = [
        hard_silhouette(face_vertices(m.vertices[None], m.faces, camera), 64) for m in (mesh, fewer)
    ]
    assert float(gendr.losses.iou(*masks).min()) > {60: 0.65, 600: 0.85}[faces]


def test_clustering_leaves_small_meshes_and_refuses_the_impossible():
    sphere = icosphere(1)
    assert clustered(sphere, 80) is sphere
    with pytest.raises(ValueError, match="cannot be simplified to 1 faces"):
        clustered(sphere, 1)


def test_manifold_stays_one():
    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.25, 64, 32))
    fewer = simplified(ring, 300)
    assert len(fewer.faces) <= 300
    found = mesh_quality(fewer)
    assert (found["is_watertight"], found["genus"]) == (True, 1)
    assert float(fewer.volumes) == pytest.approx(float(ring.volumes), rel=0.05)
    assert simplified(ring, 10_000) is ring


@for_each(shift=[0.0, 1e3])
def test_quadrics_keep_corners_and_leave_what_is_flat(shift):
    """A box of 3,072 faces is one of 100; libigl's simplification stands for what is open."""
    box = trimesh.creation.box((1.0, 2.0, 3.0))
    for _ in range(4):
        box = box.subdivide()
    mesh = Mesh.from_trimesh(box, dtype=torch.float64)
    mesh = mesh.with_vertices(mesh.vertices + shift)
    fewer = simplified(mesh, 100)
    assert 12 <= len(fewer.faces) <= 100
    assert mesh_quality(fewer)["is_watertight"]
    assert float(fewer.volumes) == pytest.approx(6, rel=1e-6)
    sheet = Mesh(mesh.vertices, mesh.faces[(mesh.vertices[mesh.faces, 2] < shift).any(1)])
    fewer = simplified(sheet, 100)
    assert 50 <= len(fewer.faces) <= 100
    assert float(fewer.vertices.amin() - shift) == pytest.approx(-1.5, abs=1e-6)


def test_quadrics_come_as_near_as_those_of_libigl():
    ball = icosphere(4)
    ball = ball.with_vertices(ball.vertices * torch.tensor([1.0, 0.6, 0.15]))
    v, f = ball.vertices.double().numpy(), ball.faces.numpy()
    theirs = igl.qslim(np.asfortranarray(v), np.asfortranarray(f, np.int32), 400)[:2]
    ours = simplified(ball, 400)
    ours = ours.vertices.double().numpy(), ours.faces.numpy()
    near, far = (
        np.mean(igl.point_mesh_squared_distance(v, x, np.int64(faces))[0])
        for x, faces in (ours, theirs)
    )
    assert near < 1.1 * far


@for_each(kind=["edge", "vertex"])
def test_what_is_no_manifold_is_clustered(kind):
    """A second sheet at an edge; two balls that share a vertex."""
    ball = icosphere(3)
    if kind == "edge":
        mesh = Mesh(ball.vertices, torch.cat([ball.faces, ball.faces[:1]]))
    else:
        other = ball.faces + len(ball.vertices)
        other[other == len(ball.vertices)] = 0
        shift = 2 * ball.vertices[0]
        mesh = Mesh(
            torch.cat([ball.vertices, shift - ball.vertices]), torch.cat([ball.faces, other])
        )
    fewer = simplified(mesh, 200)
    assert torch.equal(fewer.faces, clustered(mesh, 200).faces)
    assert 100 <= len(fewer.faces) <= 200
