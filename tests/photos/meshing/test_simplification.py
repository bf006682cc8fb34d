"""Fewer faces: by cells of a grid, and by quadrics."""

from pathlib import Path

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
