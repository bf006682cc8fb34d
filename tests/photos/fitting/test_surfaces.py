"""Steps on the way to a surface: fairing, bites, handles, what no photo shows, gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import gendr
from gendr import Renderer, look_at
from gendr.mesh import Mesh, cube, example, icosphere
from gendr.mesh.files.srgb import from_linear, to_linear
from gendr.photos import remesh, visual, visual_hull
from gendr.photos.fitting import FitSettings
from gendr.photos.fitting import value_and_grad as gradients
from gendr.photos.fitting.shape import fairing, shading
from gendr.photos.fitting.shape.bites import without_bites
from gendr.photos.fitting.shape.fairing import faired
from gendr.photos.fitting.shape.fill_unobserved import filled_by_least_area
from gendr.photos.fitting.shape.handles import euler_number, without_handles, without_tunnels
from gendr.photos.fitting.shape.job import Job
from gendr.photos.fitting.shape.schedule import FitSchedule, pixel_at_middle
from gendr.photos.fitting.shape.shading import fit_shading
from gendr.photos.fitting.shape.stereo import Depths, _fronts, fused
from gendr.photos.fitting.visibility import LEAST_COSINE, visible_share
from support.cases import for_each
from support.photographs import photographs

# -------------------------------------------------------------------------------------------------
# The smooth surface between rims, and the one that shading shows


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


@pytest.mark.rotating(5, group="photos")
def test_ridges_of_a_hull_go_and_rims_come_to_the_outlines(egg):
    truth, camera, alpha = egg
    hull = visual_hull(camera, alpha).scaled(0.95)
    grey = 0.6 * alpha[:, None].expand(-1, 3, -1, -1)
    told = []
    found = faired(hull, grey, camera, alpha, tell=told.append)
    assert off(found, truth) < 0.6 * off(hull, truth)
    seen = visual.silhouettes(found, camera, 96)
    assert float((seen - alpha).abs().sum() / alpha.sum()) < 0.02
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.rotating(5, group="photos")
@for_each(moves=[True, False], rotating=2)
def test_what_lies_in_shadow_is_found_by_shading(egg, monkeypatch, moves):
    """The dark side is missing in masks of what is lit, which carve the hull all around."""
    monkeypatch.setattr(shading, "_STAGES", ((1, 4.0, 30),))
    monkeypatch.setattr(shading, "_TURNS", 2)
    truth, camera, _ = egg
    lamps = torch.tensor([[0.6, 0.4, -0.7]]) if moves else torch.tensor(
        [[0.8, 0.5, 0.4], [-0.7, 0.4, -0.6], [0.1, 0.3, 0.9]]
    )  # fmt: skip
    images = []
    for one in camera:
        ways = F.normalize(lamps, dim=1) @ (one.rotation[0] if moves else torch.eye(3))
        light = 0.5 * (truth.vertex_normals @ ways.T).clamp(min=0).sum(1, keepdim=True)
        grey = truth.with_vertex_colors(light.clamp(max=1).pow(1 / 2.2).expand(-1, 3))
        images.append(photographs(grey, one, 96, lighting=None)[0])
    images = torch.cat(images)
    masks = (images.mean(1) > 0.15).float()
    start = visual_hull(camera, masks)
    found = fit_shading(start, images, camera, masks)
    assert found is not None
    assert found[1] < 0.05

    def apart(mesh):  # in the middle, which some photo shows lit
        some = mesh.vertices[mesh.vertices[:, 1].abs() < 0.5]
        return float(((some / torch.tensor([0.8, 1.0, 0.65])).norm(dim=1) - 1).abs().mean())

    assert apart(found[0]) < 0.5 * apart(start)
    monkeypatch.setattr(shading, "_STAGES", ((1, 3.0, 1),))
    assert (fit_shading(start, images, camera, masks, still=False) is not None) == moves
    monkeypatch.setattr(shading, "_STAGES", ((1, 6.0, 5),))
    monkeypatch.setattr(shading, "_TURNS", 6)
    few = images[::4], camera[::4], masks[::4]  # fewer photos than turns
    assert fit_shading(start, *few) is not None
    dark = torch.zeros_like(images)
    assert fit_shading(start, dark, camera, 0 * masks) is None


@pytest.mark.rotating(5, group="photos")
def test_sure_outlines_hold_where_light_is_not_explained(egg, monkeypatch):
    """Rims are darker than a lamp at the camera makes them, as if the egg were narrower."""
    monkeypatch.setattr(shading, "_STAGES", ((1, 5.0, 10),))
    monkeypatch.setattr(shading, "_TURNS", 2)
    monkeypatch.setattr(shading, "_WAYS", 20)
    monkeypatch.setattr(shading, "_SIDE", 100)
    truth, camera, alpha = egg[0], egg[1][::2], egg[2][::2]
    lit = []
    for one in camera:
        cosine = (truth.vertex_normals @ one.rotation[0, 2].neg()).clamp(min=0)
        grey = truth.with_vertex_colors((0.8 * cosine[:, None].square()).expand(-1, 3))
        lit.append(photographs(grey, one, 96, lighting=None)[0])
    missed = []
    for outlines in (False, True):
        found = fit_shading(truth, torch.cat(lit), camera, alpha, outlines=outlines)
        assert found is not None
        missed.append(float((visual.silhouettes(found[0], camera, 96) - alpha).abs().mean()))
    assert missed[1] < 0.5 * missed[0]


@pytest.mark.rotating(5, group="photos")
@for_each(moves=[True, False], rotating=2)
def test_lamps_are_found_where_they_are(egg, monkeypatch, moves):
    """Near enough that one side of the egg is lit twice as much as if they were far."""
    monkeypatch.setattr(shading, "_WAYS", 60)
    monkeypatch.setattr(shading, "_SIDE", 100)
    truth, camera, masks = egg
    lamps = torch.tensor([[2.0, 1.5, -2.5]] if moves else [[2.0, 1.5, 2.5], [-3.0, 0.5, -2.0]])
    lit = []
    for one in camera:
        ways = (lamps @ one.rotation[0] if moves else lamps) - truth.vertices[:, None]
        cosine = (ways * truth.vertex_normals[:, None]).sum(2) / ways.norm(dim=2)
        each = 0.6 * cosine.clamp(min=0) * lamps.norm(dim=1) ** 2 / ways.square().sum(2)
        lit.append(photographs(truth.with_vertex_colors(
            torch.from_numpy(from_linear(each.sum(1, keepdim=True).clamp(max=1).numpy())).float()
            .expand(-1, 3)), one, 96, lighting=None)[0])  # fmt: skip
    stage = shading._Stage(truth, shading._bright(torch.cat(lit), masks), camera, masks)
    light = None
    for _ in range(4):
        found = stage.lit(truth, light, moved=True)
        assert found is not None
        light = found[0]
    assert light is not None
    assert light.off < 0.01
    found = light.along[None] if moves else torch.cat([light.ways, light.near[:, None]], 1)
    found = found[found[:, :3].norm(dim=1).argsort(descending=True)[: len(lamps)]]
    places = F.normalize(found[:, :3], dim=1) / found[:, 3:]
    assert float(torch.cdist(places, lamps).amin(0).max()) < 0.3


def test_pixels_that_outlines_cross_are_as_bright_as_those_beside():
    """Of colours times masks nothing else is known; another backdrop shines through them."""
    masks = torch.tensor([[[1.0, 1.0, 0.5, 0.0]]]).expand(1, 3, 4)
    images = (0.8 * masks + 0.3 * masks * (masks == 0.5))[:, None].expand(1, 3, 3, 4)
    wanted = masks * to_linear(np.array(0.8)).item()
    assert torch.allclose(shading._bright(images, masks), wanted, atol=1e-6)


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
    # A photo that the surface fills shows no rim of it.
    none = fairing._rim(
        truth, truth.vertex_normals, look_at(3.0, 0.0, 0.0, 10.0), *torch.ones(2, 9, 9)
    )
    assert len(none[0]) == 0
    # One photo alone does not say so.
    alone = Depths(planes, weights * (np.arange(12) == 0)[:, None, None], 1.0)
    agree, _ = fairing._matched(small, small.vertex_normals, camera, alone, 0.2)
    assert float(agree.max()) == 0


# -------------------------------------------------------------------------------------------------
# A few masks with bites do not carve the object; right masks stay as they are


SIZE, BITTEN = 96, (4, 13, 24)


@pytest.fixture(scope="module")
def figure():
    """A lump on a stand; thirty cameras around it, and its masks."""
    ball, box = icosphere(4), remesh(cube(2), 0.3).mesh
    waves = 1 + 0.25 * (3 * ball.vertices).sin().prod(-1, keepdim=True)
    lump = ball.vertices * waves * torch.tensor([0.5, 0.6, 0.3])
    stand = 0.3 * box.vertices - torch.tensor([0.0, 0.75, 0.0])
    mesh = Mesh(torch.cat([lump, stand]), torch.cat([ball.faces, box.faces + len(lump)]))
    camera = look_at(4.0, 20.0, torch.arange(30) * 12.0, 40.0)
    return mesh, camera, visual.silhouettes(mesh, camera, SIZE)


def with_bites(masks, radius):
    """Discs are cut out of three masks, at their left outline."""
    masks, line = masks.clone(), torch.arange(SIZE)
    for i in BITTEN:
        row = int((masks[i] > 0.5).nonzero()[:, 0].float().mean())
        column = int((masks[i, row] > 0.5).nonzero()[0]) + radius
        masks[i][(line[:, None] - row) ** 2 + (line - column) ** 2 <= radius**2] = 0
    return masks


def volume(mesh):
    a, b, c = mesh.vertices.double()[mesh.faces].unbind(1)
    return float((a * torch.linalg.cross(b, c)).sum() / 6)


@pytest.mark.rotating(5, group="photos")
def test_bites_do_not_carve(figure):
    mesh, camera, masks = figure
    bitten = with_bites(masks, 7)
    mended = without_bites(camera, bitten)
    assert torch.equal(mended >= bitten, torch.ones_like(mended, dtype=torch.bool))
    changed = (mended != bitten).flatten(1).any(1).nonzero()[:, 0].tolist()
    assert changed == list(BITTEN)
    assert int((mended < masks).sum()) == 0
    assert int((mended > masks).sum()) < 0.02 * int((masks[0] > 0.5).sum())
    hull, carved, whole = (
        volume(visual_hull(camera, each, resolution=96)) for each in (masks, bitten, mended)
    )
    assert carved < 0.9 * hull  # it is a test of something
    assert abs(whole - hull) < 0.01 * hull
    # With depths that are right wherever masks show the object, all of it comes back.
    front = 1 / Renderer(SIZE, "heaviside", "max")(mesh, camera).depth
    planes = torch.stack([front, 0 * front, 0 * front], -1).numpy()
    depths = Depths(planes, ((bitten > 0.5) & (front > 0)).float().numpy(), 1.0)
    lost = []
    for each in (bitten, mended):
        vertices, faces = fused(depths, camera, each, resolution=96)
        found = Mesh(torch.from_numpy(vertices).float(), torch.from_numpy(faces))
        lost.append(1 - volume(found) / volume(mesh))
    assert lost[0] > 0.1, lost
    assert abs(lost[1]) < 0.03, lost


@pytest.mark.rotating(5, group="photos")
@for_each(count=[8, 15, 30], rotating=3)
def test_right_masks_stay(count):
    for mesh in (example("chair"), icosphere(3)):
        camera = visual.orbit(mesh, [360 / count * i for i in range(count)], 20.0)
        masks = visual.silhouettes(mesh, camera, (64, 80))
        assert without_bites(camera, masks) is masks


@pytest.mark.rotating(5, group="photos")
def test_what_only_one_mask_could_see_stays(figure):
    """Of seven masks, of many with bites, or where no other looks from about there."""
    _, camera, masks = figure
    bitten = with_bites(masks, 7)
    for rows in (range(4, 30, 5), [*BITTEN, 9, 18, 29, 1, 7], range(1, 30, 3)):
        some = bitten[list(rows)]
        assert without_bites(camera[list(rows)], some) is some
    empty = bitten.clone()
    empty[0] = 0
    assert without_bites(camera, empty) is empty


# -------------------------------------------------------------------------------------------------
# Narrow tunnels are filled, narrow handles cut; what is wider or holds parts together stays


X, Y, Z = np.meshgrid(*[np.arange(-20, 20)] * 3, indexing="ij")
PLATE = (abs(X) < 3) & (abs(Y) < 15) & (abs(Z) < 15)
BALLS = ((X**2 + (Y - 9) ** 2 + Z**2) < 49) | ((X**2 + (Y + 9) ** 2 + Z**2) < 49)


def bar(x, radius):
    return (abs(Y) < 9) & (np.hypot(X - x, Z) < radius)


@pytest.mark.parametrize(
    ("body", "number"),
    [(PLATE, 1), (BALLS, 2), (BALLS | bar(0, 3), 1), (PLATE & ~(np.hypot(Y, Z) < 5), 0),
     ((X**2 + Y**2 + Z**2 < 200) & ~(X**2 + Y**2 + Z**2 < 50), 2)],
    ids=["plate", "two balls", "dumbbell", "ring", "shell"],
)  # fmt: skip
def test_euler_numbers(body, number):
    assert euler_number(body) == number


def test_narrow_tunnels_are_filled():
    wide, narrow = np.hypot(Y - 8, Z - 8) < 5, np.hypot(Y, Z) < 2.2
    groove = (X > 1) & (abs(Y + 9) < 1)
    body = PLATE & ~wide & ~narrow & ~groove
    assert euler_number(body) == -1
    found = without_tunnels(body, PLATE)
    assert euler_number(found) == 0
    assert not (found & (wide | groove | ~PLATE)).any()
    assert (found >= body).all()
    # Nor does a slit stay, which no photo sees through.
    slit = (abs(Y) < 14) & (abs(Z) < 2)
    assert euler_number(PLATE & ~slit) == 0
    filled = without_tunnels(PLATE & ~slit, PLATE)
    assert euler_number(filled) == 1
    assert (filled & slit).sum() > 250
    # Not where masks say that one sees through.
    assert (without_tunnels(body, ~narrow) == body).all()


def test_narrow_handles_are_cut():
    body = BALLS | bar(3, 3.6) | bar(-5, 1.3)
    assert euler_number(body) == 0
    found = without_handles(body)
    assert euler_number(found) == 1
    assert (BALLS | bar(3, 3.6))[~found].sum() == 0
    # What holds two parts together stays, as does what ends in the open.
    for kept in (BALLS | bar(0, 1.3), BALLS | ((abs(X) < 18) & (np.hypot(Y - 9, Z) < 1.3))):
        assert (without_handles(kept) == kept).all()
    # Of two bars one is needed.
    both = BALLS | bar(4, 1.3) | bar(-4, 1.3)
    assert euler_number(without_handles(both)) == 1


def test_what_is_large_stays():
    """A thin plate with a small hole is the object's, and so is a long thin bar."""
    sheet = (abs(X) < 2) & (abs(Y) < 15) & (abs(Z) < 15)
    drilled = sheet & ~(np.hypot(Y, Z) < 7)
    assert (without_handles(drilled | BALLS) == (drilled | BALLS)).all()
    long = BALLS | ((abs(Y) < 9) & (np.hypot(X - 4, Z) < 3.2)) | ring(-6, 12, 1.6)
    assert (without_handles(long) == long).all()


