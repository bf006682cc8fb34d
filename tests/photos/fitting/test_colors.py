"""Colours of a known shape: the mixture is the renderer's, what is hidden stays out, and more."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import trimesh
from scipy.special import sph_harm_y

from gendr import Camera, Mesh, Renderer, fit_colors, look_at
from gendr.cli.resume import _packed, _unpacked
from gendr.losses import psnr
from gendr.mesh import cube, example, icosphere, load_texture
from gendr.photos import visual
from gendr.photos.fitting.checks import check_views
from gendr.photos.fitting.colors import fit as colors_fit
from gendr.photos.fitting.colors import kernels
from gendr.photos.fitting.colors.fit import ColorResult, _Photos, _View
from gendr.photos.fitting.colors.light import HarmonicLight, harmonics
from gendr.photos.fitting.colors.targets import Texels, Vertices
from gendr.photos.fitting.visibility import VisibilityBuffer, look, visible_faces
from gendr.photos.meshing.unwrapping import unwrapped
from support.cases import for_each
from support.photographs import photographs

DATA = os.environ.get("GENDR_DATA")
PLAIN = {"shading": "hard", "lighting": "none"}


def with_cells(mesh):
    """UVs that give every face a triangle of its own in a grid of cells."""
    count = len(mesh.faces)
    side = math.ceil(math.sqrt(count / 2))
    cell = torch.arange(count) // 2
    low = torch.stack([cell % side, cell // side], 1).to(mesh.vertices)
    corners = torch.tensor(
        [[[0.1, 0.1], [0.8, 0.1], [0.1, 0.8]], [[0.9, 0.9], [0.2, 0.9], [0.9, 0.2]]]
    )
    uvs = (low[:, None] + corners[torch.arange(count) % 2].to(mesh.vertices)) / side
    return mesh.with_uvs(uvs.reshape(-1, 2), torch.arange(3 * count).reshape(-1, 3))


def painted(mesh, frequency=5.0):
    """The mesh, fine and with smooth colours of vertices that depend on their position."""
    fine = Mesh(mesh.vertices, mesh.faces).subdivided(2)
    low, high = fine.bounding_box()
    place = (fine.vertices - low) / (high - low).max()
    turned = place @ torch.tensor([[1.0, 0.4, 0.2], [0.1, 1.0, 0.5], [0.6, 0.2, 1.0]])
    return fine.with_vertex_colors(0.5 + 0.4 * torch.sin(frequency * turned))


def ring(mesh, count, elevation, shift=0.0):
    """Cameras with a principal point off the centre of images that are no squares."""
    angles = [360 * i / count + shift for i in range(count)]
    camera = visual.orbit(mesh, angles, elevation, fill=0.85)
    return Camera(camera.rotation, camera.translation, camera.focal, torch.tensor([0.15, -0.1]))


def bytes_in(value):
    """Of all arrays and tensors in a value; those that share memory with others count again."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(bytes_in, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_in, value))
    return bytes_in(vars(value)) if isinstance(value, (_View, VisibilityBuffer)) else 0


def shots(mesh, camera, size=(72, 96)):
    return visual.render_views(mesh, camera, size, {"lighting": "none"})


@pytest.fixture(scope="module")
def chair():
    mesh = example("chair").normalized()
    return Mesh(mesh.vertices, mesh.faces)


@for_each(kind=["texture", "vertex"], orthographic=[False, True])
def test_mixtures_are_those_of_the_renderer(kind, orthographic):
    mesh = with_cells(icosphere(2, dtype=torch.float64))
    camera = look_at(3.0, 20.0, 40.0, 40.0, dtype=torch.float64, orthographic=orthographic)
    generator = torch.Generator().manual_seed(3)
    canvas = Texels.of(mesh, 128) if kind == "texture" else Vertices.of(mesh)
    colors = torch.rand(len(canvas.points), 3, generator=generator, dtype=torch.float64)
    size, fine = (20, 24), 2
    visibility = look(mesh, camera, size, fine)
    columns, values = canvas.mixing(visibility)
    torch.testing.assert_close(values.sum(1), torch.ones_like(values[:, 0]))
    shown = (colors[columns] * values[..., None]).sum(1) * visibility.share
    mixed = torch.zeros(size[0] * size[1], 3, dtype=torch.float64)
    mixed = mixed.index_add(0, visibility.pixel, shown).T.reshape(3, *size)
    out = Renderer((40, 48), "heaviside", "max", near=1, far=9, **PLAIN)(
        canvas.painted(colors), camera
    )
    wanted = F.avg_pool2d(out.rgb * (out.face_id >= 0), fine)[0]
    torch.testing.assert_close(mixed, wanted, rtol=0, atol=1e-9)
    assert 0.2 < float(visibility.whole.double().mean()) < 0.8


