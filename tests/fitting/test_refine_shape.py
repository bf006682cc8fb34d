"""Colours move a surface: photos agree at the true depth only, and a lid becomes a hollow."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gendr import Camera, Mesh, look_at, refine_shape, visual
from gendr.fitting.shape import refine as refining
from gendr.fitting.shape.sweeps import Photos, disagreement, displacement
from gendr.mesh import cube, icosphere, remesh
from support.cases import for_each


def pattern(points):
    """Waves of two sizes."""
    turned = points @ torch.tensor([[1.0, 0.4, 0.2], [0.1, 1.0, 0.5], [0.6, 0.2, 1.0]])
    return 0.5 + 0.25 * torch.sin(4 * turned) + 0.2 * torch.sin(11 * turned.roll(1, -1))


def shots(mesh, camera, size=48):
    return visual.render_views(mesh, camera, size, {"lighting": "none"})


def above(count=9):
    """Cameras above the plane y = 0, with principal points off the middle."""
    i = torch.arange(count)
    camera = look_at(4.0, 45.0 + 20.0 * (i % 3), 360.0 * i / count)
    return Camera(camera.rotation, camera.translation, camera.focal, torch.tensor([0.1, -0.05]))


def board(height, fine=5):
    """A square over [-1, 1]^2 at a height, facing up."""
    line = torch.linspace(-1, 1, 2**fine + 1)
    n = len(line)
    z, x = torch.meshgrid(line, line, indexing="ij")
    vertices = torch.stack([x, torch.full_like(x, height), z], -1).reshape(-1, 3)
    i = torch.arange(n * n).reshape(n, n)
    a, b, c, d = (part.flatten() for part in (i[:-1, :-1], i[:-1, 1:], i[1:, :-1], i[1:, 1:]))
    return Mesh(vertices, torch.cat([torch.stack([a, c, b], 1), torch.stack([b, c, d], 1)]))


@pytest.fixture(scope="module")
def plane():
    """Photos of a board at height 0, and another board 0.3 above it."""
    truth = board(0.0)
    camera = above()
    rgb, alpha = shots(truth.with_vertex_colors(pattern(truth.vertices)), camera)
    return Photos(rgb, camera, torch.ones_like(alpha)), board(0.3, fine=4)


def test_photos_agree_at_the_true_depth(plane):
    photos, lid = plane
    middle = lid.vertices[:, [0, 2]].abs().amax(1) < 0.55
    offsets = torch.arange(-2, 13) * 0.05
    cost = disagreement(lid, photos, offsets)[middle]
    assert bool(((cost >= 0) & (cost <= 1)).all())
    mean = cost.mean(0)
    assert float(offsets[mean.argmin()]) == pytest.approx(0.3)
    assert mean[8] < 0.2 * mean[2]


def test_photos_that_do_not_see_a_place_do_not_count(plane):
    photos, lid = plane
    dark = Photos(photos.images, photos.camera, torch.zeros_like(photos.masks))
    assert bool(disagreement(lid, dark, torch.tensor([0.0, 0.3])).isnan().all())
    # Nobody sees the board from below.
    below = Mesh(lid.vertices, lid.faces.flip(1))
    assert bool(disagreement(below, photos, torch.tensor([0.0])).isnan().all())


@for_each("height, faces_up", [(0.4, False), (0.9, True)])
def test_what_is_hidden_does_not_count(plane, height, faces_up):
    """What hides it faces another way, or is too far above to move along."""
    photos, lid = plane
    roof = board(height, fine=3)
    faces = roof.faces if faces_up else roof.faces.flip(1)
    both = Mesh(
        torch.cat([lid.vertices, 1.5 * roof.vertices * torch.tensor([1.0, 1 / 1.5, 1.0])]),
        torch.cat([lid.faces, faces + len(lid.vertices)]),
    )
    cost = disagreement(both, photos, torch.tensor([0.0, 0.1]))[: len(lid.vertices)]
    middle = lid.vertices[:, [0, 2]].abs().amax(1) < 0.3
    assert bool(cost[middle].isnan().all())
    alone = disagreement(lid, photos, torch.tensor([0.0, 0.1]))
    assert not bool(alone[middle].isnan().any())


def test_looked_up_in_parts_the_same(plane, monkeypatch):
    photos, lid = plane
    offsets = torch.tensor([0.0, 0.1, 0.3])
    whole = disagreement(lid, photos, offsets)
    monkeypatch.setattr("gendr.fitting.shape.sweeps._SAMPLES", 1000)
    assert torch.allclose(whole, disagreement(lid, photos, offsets), equal_nan=True)


def test_displacement_of_a_known_cost():
    mesh = board(0.0, fine=3)
    offsets = torch.arange(-4, 13) * 0.05
    cost = (offsets - 0.4).abs().clamp(max=0.5).expand(len(mesh.vertices), -1).clone()
    # Some know nothing, and follow; one is wrong, and is outvoted.
    cost[::7] = torch.nan
    cost[40] = (offsets + 0.2).abs()
    found = displacement(mesh, cost, offsets, window=2, stiffness=0.1)
    assert torch.allclose(found, torch.full_like(found, 0.4), atol=0.1)


def test_what_agrees_already_stays():
    mesh = icosphere(2)
    offsets = torch.arange(-2, 9) * 0.05
    generator = torch.Generator().manual_seed(0)
    cost = 0.1 + 0.01 * torch.rand(len(mesh.vertices), len(offsets), generator=generator)
    found = displacement(mesh, cost, offsets, window=2, stiffness=0.1)
    assert torch.equal(found, torch.zeros_like(found))


def pit():
    """A cube of side 2 with a hole in its upper side, 1.2 wide and 0.6 deep; and the cube alone."""
    closed = remesh(cube(4), 0.12).mesh
    x, y, z = closed.vertices.unbind(1)
    top = closed.vertices[:, 1].max()
    floor = ((x.abs() < 0.6 * top) & (z.abs() < 0.6 * top) & (y > 0.999 * top)).to(y)
    lowered = closed.with_vertices(torch.stack([x, y - 0.6 * top * floor, z], 1))
    return closed, lowered.with_vertex_colors(pattern(2 * lowered.vertices / top)), floor > 0


def test_a_hollow_comes_from_colours():
    closed, truth, floor = pit()
    i = torch.arange(16)
    camera = look_at(6.0 * float(closed.vertices[:, 1].max()), 20.0 + 20.0 * (i % 4), 22.5 * i)
    rgb, alpha = shots(truth, camera, 64)
    done = []
    result = refine_shape(closed, rgb, camera, alpha, steps=3, callback=done.append)
    assert result.improved
    assert result.psnr[1] > result.psnr[0] + 1
    assert result.iou[1] > result.iou[0] - 0.005
    assert result.moved > 0
    assert result.mesh.is_watertight
    assert done == sorted(done)
    assert done[-1] == 1.0
    # In the middle of the hole, the depth of the new surface is nearer to the true one.
    deep = float(truth.vertices[floor][:, 1].median())
    lid = float(closed.vertices[:, 1].max())
    v = result.mesh.vertices
    found = v[(v[:, 0].abs() < 0.3 * lid) & (v[:, 2].abs() < 0.3 * lid) & (v[:, 1] > -0.5 * lid)]
    error = (found[:, 1] - deep).abs().mean()
    assert float(error) < 0.25 * (lid - deep)


@pytest.fixture(scope="module")
def ball():
    """A ball with a pattern: what is smaller, and the photos."""
    mesh = icosphere(2)
    camera = visual.orbit(mesh, [0.0, 60.0, 120.0, 180.0, 240.0, 300.0], 20.0)
    rgb, alpha = shots(mesh.with_vertex_colors(pattern(mesh.vertices)), camera, 32)
    return mesh.scaled(0.9), rgb, camera, alpha


def improving(monkeypatch, every):
    """Whatever comes out counts as better; colours are found anew after so many steps."""
    monkeypatch.setattr(refining, "LEAST_GAIN", -np.inf)
    monkeypatch.setattr(refining, "MOST_LOST", np.inf)
    monkeypatch.setattr(refining, "EVERY", every)


def test_what_is_not_improved_is_returned(ball, monkeypatch):
    monkeypatch.setattr(refining, "LEAST_GAIN", np.inf)
    result = refine_shape(*ball, steps=1)
    assert not result.improved
    assert result.mesh is ball[0]
    assert result.moved == 0


def test_goes_on_where_it_was(ball, monkeypatch, tmp_path):
    """After any sweep and any group of steps, and from a file."""
    improving(monkeypatch, 2)
    kept = []
    whole = refine_shape(*ball, steps=3, keep=kept.append)
    assert whole.improved
    assert [values["parts"] for values in kept] == [1, 2, 3, 4, 5]
    for i in (1, 3):
        torch.save(kept[i], tmp_path / "values.pt")
        values = torch.load(tmp_path / "values.pt", weights_only=True)
        more = []
        again = refine_shape(*ball, steps=3, keep=more.append, resume=values)
        assert len(more) == 4 - i
        assert torch.equal(again.mesh.vertices, whole.mesh.vertices)
        assert (again.psnr, again.iou, again.moved) == (whole.psnr, whole.iou, whole.moved)


def test_a_budget_ends_it_and_the_work_is_told_on_the_way(ball, monkeypatch):
    improving(monkeypatch, 4)
    seconds, done = [0.0], []

    def tell(share):  # which takes a second
        seconds[0] += 1
        done.append(share)

    clock = SimpleNamespace(perf_counter=lambda: seconds[0])
    monkeypatch.setattr(refining, "time", clock)
    whole = refine_shape(*ball, steps=6, callback=tell)
    assert whole.finished
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    assert max(b - a for a, b in pairwise(done)) < 0.15  # so that the time left can be told
    total = seconds[0]
    found = []
    for part in (0.01, 0.7, 0.85):
        seconds[0] = 0.0
        found.append(refine_shape(*ball, steps=6, callback=tell, budget=part * total))
        assert seconds[0] <= part * total + 2 or part < 0.3
        assert not found[-1].finished
        assert found[-1].improved == (part > 0.3), part
    assert found[0].mesh is ball[0]
    assert found[0].psnr[0] == found[0].psnr[1] == whole.psnr[0]
    more = refine_shape(*ball, steps=6, budget=2 * total)
    assert more.finished
    assert torch.equal(more.mesh.vertices, whole.mesh.vertices)


def test_bad_input():
    ball = icosphere(1)
    camera = look_at(4.0, 20.0, torch.arange(4) * 90.0)
    rgb, alpha = shots(ball, camera, 16)
    for arguments, steps, error, text in (
        ((None, rgb, camera, alpha), 1, TypeError, r"mesh must be a gendr\.Mesh"),
        ((ball, rgb, None, alpha), 1, TypeError, r"camera must be a gendr\.Camera"),
        ((ball, rgb, camera[0], alpha), 1, ValueError, "4 images need as many cameras, got 1"),
        ((ball, rgb[:2], camera[:2], alpha[:2]), 1, ValueError, "at least 3 photos"),
        ((ball, rgb, camera, alpha[:3]), 1, ValueError, "masks"),
        ((ball, rgb, camera, alpha), -1, ValueError, "steps"),
    ):
        with pytest.raises(error, match=text):
            refine_shape(*arguments, steps=steps)
