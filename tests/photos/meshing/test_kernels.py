"""Inside hulls and remeshing: distances, half-edges, cuts, small parts; fewer faces."""

from pathlib import Path

import igl
import numpy as np
import pytest
import torch
import trimesh
from scipy import ndimage

import gendr
from gendr.mesh import Mesh, icosphere, look_at, mesh_quality
from gendr.photos.meshing import hull_kernels
from gendr.photos.meshing import remeshing_kernels as kernels
from gendr.photos.meshing.hull import _Distance
from gendr.photos.meshing.remeshing import without_cuts, without_small_parts
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


# -- remeshing -------------------------------------------------------------------------------------


@for_each(sides=[3, 4])
def test_edges_that_may_collapse(sides):
    """Around a tube of three sides the ends of an edge have a third neighbour in common."""
    ring = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.1, 8, sides))
    count, faces = len(ring.vertices), ring.faces.numpy().reshape(-1)
    twins, first, degree = (np.zeros(n, np.int64) for n in (len(faces), count, count))
    fixed = np.zeros(count, np.uint8)
    tables = kernels.HalfEdges(ring.vertices.double().numpy(), faces, twins, first, degree, fixed)
    kernels.link(tables)
    assert not fixed.any()
    assert (twins[twins] == np.arange(len(faces))).all()
    seen = np.full(count, -1)
    around: dict[int, set[int]] = {v: set() for v in range(count)}
    for a, b in ring.edges.tolist():
        around[a].add(b)
        around[b].add(a)
    assert [len(around[v]) for v in range(count)] == degree.tolist()
    found, expected = [], []
    for h in range(len(faces)):
        a, b = int(faces[h]), int(faces[h - 2 if h % 3 == 2 else h + 1])
        found.append(bool(kernels.is_link(tables, seen, h)))
        expected.append(len(around[a] & around[b]) == 2)
    assert found == expected
    assert all(expected) == (sides == 4)


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


def test_small_parts_are_removed():
    """Areas of balls of one shape are as the squares of their radii."""
    balls = [icosphere(1).scaled(r).translated(torch.tensor([x, 0.0, 0])) for r, x in
             ((1.0, 0.0), (0.5, 3.0), (0.05, 5.0), (0.09, 7.0))]  # fmt: skip
    many = torch.cat([b.vertices for b in balls])
    faces = torch.cat([b.faces + 42 * i for i, b in enumerate(balls)])
    far = torch.tensor([5e5, 4e6, 0.0], dtype=torch.float64)
    left, count, share = without_small_parts(Mesh(many, faces).with_origin(far))
    assert count == 2
    assert share == pytest.approx((0.05**2 + 0.09**2) / (1 + 0.25 + 0.05**2 + 0.09**2))
    assert torch.equal(left.vertices, many[:84])
    assert torch.equal(left.faces, faces[:160])
    assert torch.equal(left.origin[0], far)
    assert without_small_parts(left) == (left, 0, 0.0)


# -- hulls -----------------------------------------------------------------------------------------


@for_each(orthographic=[False, True])
def test_distances_to_cones_are_those_of_the_images(orthographic):
    turns = torch.arange(5) * 72.0
    camera = look_at(1.5, torch.linspace(-60, 60, 5), turns, 40.0, orthographic=orthographic)
    masks = gendr.Renderer(24, "heaviside", "max")(icosphere(2).scaled(0.4), camera).alpha[:, :20]
    distance = _Distance(camera, masks)
    generator = torch.Generator().manual_seed(0)
    points = 4 * torch.rand(500, 3, generator=generator, dtype=torch.float64) - 2
    xy, depth = camera.to(torch.float64).project(points[None])
    place = xy * torch.tensor([20 / 26, -20 / 22])  # of images with a border of one pixel
    place = place.where(depth[..., None] > 0, 0).float()
    want = torch.nn.functional.grid_sample(
        torch.from_numpy(distance.images)[:, None], place[:, None], padding_mode="border",
        align_corners=False,
    )[:, 0, 0]  # fmt: skip
    size = 0.1 / camera.focal.mean(-1, keepdim=True)  # of a pixel
    want = (want * size * (1 if orthographic else depth)).where(depth > 0, torch.inf)
    assert (want < 0).any()
    assert orthographic or torch.isinf(want).any()
    torch.testing.assert_close(distance(points), want.amin(0).float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(distance(points, 3), want[3].float(), rtol=1e-4, atol=1e-5)


def test_distances_to_outlines_and_small_holes_are_those_of_scipy():
    draw = np.random.default_rng(0)
    for case in range(60):
        inside = draw.random(draw.integers(1, 24, 2)) < (0.0, 1.0, 0.1, 0.5, 0.9, 0.97)[case % 6]
        part = ndimage.label(~inside)[0]
        small = np.bincount(part.ravel()) < 5
        small[0] = False
        wanted, found = inside | small[part], np.empty(inside.shape)
        hull_kernels.fill_holes(inside, 5)
        assert np.array_equal(inside, wanted)
        hull_kernels.signed_distances(inside, 1e6, found)
        within, without = (
            np.full(region.shape, 1e6) if region.all() else ndimage.distance_transform_edt(region)
            for region in (inside, ~inside)
        )
        assert np.array_equal(found, np.where(inside, within, -without))