def test_texels_lie_on_the_surface():
    mesh = with_cells(icosphere(2, dtype=torch.float64))
    texels = Texels.of(mesh, 200)
    uvs = mesh.corner_uvs
    v, u = (texels.place // 200).double(), (texels.place % 200).double()
    place = torch.stack([(u + 0.5) / 200, 1 - (v + 0.5) / 200], 1)
    # By the coordinates of a texel in the triangle of its face.
    a, b, c = uvs.unbind(1)
    sides = torch.stack([b - a, c - a], -1)
    for k in range(0, len(place), 101):
        parts = torch.linalg.solve(sides, place[k] - a)
        parts = torch.cat([1 - parts.sum(1, keepdim=True), parts], 1)
        face = int(parts.min(1).values.argmax())
        assert parts[face].min() > -1e-9
        point = (parts[face][:, None] * mesh.vertices[mesh.faces[face]]).sum(0)
        torch.testing.assert_close(texels.points[k], point, rtol=0, atol=1e-9)
    assert torch.allclose(texels.normals.norm(dim=1), torch.ones(len(place), dtype=torch.float64))
    own = torch.arange(len(place))
    assert torch.equal(texels.nearest[texels.place], own)


@pytest.mark.rotating(5, group="photos")
@for_each("kind, least", [("texture", 35.0), ("vertex", 40.0)], rotating=2)
def test_held_out_views_of_a_known_shape(chair, kind, least):
    target = painted(chair)
    camera = Camera.batch([ring(chair, 8, 5.0), ring(chair, 6, 45.0, 20.0), ring(chair, 4, -35.0)])
    rgb, alpha = shots(target, camera)
    shape = with_cells(chair) if kind == "texture" else Mesh(target.vertices, target.faces)
    result = fit_colors(shape, rgb, camera, alpha, kind=kind, texture_size=512)
    assert torch.equal(result.mesh.vertices, shape.vertices)
    assert (result.mesh.texture is None) == (kind == "vertex")
    assert result.seen > 0.8
    held = ring(chair, 5, 25.0, 31.0)
    wanted, mask = shots(target, held)
    found, _ = shots(result.mesh, held)
    assert float(psnr(found, wanted, mask).mean()) > least
    # The result says what its mesh shows: pixel by pixel as the pictures do.
    shown, _ = shots(result.mesh, camera)
    own = psnr(shown, rgb, alpha)
    torch.testing.assert_close(result.psnr, own, rtol=0, atol=0.3)


@pytest.mark.every
@pytest.mark.skipif(DATA is None, reason="GENDR_DATA does not name a folder with meshes/spot.obj")
def test_held_out_views_of_spot():
    folder = Path(DATA or "") / "meshes"
    spot = Mesh.load(folder / "spot.obj").normalized()
    target = spot.with_texture(load_texture(folder / "spot_texture.png"))
    camera = Camera.batch([ring(spot, 8, 0.0), ring(spot, 6, 40.0, 20.0), ring(spot, 4, -40.0)])
    rgb, alpha = shots(target, camera, 128)
    shape = with_cells(Mesh(spot.vertices, spot.faces))
    result = fit_colors(shape, rgb, camera, alpha, texture_size=512)
    held = ring(spot, 5, 20.0, 31.0)
    wanted, mask = shots(target, held, 128)
    found, _ = shots(result.mesh, held, 128)
    assert float(psnr(found, wanted, mask).mean()) > 33


def scene_with_a_plate(seen_at):
    """A red ball, and a blue plate that hides its middle in the view from azimuth 0."""
    ball, plate = icosphere(3), cube(2)
    at = torch.tensor([0.0, 0.0, -2.0])
    plate = plate.with_vertices(plate.vertices * torch.tensor([0.5, 0.5, 0.02]) + at)
    red, blue = torch.tensor([0.9, 0.2, 0.1]), torch.tensor([0.1, 0.2, 0.9])
    both = Mesh(
        torch.cat([ball.vertices, plate.vertices]),
        torch.cat([ball.faces, plate.faces + len(ball.vertices)]),
        vertex_colors=torch.cat(
            [red.expand(len(ball.vertices), 3), blue.expand(len(plate.vertices), 3)]
        ),
    )
    camera = look_at(6.0, 0.0, torch.tensor(seen_at), 45.0)
    return both, len(ball.vertices), red, camera, *shots(both, camera, 64)


@for_each(kind=["vertex", "texture"])
def test_what_is_hidden_gives_no_colour(kind):
    both, count, red, camera, rgb, alpha = scene_with_a_plate([0.0, 40.0, -40.0, 180.0])
    shape = with_cells(Mesh(both.vertices, both.faces))
    result = fit_colors(shape, rgb, camera, alpha, kind=kind, texture_size=256)
    mesh = result.mesh
    if kind == "texture":
        colors = mesh.texture
        cells = mesh.corner_uvs[: int((both.faces < count).all(1).sum())].mean(1)
        index = (cells * 256).long()
        found = colors[255 - index[:, 1], index[:, 0]]
    else:
        found = mesh.vertex_colors[:count]
    assert float((found - red).abs().max()) < 0.1


def test_what_no_photo_shows_takes_the_nearest_colour():
    target = icosphere(3)
    upper = target.vertices[:, 1:2] > 0
    colors = torch.where(upper, torch.tensor([0.8, 0.1, 0.1]), torch.tensor([0.1, 0.1, 0.8]))
    target = target.with_vertex_colors(colors)
    camera = look_at(5.0, 0.0, torch.tensor([-20.0, 20.0]))
    rgb, alpha = shots(target, camera, 64)
    shape = Mesh(target.vertices, target.faces)
    result = fit_colors(shape, rgb, camera, alpha, kind="vertex")
    assert 0.2 < result.seen < 0.6
    found = result.mesh.vertex_colors
    clear = target.vertices[:, 1].abs() > 0.5
    assert float((found - colors)[clear].abs().max()) < 0.15


def test_what_is_far_from_all_that_is_seen_takes_means_of_the_nearest():
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(8000, 3, generator=generator) * torch.tensor([1, 1, 1e-3])
    colors = 0.5 + 0.4 * torch.sin(5 * points[:, 1:2] + torch.arange(3))
    seen = points[:, 0] < 0.3
    target = Vertices(cube(), points, F.normalize(points, dim=-1), torch.zeros(0, 2).long())
    found = colors_fit._filled(target, torch.where(seen[:, None], colors, -1.0), seen)
    torch.testing.assert_close(found[seen], colors[seen], rtol=0, atol=0)
    away, index = torch.cdist(points[~seen], points[seen]).topk(8, largest=False)
    weight = 1 / (away + 1e-6)
    nearest = (colors[seen][index] * weight[..., None] / weight.sum(1)[:, None, None]).sum(1)
    beside = away[:, 0] < 0.01
    assert int(beside.sum()) > 20
    torch.testing.assert_close(found[~seen][beside], nearest[beside], rtol=0, atol=1e-4)
    off, usual = ((x - colors[~seen]).abs().mean() for x in (found[~seen], nearest))
    assert float(off) < 1.5 * float(usual)


@pytest.mark.rotating(5, group="photos")
def test_exposures_are_found(chair):
    target = painted(chair)
    camera = Camera.batch([ring(chair, 8, 10.0), ring(chair, 4, 50.0, 20.0)])
    rgb, alpha = shots(target, camera)
    generator = torch.Generator().manual_seed(0)
    gains = 0.75 + 0.5 * torch.rand(len(camera), 3, generator=generator)
    gains = gains / gains.mean(0)
    changed = 0.7 * rgb * gains[:, :, None, None]
    assert float(changed.max()) < 1
    options = {"kind": "vertex", "masks": alpha}
    fine = Mesh(target.vertices, target.faces)
    plain = fit_colors(fine, changed, camera, exposure=False, **options)
    found = fit_colors(fine, changed, camera, **options)  # chosen by photos that were left out
    assert torch.equal(plain.exposure, torch.ones_like(gains))
    torch.testing.assert_close(found.exposure, gains, rtol=0, atol=0.025)
    torch.testing.assert_close(found.exposure.mean(0), torch.ones(3))
    assert float(found.psnr.mean()) > float(plain.psnr.mean()) + 6
    held = ring(chair, 5, 25.0, 31.0)
    wanted, mask = shots(target, held)
    shown, _ = shots(found.mesh, held)
    assert float(psnr(shown, 0.7 * wanted, mask).mean()) > 30


def lit(seed):
    """Light that moves with the camera, not the same for all channels."""
    generator = torch.Generator().manual_seed(seed)
    coefficients = 0.25 * torch.randn(9, 3, generator=generator)
    coefficients[0] = 3.2
    return HarmonicLight(coefficients)


def test_harmonics_are_those_of_scipy():
    normals = F.normalize(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    x, y, z = normals.double().numpy().T
    theta, phi = np.arccos(z), np.arctan2(y, x)
    wanted = []
    for degree, order in (
        (0, 0),
        (1, -1),
        (1, 0),
        (1, 1),
        (2, -2),
        (2, -1),
        (2, 0),
        (2, 1),
        (2, 2),
    ):
        value = sph_harm_y(degree, abs(order), theta, phi)
        part = value.real if order >= 0 else value.imag
        wanted.append(part if order == 0 else (-1) ** order * np.sqrt(2) * part)
    found = harmonics(normals).double().numpy()
    np.testing.assert_allclose(found, np.stack(wanted, 1), atol=2e-6)


@pytest.mark.rotating(5, group="photos")
def test_light_that_moves_with_the_camera_is_divided_out(chair):
    target = painted(chair)
    target = target.with_vertex_colors(0.8 * target.vertex_colors)
    camera = Camera.batch([ring(chair, 8, 5.0), ring(chair, 6, 45.0, 20.0), ring(chair, 4, -35.0)])
    light = lit(1)
    rgb, alpha = light.views(target, camera, (72, 96))
    held = ring(chair, 3, 25.0, 31.0)
    wanted, mask = light.views(target, held, (72, 96))
    fine = Mesh(target.vertices, target.faces)
    plain = fit_colors(fine, rgb, camera, alpha, kind="vertex", light="none")
    found = fit_colors(fine, rgb, camera, alpha, kind="vertex")
    assert plain.light is None
    assert plain.mesh.unlit
    assert not found.mesh.unlit
    again = found.light.views(found.mesh, held, (72, 96))[0]
    assert float(psnr(again, wanted, mask).mean()) > 30
    assert float(psnr(shots(plain.mesh, held)[0], wanted, mask).mean()) < 24
    # What each camera sees, which `refine_shape` compares with its photo.
    each = found.light.vertex_colors(found.mesh, held)
    drawn = [shots(found.mesh.with_vertex_colors(each[i]), held[i])[0] for i in range(3)]
    assert float(psnr(torch.cat(drawn), wanted, mask).mean()) > 28
    # Albedo is known but for one factor for each channel.
    seen = found.mesh.vertex_colors[(fine.vertex_normals[:, 1] > -0.5)]
    true = target.vertex_colors[(fine.vertex_normals[:, 1] > -0.5)]
    ratio = seen / true
    assert float((ratio / ratio.median(0).values - 1).abs().median()) < 0.05


@pytest.mark.rotating(5, group="photos")
def test_light_that_does_not_move_is_left_in_the_colours(chair):
    target = painted(chair)
    camera = ring(chair, 10, 20.0)
    rgb, alpha = shots(target, camera)
    fine = Mesh(target.vertices, target.faces)
    found = fit_colors(fine, rgb, camera, alpha, kind="vertex")
    assert found.light is None
    assert torch.equal(found.exposure, torch.ones(10, 3))  # nor are photos taken for darker


def test_a_photo_may_show_nothing_of_the_surface(chair):
    """As where something stands before all of it."""
    camera = ring(chair, 4, 20.0)
    rgb, alpha = shots(painted(chair), camera, (48, 64))
    alpha[1] = 0
    given = {"kind": "vertex", "exposure": False, "light": "none"}
    found = fit_colors(chair, rgb, camera, alpha, **given)
    rest = [0, 2, 3]
    without = fit_colors(chair, rgb[rest], camera[rest], alpha[rest], **given)
    off = found.mesh.vertex_colors - without.mesh.vertex_colors
    assert off.abs().max() < 0.01


@pytest.mark.rotating(5, group="photos")
def test_blurred_photos_count_less(chair, monkeypatch):
    target = painted(chair, 25.0)
    camera = ring(chair, 10, 20.0)
    rgb, alpha = shots(target, camera)
    for i in (2, 5):
        rgb[i] = F.avg_pool2d(rgb[i], 9, 1, 4) * alpha[i]
    shape = shape_of(target)
    held = ring(target, 3, 25.0, 31.0)
    wanted, mask = shots(target, held)

    def score():
        found = fit_colors(shape, rgb, camera, alpha, kind="vertex", light="none")
        return found, float(psnr(shots(found.mesh, held)[0], wanted, mask).mean())

    found, better = score()
    assert found.blurred == [2, 5]
    assert float(found.weights.max()) == 1
    monkeypatch.setattr(_Photos, "_sharpness", lambda self, strengths: [1.0] * len(rgb))
    found, worse = score()
    assert found.blurred == []
    assert better > worse


@pytest.mark.rotating(5, group="photos")
def test_motion_blurs_and_the_end_of_a_ring_does_not():
    """Half a ring around a shape that is slightly off; grain; a motion of a seventh of a photo."""
    ball = icosphere(5)
    source = torch.Generator().manual_seed(3)
    waves, phase = 20 * torch.randn(60, 3, generator=source), 6 * torch.rand(60, generator=source)
    colors = torch.sin(ball.vertices @ waves.T + phase) @ torch.randn(60, 3, generator=source)
    target = ball.scaled(0.5).with_vertex_colors((0.5 + 0.05 * colors).clamp(0, 1))
    camera = look_at(2.6, 15.0, torch.arange(7) * 25.0, 35.0)
    rgb, alpha = photographs(target, camera, 96, finer=2, lighting=None)
    rgb = rgb + 0.01 * torch.randn(rgb.shape, generator=source) * alpha[:, None]
    for angle in (0.0, 0.4, 1.2):
        kernel = torch.zeros(13, 13)
        for step in torch.linspace(-6, 6, 53):
            kernel[
                round(6 + float(step) * math.sin(angle)), round(6 + float(step) * math.cos(angle))
            ] += 1
        shot = rgb.clone()
        shot[3] = F.conv2d(rgb[3][:, None], kernel[None, None] / 53, padding=6)[:, 0] * alpha[3]
        wrong = ball.with_vertices(
            0.5 * ball.vertices * (1 + 0.02 * (12 * ball.vertices[:, 1:2]).sin())
        )
        found = fit_colors(wrong, shot.clamp(0, 1), camera, alpha, kind="vertex", light="none")
        assert found.blurred == [3]
        assert float(found.weights[3]) < 0.15
        assert float(found.weights[[0, 1, 2, 4, 5, 6]].min()) > 0.5


def test_the_check_of_photos_in_bytes_makes_no_copy():
    like = torch.zeros(()).expand(2, 3, 10**6, 10**6)
    check_views("images", like, "[B, 3, H, W]", look_at(3.0, 0.0, [0.0, 90.0]))


@pytest.mark.rotating(5, group="photos")
def test_photos_that_are_not_blurred_means_are_not_sharpened(chair, monkeypatch):
    """Means are corrected where they blur clean photos, and stay where photos are misplaced.

    Of many photos some rows correct them, lest all pixels of a hundred fill the memory, and of
    each pixel few bytes are kept.
    """
    target = painted(chair)
    camera = ring(chair, 10, 20.0)
    rgb, alpha = shots(target, camera)
    whole = (255 * rgb).round().byte()
    rgb = whole / 255
    shape, calls = shape_of(target), []
    own = _Photos._corrected

    def corrected(self, system, *args):
        calls.append(len(system.view))
        return own(self, system, *args)

    monkeypatch.setattr(_Photos, "_corrected", corrected)
    with monkeypatch.context() as few:
        few.setattr(colors_fit, "_MANY_PIXELS", 0)  # without subpixels, as the next, too
        by_all = fit_colors(shape, rgb, camera, alpha, kind="vertex")
        same = fit_colors(shape, whole, camera, alpha, kind="vertex")
        photos = _Photos(shape, whole, camera, None, 0.15, None)
        few.setattr(colors_fit, "_CORRECTED", calls[0] // 3)
        by_some = fit_colors(shape, rgb, camera, alpha, kind="vertex")
    assert torch.equal(same.mesh.vertex_colors, by_all.mesh.vertex_colors)
    assert torch.equal(same.psnr, by_all.psnr)
    assert calls.pop() == pytest.approx(calls.pop() / 4, rel=0.05)
    kept = {name: bytes_in(value) for name, value in vars(photos).items()}
    of_mesh = kept.pop("mesh") + kept.pop("normals") + kept.pop("pixels")
    assert of_mesh > 0
    # The photo itself has 3, twice named; its depths 4; two masks 3. And there are cameras.
    assert sum(kept.values()) < 13.2 * whole[:, 0].numel()
    torch.testing.assert_close(by_some.psnr, by_all.psnr, rtol=0, atol=0.2)
    assert len(calls) == 1
    moved = (
        torch.stack([image.roll(3 * (-1) ** i, 2) for i, image in enumerate(rgb)]) * alpha[:, None]
    )
    fit_colors(shape, moved, camera, alpha, kind="vertex")
    assert len(calls) == 1


def shape_of(mesh):
    return Mesh(mesh.vertices, mesh.faces)


def test_kernels_are_their_definitions(chair):
    """What a photo shows of points as `seen` says it, and faces as the renderer does."""
    target = painted(chair)
    camera = ring(chair, 3, 20.0)
    rgb, alpha = shots(target, camera)
    shape = shape_of(target)
    photos = _Photos(shape, rgb, camera, alpha, 0.15, None)
    for i, view in enumerate(photos.views):
        visibility = photos._visibility(i)
        rows, xy, weight = visibility.visible_points(
            shape.vertices, shape.vertex_normals, photos.inside[i]
        )
        colors, weights = view.seen(shape.vertices, shape.vertex_normals)
        assert 0.1 < len(rows) / len(weights) < 0.7
        same = weights[rows] > 0
        assert float(same.double().mean()) > 0.995  # those that rounding moves over an edge
        assert int((weights > 0).sum()) <= len(rows) + 10
        torch.testing.assert_close(weights[rows][same], weight[same], rtol=1e-3, atol=0)
        wanted = visibility.at(rgb[i], xy).T
        torch.testing.assert_close(colors[rows][same], wanted[same], rtol=0, atol=2e-3)


@for_each(orthographic=[False, True])
def test_faces_are_those_that_the_renderer_shows(chair, orthographic):
    mesh = chair.to(torch.float64)
    camera = look_at(2.5, 20.0, 40.0, 40.0, dtype=torch.float64, orthographic=orthographic)
    corners, planes = mesh.vertices[mesh.faces], visual.depths(mesh, camera)
    face, weights, depth = visible_faces(corners, camera, (50, 66), planes)
    names = torch.eye(3).to(corners).repeat(len(corners), 1)  # colours of corners: their weights
    apart = Mesh(
        corners.reshape(-1, 3), torch.arange(len(names)).reshape(-1, 3), vertex_colors=names
    )
    out = Renderer((50, 66), "heaviside", near=planes[0], far=planes[1], **PLAIN)(apart, camera)
    wanted = out.face_id[0], out.rgb[0], out.depth[0]
    assert 0.1 < float((face >= 0).double().mean()) < 0.9
    assert torch.equal(face, wanted[0])
    torch.testing.assert_close(weights, wanted[1], rtol=0, atol=1e-9)
    torch.testing.assert_close(depth, wanted[2], rtol=0, atol=1e-9)


@pytest.mark.rotating(5, group="photos")
def test_photos_that_disagree_count_little(chair):
    target = painted(chair)
    camera = ring(chair, 10, 10.0)
    rgb, alpha = shots(target, camera)
    spoilt = rgb.clone()
    spoilt[3] = alpha[3]  # one photo is all white
    fine = Mesh(target.vertices, target.faces)
    found = fit_colors(fine, spoilt, camera, alpha, kind="vertex")
    own, _ = shots(found.mesh, camera)
    others = [i for i in range(10) if i != 3]
    assert float(psnr(own, rgb, alpha)[others].mean()) > 25
    # Half of the photos show something white before the object: trusted, less, and not at all.
    spoilt[2::2] = alpha[2::2, None]
    trust, met = torch.full(alpha.shape, 255, dtype=torch.uint8), []
    for count in (255, 25, 0):
        trust[2:4] = trust[2::2] = count
        found = fit_colors(fine, spoilt, camera, alpha, trust, kind="vertex")
        own, _ = shots(found.mesh, camera)
        met.append(float(psnr(own, rgb, alpha)[[0, 1, 5, 7, 9]].mean()))
    assert met[2] > 25
    assert met[0] + 1 < met[1] < met[2], met


@for_each(name=["chair", "ball"])
def test_atlas_covers_the_surface_once(name):
    mesh = icosphere(4) if name == "ball" else example(name)
    found = unwrapped(mesh.with_vertices(mesh.vertices * 1e-4), 256)
    assert torch.equal(found.faces, mesh.faces)
    assert torch.equal(found.vertices, mesh.vertices * 1e-4)
    uvs = found.corner_uvs.double()
    assert float(uvs.min()) >= 0
    assert float(uvs.max()) <= 1
    one, two = uvs[:, 1] - uvs[:, 0], uvs[:, 2] - uvs[:, 0]
    areas = (one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]).abs() / 2
    covered = len(Texels.of(found, 512).place) / 512**2
    assert float(areas.sum()) == pytest.approx(covered, rel=0.02)  # less if faces overlapped
    assert covered > 0.2
    surface = mesh.face_areas.double()
    ratio = (areas / areas.sum()) / (surface / surface.sum())
    assert float(ratio[surface > surface.mean()].min()) > 0.5


def test_textured_mesh_keeps_its_texture_in_files(chair, tmp_path):
    rgb, alpha = shots(painted(chair), ring(chair, 4, 20.0))
    result = fit_colors(with_cells(chair), rgb, ring(chair, 4, 20.0), alpha, texture_size=128)
    for name in ("a.glb", "a.obj"):
        result.mesh.save(tmp_path / name)
        again = Mesh.load(tmp_path / name)
        camera = ring(chair, 3, 10.0, 15.0)
        one, two = shots(again, camera)[0], shots(result.mesh, camera)[0]
        assert float(psnr(one, two).min()) > 40


def test_glb_holds_normals_that_are_smooth_across_seams(chair, tmp_path):
    mesh = with_cells(chair).with_texture(torch.rand(16, 16, 3)).with_unlit(False)
    for path, content in mesh.to_files(tmp_path / "a.glb", normals=True).items():
        path.write_bytes(content)
    (found,) = trimesh.load_scene(tmp_path / "a.glb", process=False).geometry.values()
    assert b"KHR_materials_unlit" not in (tmp_path / "a.glb").read_bytes()
    assert b'"NORMAL"' in (tmp_path / "a.glb").read_bytes()
    assert len(found.vertices) > len(mesh.vertices)
    gap = torch.cdist(torch.from_numpy(np.array(found.vertices)).float(), mesh.vertices)
    near = gap.argmin(1)
    wanted = mesh.vertex_normals[near].numpy()
    np.testing.assert_allclose(found.vertex_normals, wanted, atol=1e-3)


def test_stages_keep_light(chair):
    ones = torch.ones(2)
    given = ColorResult(chair, torch.ones(2, 3), ones, 0.5, ones, lit(0))
    again = _unpacked(ColorResult, _packed(given), chair.vertices)
    assert torch.equal(again.light.coefficients, given.light.coefficients)
    assert again.light.frame == "camera"
    assert torch.equal(again.mesh.vertices, chair.vertices)


def test_bad_light():
    with pytest.raises(ValueError, match=r"coefficients must have shape \[9, 3\]"):
        HarmonicLight(torch.ones(3, 9))
    with pytest.raises(ValueError, match="unknown frame 'sky'"):
        HarmonicLight(torch.ones(9, 3), "sky")


def test_bad_arguments(chair):
    camera = ring(chair, 2, 20.0)
    rgb, alpha = shots(chair, camera, 32)
    good = with_cells(chair)
    texture = {"texture_size": 4}
    shifted = good.with_uvs(good.uvs + 0.5)
    for arguments, options, error, text in (
        ((good, rgb, camera[0], alpha), {}, ValueError, "2 images need as many cameras, got 1"),
        ((good, rgb, None, alpha), {}, TypeError, r"camera must be a gendr\.Camera"),
        ((good, rgb[:, :2], camera, alpha), {}, ValueError, r"images must have shape \[B, 3, H, W"),
        ((good, rgb, camera, alpha[:, :5]), {}, ValueError, "masks must have shape"),
        ((good, 255 * rgb, camera, alpha), {}, ValueError, "images must lie.*divide 8-bit values"),
        ((good, rgb, camera, alpha), {"kind": "textur"}, ValueError, "unknown kind 'textur'"),
        ((good, rgb, camera, alpha), texture, ValueError, "texture_size"),
        ((shifted, rgb, camera, alpha), {}, ValueError, r"must lie in \[0, 1\] to fit a texture"),
        ((good, rgb, camera, alpha * 0), {}, ValueError, "no photo shows the mesh"),
        ((good, rgb, camera, alpha, alpha), {}, ValueError, "trust must be uint8"),
    ):
        with pytest.raises(error, match=text):
            fit_colors(*arguments, **options)


def test_psnr_by_hand():
    a, b = torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4, 5)
    b[0] += 0.1
    b[1, :, :2] += 0.01
    mask = torch.zeros(2, 4, 5)
    mask[:, :2] = 1
    torch.testing.assert_close(psnr(a, b), torch.tensor([20.0, 40 + 10 * np.log10(2)]).float())
    torch.testing.assert_close(psnr(a, b, mask), torch.tensor([20.0, 40.0]))
    assert float(psnr(a[0], a[0])) == math.inf
    with pytest.raises(ValueError, match="image must have shape"):
        psnr(a[0, 0], b[0, 0])


def test_what_one_photo_shows_from_nearby_is_not_the_mean():
    """Something red before the object in the nearest of five photos."""
    ball = icosphere(3)
    near = torch.tensor([2.0, 3.0, 3.0, 3.0, 3.0])
    camera = look_at(near, 0.0, torch.tensor([0.0, -8.0, 8.0, -4.0, 4.0]))
    rgb, alpha = shots(ball.with_vertex_colors(torch.full_like(ball.vertices, 0.5)), camera)
    rgb[0] = alpha[0] * torch.tensor([1.0, 0.0, 0.0])[:, None, None]
    found = fit_colors(ball, rgb, camera, alpha, kind="vertex", exposure=False, light="none")
    front = F.normalize(camera.eye[0], dim=0) @ ball.vertices.T > 0.8
    assert int(front.sum()) > 20
    assert float((found.mesh.vertex_colors[front] - 0.5).abs().max()) < 0.06


def test_nothing_is_read_beside_photos_that_are_covered_whole(monkeypatch):
    """Where the strength of detail is measured, whose differences reach so many pixels."""
    ball, camera = icosphere(3), look_at(torch.full((3,), 1.5), 0.0, torch.tensor([0.0, 8.0, 16.0]))
    rgb = torch.rand(3, 3, 72, 96)
    seen, details = [], kernels.details

    def watched(pixels, shown, image, inner, steps, *more):
        y, x = inner.nonzero()
        for along, extent, step in zip((y, x), inner.shape, np.abs(steps).max(0), strict=True):
            seen.append(len(along) and step <= along.min() and along.max() + step < extent)
        details(pixels, shown, image, inner, steps, *more)

    monkeypatch.setattr(kernels, "details", watched)
    fit_colors(ball, rgb, camera, torch.ones(3, 72, 96), kind="vertex")
    assert len(seen) > 2
    assert all(seen)


def test_how_steeply_photos_show_is_the_callers():
    ball = icosphere(4)
    camera = ring(ball, 1, 10.0)
    camera = Camera(camera.rotation, camera.translation, torch.tensor([0.8]), orthographic=True)
    rgb, alpha = shots(ball.with_vertex_colors(torch.full_like(ball.vertices, 0.5)), camera)
    for least in (0.3, 0.7):  # a cap of the ball
        found = fit_colors(ball, rgb, camera, alpha, kind="vertex", least_cosine=least)
        assert abs(found.seen - (1 - least) / 2) < 0.03
    with pytest.raises(ValueError, match="least_cosine must be > 0 and < 1, got 1"):
        fit_colors(ball, rgb, camera, alpha, least_cosine=1.0)
