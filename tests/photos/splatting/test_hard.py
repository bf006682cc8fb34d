"""The training of opaque triangles: what it draws is what the GLB shows, and it gets better."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from gendr import Mesh, Renderer, look_at
from gendr.losses import psnr
from gendr.mesh import icosphere
from gendr.photos.splatting import HardTraining, Photos, Splats, SplatSettings, fit_triangles

SETTINGS = SplatSettings(triangles=120, steps=16, evaluate_every=0.5)


def hard_views(mesh, behind, camera):
    """A mesh as a program draws it that asks 2 x 2 points of a pixel: RGB [B, 3, H, W]."""
    size = 2 * behind.shape[1], 2 * behind.shape[2]
    renderer = Renderer(size, "heaviside", "max", shading="hard", lighting="none")
    with torch.no_grad():
        out = renderer(mesh, camera)
        rgb, alpha = (F.avg_pool2d(x, 2) for x in (out.rgb, out.mask[:, None].float()))
    return rgb + (1 - alpha) * behind


def soup(mesh, opacity=0.9):
    """The faces of a mesh as grey splats."""
    vertices = mesh.vertices[mesh.faces]
    one = torch.ones(len(vertices))
    return Splats(vertices, torch.zeros(len(vertices), 1, 3), opacity * one, 0.2 * one)


@pytest.fixture(scope="module")
def photos():
    """Wide pictures of a ball of bright corners over a background of stripes."""
    mesh = icosphere(2)
    colors = (mesh.vertices + 1) / 2
    camera = look_at(3.0, torch.tensor([20.0, -10.0, 35.0, 0.0]), torch.arange(4) * 90.0, 40.0)
    behind = torch.rand(3, 24, 1, generator=torch.Generator().manual_seed(3)).expand(3, 24, 36)
    images = hard_views(mesh.with_vertex_colors(colors).with_unlit(), behind, camera)
    return Photos(images, None, camera, tuple("abcd"), behind)


def start(photos, level=1):
    return soup(icosphere(level)).with_tensors(background=photos.background)


@pytest.mark.rotating(5, group="photos")
def test_opaque_triangles_get_better_and_are_those_of_the_file(photos, tmp_path):
    training = fit_triangles(photos, replace(SETTINGS, steps=80), start(photos), held_out=photos)
    first, last = (float(training.history[i]["psnr"]) for i in (0, -1))
    assert last > first > 20
    assert last > 27
    mesh = training.mesh()
    assert 80 < len(mesh.faces) <= len(training) == 120
    mesh.save(tmp_path / "a.glb")
    read = Mesh.load(tmp_path / "a.glb")
    assert read.unlit
    images = hard_views(read, photos.background, photos.camera)
    assert float(psnr(images, photos.images).mean()) == pytest.approx(last, abs=0.1)
    # What is in no frame of whole pictures stays, for other cameras.
    more = start(photos)[[*range(80), 0]]
    away = more.vertices.clone()
    away[-1, :, 1] += 30
    more = more.with_tensors(vertices=away)
    mesh = fit_triangles(photos, SETTINGS, more).mesh()
    assert int((mesh.vertices[:, 1] > 20).sum()) == 3


def test_what_a_step_draws_is_the_picture_blended_at_edges(photos):
    """With four points of a pixel, as the renderer of meshes has them, but at silhouettes."""
    training = HardTraining(photos, replace(SETTINGS, density="none"), start(photos, 2))
    training._order = [2]
    drawn = training._error().detach() + photos.images[2]
    seen = hard_views(training.mesh(), photos.background, photos.camera[2])[0]
    wrong = (drawn - seen).abs().amax(0)
    assert float(wrong.quantile(0.5)) < 1e-5
    assert float(wrong.mean()) < 0.02


def test_hidden_triangles_vanish_and_wrong_ones_are_split(photos):
    training = HardTraining(photos, replace(SETTINGS, triangles=90, rate=1e-9), start(photos))
    count = len(training)
    training._values["vertices"].data[6] *= 0.1  # into the ball
    training._values["colors"].data[10] = torch.tensor([0.0, 1, 0])
    for _ in photos.names:
        training._error()
    assert 10 in training._wrong.topk(5).indices
    for _ in range(2 * len(photos) - 1):
        training.advance()
    assert len(training) > count  # split, and none dropped before each photo was shown
    assert not training._seen[6]
    hidden = training._values["vertices"].detach()[6].clone()
    training.step += 1
    kept = training._values["vertices"].detach()[training._seen > training.step - 8]
    training._renew()
    left = training._values["vertices"].detach()
    assert not any(torch.equal(each, hidden) for each in left)

    def total(x):
        return torch.linalg.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]).norm(dim=-1).sum()

    torch.testing.assert_close(total(left), total(kept))
    strip = torch.tensor([-1.5, -1.0, -1.2, 1.0]).expand(4, 4)  # where no triangle is
    aside = HardTraining(photos, SETTINGS, start(photos))
    aside.photos = replace(photos, camera=photos.camera.with_window(strip))
    aside._error()
    assert not aside._wrong.any()  # nothing is wrong beside a photo


def test_a_pause_changes_no_bit(photos, tmp_path):
    straight = fit_triangles(photos, SETTINGS, start(photos))
    paused = HardTraining(photos, SETTINGS, start(photos))
    for _ in range(7):
        paused.advance()
    paused.save(tmp_path / "half.pt")
    resumed = fit_triangles(photos, SETTINGS, start(photos), resume=tmp_path / "half.pt")
    assert len(straight) == len(resumed) == 120
    for one, other in zip(straight._values.values(), resumed._values.values(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="seed = 0, now it is 1"):
        HardTraining(photos, replace(SETTINGS, seed=1), start(photos)).restore(tmp_path / "half.pt")


def test_triangles_around_cameras_are_no_harm(photos):
    behind = start(photos)
    vertices = behind.vertices.clone()
    vertices[:5] *= 20.0  # around the cameras, and beyond the view
    training = fit_triangles(photos, SETTINGS, behind.with_tensors(vertices=vertices))
    assert all(bool(x.isfinite().all()) for x in training._values.values())
