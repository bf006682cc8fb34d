"""Voxels against solids whose inside is known by a formula, and against trimesh."""

import numpy as np
import pytest
import torch
import trimesh

from gendr import Mesh
from gendr.mesh import icosphere
from lab.reconstruction.voxels import voxelize
from support.cases import for_each

R = 32
AXIS = np.linspace(-0.5, 0.5, R)
X, Y, Z = np.meshgrid(AXIS, AXIS, AXIS, indexing="ij")
SOLIDS = {
    "sphere": (trimesh.creation.icosphere(4, 0.4), np.sqrt(X**2 + Y**2 + Z**2) < 0.4),
    "box": (
        trimesh.creation.box((0.7, 0.5, 0.31)),
        (abs(X) < 0.35) & (abs(Y) < 0.25) & (abs(Z) < 0.155),
    ),
    "torus": (
        trimesh.creation.torus(0.3, 0.13, major_sections=64, minor_sections=32),
        np.hypot(np.hypot(X, Y) - 0.3, Z) < 0.13,
    ),
}


def mesh_of(solid):
    return Mesh(torch.tensor(solid.vertices, dtype=torch.float32), torch.tensor(solid.faces))


def filled(solid, **options):
    return voxelize(mesh_of(solid), R, **options)[0].numpy()


@for_each(name=SOLIDS)
def test_solids_are_those_of_their_formulas(name):
    solid, inside = SOLIDS[name]
    found = filled(solid)
    assert (found == inside).mean() >= 0.995
    # The same share of the few cells that matter: the union of both.
    assert (found & inside).sum() >= 0.98 * (found | inside).sum()


def test_a_tube_is_filled_as_by_trimesh():
    pytest.importorskip("rtree", reason="trimesh needs it to cast rays")
    solid, half = trimesh.creation.annulus(0.2, 0.4, 0.5, sections=16), 20
    axis = np.linspace(-0.5, 0.5, half)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    inside = solid.contains(points + 1e-5).reshape((half,) * 3)
    assert (voxelize(mesh_of(solid), half)[0].numpy() == inside).mean() >= 0.995


@pytest.mark.rotating(4, group="study")
@for_each(
    harm=["inside out", "half inside out", "open", "twice", "unwelded"], name=SOLIDS, rotating=4
)
def test_damaged_meshes_keep_their_cells(name, harm):
    solid, inside = SOLIDS[name]
    faces, vertices = solid.faces.copy(), solid.vertices
    rng = np.random.default_rng(0)
    if harm == "inside out":
        faces = faces[:, ::-1]
    elif harm == "half inside out":
        some = rng.random(len(faces)) < 0.5
        faces[some] = faces[some][:, ::-1]
    elif harm == "open":
        faces = faces[rng.random(len(faces)) > 0.02] if len(faces) > 12 else faces[1:]
    elif harm == "twice":
        vertices = np.concatenate([vertices, 0.9 * vertices + 0.01])
        faces = np.concatenate([faces, faces + len(solid.vertices)])
        inside = filled(trimesh.Trimesh(vertices, faces, process=False)) | inside
    else:
        vertices, faces = vertices[faces].reshape(-1, 3), np.arange(faces.size).reshape(-1, 3)
    damaged = trimesh.Trimesh(vertices, np.ascontiguousarray(faces), process=False)
    assert (filled(damaged) == inside).mean() >= 0.98


def test_a_flood_fills_closed_meshes_with_their_surface():
    solid, inside = SOLIDS["sphere"]
    flooded = filled(solid, interior="flood")
    assert (flooded & inside).sum() == inside.sum()
    # One layer of cells around: those that the surface passes.
    shell = np.abs(np.sqrt(X**2 + Y**2 + Z**2) - 0.4) < 1 / (R - 1)
    assert not (flooded & ~inside & ~shell).any()
    assert (filled(solid, surface=True) == flooded).mean() > 0.999


def test_a_sheet_has_a_surface_and_no_interior():
    z = AXIS[20] + 0.2 * (AXIS[1] - AXIS[0])
    vertices = torch.tensor([[-0.4, -0.4, z], [0.4, -0.4, z], [0.4, 0.4, z], [-0.4, 0.4, z]])
    sheet = Mesh(vertices, torch.tensor([[0, 1, 2], [0, 2, 3]]))
    assert not voxelize(sheet, R).any()
    passed = voxelize(sheet, R, interior="none", surface=True)[0]
    layers = passed.any(0).any(0).nonzero().squeeze(-1)
    assert layers.tolist() == [20]
    along = (np.abs(AXIS) <= 0.4).sum()
    assert passed.sum() >= along**2


def test_axes_batches_and_bounds():
    vertices = icosphere(2).vertices
    x = 0.1 * vertices + torch.tensor([0.3, 0.0, 0.0])
    z = 0.1 * vertices + torch.tensor([0.0, 0.0, -0.3])
    faces = icosphere(2).faces
    cells = voxelize(Mesh.batch([Mesh(x, faces), Mesh(z, faces)]), 16)
    assert cells.shape == (2, 16, 16, 16)
    centre = [cell.nonzero().double().mean(0) / 15 - 0.5 for cell in cells]
    assert torch.allclose(centre[0], torch.tensor([0.3, 0, 0]).double(), atol=0.02)
    assert torch.allclose(centre[1], torch.tensor([0, 0, -0.3]).double(), atol=0.02)
    assert torch.equal(cells[:1], voxelize(Mesh(10 * x, faces), 16, bounds=(-5.0, 5.0)))
    assert not voxelize(Mesh(x + 9, faces), 16, surface=True).any()


def test_what_is_refused():
    ball = icosphere(1)
    for mesh, resolution, options, message in (
        (ball, 1, {}, "resolution"),
        (ball, 8, {"interior": "wind"}, "flood, none, winding"),
        (ball, 8, {"bounds": (1.0, 1.0)}, "low < high"),
        (ball.with_vertices(ball.vertices * float("nan")), 8, {}, "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            voxelize(mesh, resolution, **options)