def ring(x, radius, minor):
    """About the point (x, 0, 0), in the plane of x and y."""
    return (np.hypot(X - x, Y) - radius) ** 2 + Z**2 < minor**2


# -------------------------------------------------------------------------------------------------
# What no photo sees ends in a surface of least area: floors of cups close, undersides are flat


COUNT = 64
CELL = 2 / (COUNT - 1)
REACH = 4 * CELL


@pytest.fixture(scope="module")
def cup():
    """A cup, what photos from above say of it, its hull, and which cells are inside."""
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, COUNT)] * 3, indexing="ij")
    radius = np.hypot(x, z)
    outside = np.maximum(radius - 0.8, np.maximum(y - 0.7, -0.6 - y))
    hollow = np.maximum(radius - 0.55, -0.1 - y)
    distance = -np.maximum(outside, -hollow)
    hull = (radius < 0.8) & (y < 0.7) & (y > -0.6 - 0.15 * (1 - radius / 0.8))
    # Lines of sight of 58 degrees leave a cone on the middle of the floor, and all below, unseen.
    seen = (y > -0.5) & (y > -0.1 + 1.6 * (0.3 - radius)) | (y > -0.5) & (radius > 0.3)
    seen |= (y > -0.6) & (radius > 0.7)
    votes = np.where(seen & hull & (distance < REACH), (distance / REACH).clip(-1, 1), 0)
    return votes.astype(np.float32), hull, distance > 0, radius, y


