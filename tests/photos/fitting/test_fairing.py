"""The smooth surface between rims, and normals by shading."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gendr import look_at
from gendr.mesh import icosphere
from gendr.photos import visual, visual_hull
from gendr.photos.fitting.colors.light import HarmonicLight
from gendr.photos.fitting.shape import fairing
from gendr.photos.fitting.shape.fairing import faired
from gendr.photos.fitting.shape.shading import shading_normals
from gendr.photos.fitting.shape.stereo import Depths, _fronts


def around(count):
    return look_at(4.0, 12.0, 360.0 * torch.arange(count) / count)


@pytest.fixture(scope="module")
def egg():
    """A smooth body: the mesh and photos of one grey."""
    mesh = icosphere(4)
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([0.8, 1.0, 0.65]))
    camera = around(12)
    return mesh, camera, visual.silhouettes(mesh, camera, 96)


def off(mesh, truth):
    """How far normals are off in the middle, in degrees: the mean."""
    v = mesh.vertices
    some = v[:, 1].abs() < 0.5
    true = F.normalize(v / torch.tensor([0.8, 1.0, 0.65]) ** 2, dim=1)
    cosine = (true * mesh.vertex_normals).sum(1)[some]
    return float(cosine.clamp(-1, 1).acos().rad2deg().mean())


def test_ridges_of_a_hull_go_and_rims_come_to_the_outlines(egg):
    truth, camera, alpha = egg
    hull = visual_hull(camera, alpha).scaled(0.95)
    grey = 0.6 * alpha[:, None].expand(-1, 3, -1, -1)
    told = []
    found = faired(hull, grey, camera, alpha, False, tell=told.append)
    assert off(found, truth) < 0.6 * off(hull, truth)
    seen = visual.silhouettes(found, camera, 96)
    assert float((seen - alpha).abs().sum() / alpha.sum()) < 0.02
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("frame", ["camera", "world"])
def test_shading_tells_normals_if_light_moves(egg, frame):
    truth, camera = egg[0], around(24)
    alpha = visual.silhouettes(truth, camera, 96)
    light = torch.zeros(9, 3)
    light[0], light[1], light[2], light[3] = 1.0, 0.5, -0.7, 0.4
    grey = truth.with_vertex_colors(torch.full_like(truth.vertices, 0.5))
    rgb, _ = HarmonicLight(light, frame).views(grey, camera, 96)
    rgb = rgb ** (1 / 2.2) * (alpha > 0)[:, None]
    wave = torch.sin(12 * truth.vertices[:, 1:2])
    rough = truth.with_vertices(truth.vertices * (1 + 0.01 * wave))
    said = shading_normals(rough, rough.vertex_normals, rgb, camera, alpha)
    if frame == "world":
        assert said is None
        return
    assert said is not None
    found, sure = said
    some = sure > 0.4
    assert float(some.float().mean()) > 0.05
    before, after = (
        (n * truth.vertex_normals).sum(1)[some].clamp(-1, 1).acos().rad2deg().mean()
        for n in (rough.vertex_normals, found)
    )
    assert float(after) < 0.8 * float(before)


def test_depths_that_photos_agree_about_say_where_a_surface_is(egg):
    truth, camera, _ = egg
    inverse = _fronts(truth, camera, (96, 96)).numpy()
    planes = np.stack([inverse, *np.zeros((2, *inverse.shape))], -1).astype(np.float32)
    weights = 0.8 * (inverse > 0).astype(np.float32)
    small = truth.scaled(0.95)
    depths = Depths(planes, weights, 1.0)
    agree, deeper = fairing._matched(small, small.vertex_normals, camera, depths, 0.2)
    some = agree > 0
    assert float(some.float().mean()) > 0.7
    moved = (small.vertices + deeper[:, None] * small.vertex_normals)[some]
    radius = (moved / torch.tensor([0.8, 1.0, 0.65])).norm(dim=1)
    assert float((radius - 1).abs().median()) < 0.01
    # One photo alone does not say so.
    alone = Depths(planes, weights * (np.arange(12) == 0)[:, None, None], 1.0)
    agree, _ = fairing._matched(small, small.vertex_normals, camera, alone, 0.2)
    assert float(agree.max()) == 0