def test_the_floor_that_nobody_sees_is_flat_and_closed(cup):
    votes, hull, truth, radius, y = cup
    found = hull & (filled_by_least_area(votes, hull) > 0.5)
    cone = (radius < 0.3) & (y > -0.1 + 2 * CELL) & (y < 0.3)
    assert np.count_nonzero(cone & (votes == 0)) > 300
    assert not found[cone].any()
    floor = (radius < 0.5) & (y < -0.1 - 2 * CELL) & (y > -0.5 + 2 * CELL)
    assert found[floor].all()
    # Where photos say something, that counts.
    unseen = hull & (votes == 0)
    assert np.count_nonzero(unseen & ~truth) > 3 * np.count_nonzero(unseen & (found ^ truth))


def test_the_underside_is_flat(cup):
    votes, hull, _, radius, y = cup
    below = hull & (radius < 0.5) & (y < -0.6 - 2 * CELL)
    assert np.count_nonzero(below) > 300
    assert np.count_nonzero(filled_by_least_area(votes, hull)[below] > 0.5) < 0.1 * below.sum()


def test_what_photos_say_stays():
    """A plate three cells thick, and a slit as wide."""
    x = np.linspace(-1, 1, COUNT)[:, None, None] + np.zeros((COUNT,) * 3)
    plate = np.abs(x) < 1.5 * CELL
    for sign in (1, -1):
        votes = np.where(plate, sign, -sign).astype(np.float32)
        found = filled_by_least_area(votes, np.ones_like(plate)) > 0.5
        middle = np.s_[COUNT // 2 - 1 : COUNT // 2 + 1, 8:-8, 8:-8]
        assert found[middle].all() == (sign > 0)
        assert found[middle].any() == (sign > 0)


# -------------------------------------------------------------------------------------------------
# Losses of photos, and their gradients


@for_each(faces=[100, gradients._MANY_FACES])
def test_photos_together_and_apart_have_one_gradient_for_any_number_of_threads(faces):
    generator = torch.Generator().manual_seed(0)
    vertices = torch.randn(7, 3, generator=generator)
    goals = torch.randn(6, 7, 3, generator=generator)
    rows, asked = [0, 1, 3, 4, 5], []

    def loss(x, rows):
        asked.append(tuple(rows))
        return (x - goals[rows]).square().sum()

    found = []
    for threads in (1, 2, 4):
        gendr.set_num_threads(threads)
        found.append(gradients.value_and_grad(loss, vertices, rows, faces))
    gendr.set_num_threads(None)
    apart = faces == gradients._MANY_FACES
    assert set(asked) == ({(0, 4), (1, 5), (3,)} if apart else {tuple(rows)})
    wanted = 2 * (vertices - goals[rows]).sum(0)
    for total, gradient in found:
        assert torch.allclose(gradient, wanted, atol=1e-5)
        assert torch.allclose(total, (vertices - goals[rows]).square().sum())
        assert torch.equal(gradient, found[0][1])


# -------------------------------------------------------------------------------------------------
# How much of a surface several cameras see: of a ball, by a closed form


def test_of_a_ball_a_camera_sees_a_cap():
    ball, distance = icosphere(4), 4.0
    # The cap in which the direction to the eye is within the least cosine: by the sine rule, the
    # angle at the centre is what the triangle of eye, centre and point leaves.
    turn = torch.tensor(LEAST_COSINE).acos()
    angle = turn - (turn.sin() / distance).asin()
    cap = float(1 - angle.cos()) / 2
    here, opposite = look_at(distance, 20.0, 30.0), look_at(distance, -20.0, 210.0)
    two = look_at(distance, torch.tensor([20.0, -20.0]), torch.tensor([30.0, 210.0]))
    twice = look_at(distance, torch.tensor([20.0, 20.0]), torch.tensor([30.0, 30.0]))
    size = (96, 128)
    assert_close(visible_share(ball, here, size, 1), cap, atol=0.01, rtol=0)
    assert_close(visible_share(ball, opposite, size, 1), cap, atol=0.01, rtol=0)
    assert_close(visible_share(ball, two, size, 1), 2 * cap, atol=0.02, rtol=0)
    assert visible_share(ball, two, size) == 0
    assert_close(visible_share(ball, twice, size), cap, atol=0.01, rtol=0)


def test_what_stands_before_hides():
    far = before = icosphere(3)
    camera = look_at(6.0, 0.0, 0.0)
    eye = torch.nn.functional.normalize(camera.eye, dim=-1)
    screen = before.with_vertices(1.5 * before.vertices + 3 * eye)
    vertices = torch.cat([far.vertices, screen.vertices])
    faces = torch.cat([far.faces, screen.faces + len(far.vertices)])
    alone = visible_share(screen, camera, (64, 64), 1)
    area = 1.5**2 / (1 + 1.5**2)
    together = visible_share(Mesh(vertices, faces), camera, (64, 64), 1)
    assert_close(together, alone * area, atol=0.01, rtol=0)


# -- coarse to fine --------------------------------------------------------------------------------


def box_views(size):
    """Hard masks of a box from six sides, and the cameras."""
    camera = look_at(2.732, 30.0, torch.arange(6) * 60.0 + 10)
    return Renderer(size, "heaviside", "max")(cube(2).scaled(0.28), camera).alpha, camera


def test_a_schedule_goes_from_coarse_to_fine():
    """Scale, masks, edges and steps, by the progress."""
    masks = (torch.rand(3, 400, 600) > 0.5).float()
    settings = FitSettings(remesh=True, lr=0.1, scale="2px:1px")
    schedule = FitSchedule(masks, settings, 0.1)
    assert schedule.sizes == [(100, 150), (200, 300), (400, 600)]
    means = masks.reshape(3, 100, 4, 150, 4).mean((2, 4))
    torch.testing.assert_close(schedule.masks[0], means)
    assert torch.equal(schedule.masks[-1], masks)
    places = 0.0, 0.24, 0.26, 0.5, 1.0
    assert [schedule.level(p) for p in places] == [0, 0, 1, 2, 2]
    # Of the smallest masks and of those given, as which pixels count.
    ends = 2 * 2 / 100, 2 / 400
    for found, (first, last) in (
        (schedule.scale, ends), (lambda p: schedule.edge(0.6 * p), (0.15, 0.1)),
        (schedule.step_length, (0.1, 0.025)),
    ):  # fmt: skip
        middle = (first * last) ** 0.5
        assert [found(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([first, middle, last])
    assert schedule.edge(1.0) == schedule.edge(0.6)
    assert schedule.begin == 0
    plain = FitSchedule(masks, replace(settings, remesh=False, scale="1px"), 0.1)
    assert plain.sizes == [(400, 600)]
    assert [plain.step_length(p) for p in places] == [0.1] * 5
    assert plain.begin == 1  # with a scale that stays, nothing is coarse


@for_each(orthographic=[False, True])
def test_the_size_of_a_pixel(orthographic):
    camera = look_at(5.0, 0.0, torch.arange(3) * 120.0, fov=30.0, orthographic=orthographic)
    step = torch.tensor([[0.0, 0.0, 0.0], [0.0, pixel_at_middle(camera, (100, 80)), 0.0]])
    places = camera.project(step)[0]
    assert float((places[0, 1] - places[0, 0]).norm()) == pytest.approx(2 / 80, rel=1e-3)


def test_large_masks_begin_small():
    """The whole size counts at the end: soft images of the last steps are as large as the masks."""
    masks, camera = box_views(192)
    seen = []

    class Spy(Job):
        def step(self, state, seconds):
            seen.append(self.schedule.level(self.progress(state)))
            return super().step(state, seconds)

    settings = FitSettings(remesh=True, lr=0.02, steps=4, edge=12.0)
    job = Spy(masks, camera, settings, icosphere(2).scaled(0.9))
    job.run(None, None)
    assert job.schedule.sizes == [(96, 96), (192, 192)]
    assert seen == [0, 0, 1, 1]


def test_what_adam_knows_is_carried_to_new_vertices():
    """A vertex has the gradient of the surface around it: half of it where twice as many are."""
    masks, camera = box_views(32)
    settings = FitSettings(steps=1, remesh=True, lr=0.02, edge=1.0)
    job = Job(masks, camera, settings, icosphere(2).scaled(0.3))
    state = job.begin()
    slopes = torch.tensor([1.0, 2.0, 3.0])
    first = job.surface(state.faces, state.u).shape(state.u).detach() * slopes
    state = replace(state, first=first, second=first.square())
    even = job.even(state, 1.0)
    count, before = len(even.u), len(state.u)
    assert count > 1.5 * before
    part = before / count
    # The surface stays.
    old, new = (job.surface(s.faces, s.u).shape(s.u).detach() for s in (state, even))
    expected = new * slopes * part
    torch.testing.assert_close(even.first, expected, atol=2e-2 * part, rtol=0)
    torch.testing.assert_close(even.second, expected.square(), atol=2e-2 * part**2, rtol=0)
    assert new.norm(dim=1).mean() == pytest.approx(float(old.norm(dim=1).mean()), rel=0.02)
