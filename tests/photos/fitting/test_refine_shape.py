"""Colours move a surface: photos agree at the true depth only, and a lid becomes a hollow."""

import io
import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gendr import Camera, Mesh, Renderer, fit_colors, look_at, refine_shape, set_num_threads
from gendr.losses import iou
from gendr.mesh import cube, icosphere
from gendr.photos import remesh, visual
from gendr.photos.fitting.shape import refine as refining
from gendr.photos.fitting.shape import shading, stereo
from gendr.photos.fitting.shape.stereo import Depths, find_depths, fused
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
    truth = board(0.0, fine=6)
    camera = above()
    rgb, alpha = shots(truth.with_vertex_colors(pattern(1.5 * truth.vertices)), camera, 96)
    return rgb, camera, alpha, lid(0.3)


def lid(height):
    """A closed box over [-1, 1]^2 from below the board to a height."""
    box = remesh(cube(2), 0.3).mesh
    low, high = box.bounding_box()
    unit = (box.vertices - (low + high) / 2) / ((high - low) / 2)
    return Mesh(unit * torch.tensor([1.0, height, 1.0]), box.faces)


@pytest.mark.rotating(5, group="photos")
def test_patches_are_compared_with_what_lies_between_pixels():
    """Weighted correlations with bilinear interpolation, by SciPy, of 16 pixels at once."""
    from numba import njit
    from scipy.ndimage import map_coordinates

    from gendr.photos.stereo.matching import packed
    from gendr.photos.stereo.vectors import (
        FLAT,
        LANES,
        LIKE,
        OUTSIDE,
        SAMPLES,
        SIDE,
        UNIT,
        UNLIKE,
        compare,
        prepare,
    )  # fmt: skip

    rng, shape, stride = np.random.default_rng(0), (30, 40), 2
    photos = rng.uniform(-1, 1, (3, *shape))
    photos[0, :9, 28:] = 0.3  # no pattern
    photos[1, 12:, 24:] *= 0.003  # hardly any there
    words = packed(photos)
    photos = (words & 65535) * UNIT - 1
    xs, ys = (rng.integers(4, n - 4, LANES).astype(np.int32) for n in (40, 30))
    xs[:3], ys[:3] = (1, 35, 12), (8, 4, 20)  # at the border; plain; hidden but for one
    near = rng.choice([0.0, 0.0, 0.0, 0.4, np.inf], shape).astype(np.float32)
    near[14:28, 4:20], limits = 0.4, np.full(LANES, 0.5, np.float32)
    limits[2] = 0.3
    own, starts = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    # A neighbour for all lanes, another one, and one of these for each.
    lenses, sizes = np.zeros((3, 12, LANES), np.float32), np.zeros((3, 3, LANES), np.int32)
    lenses[:] = np.array([1, 0.01, 0, -0.02, 1, 0, 0, 1e-4, 1, 2.3, -1.1, 0.1])[:, None]
    lenses[1, 9:11] = np.array([-6.2, 4.9])[:, None]
    sizes[:, 0] = shape[0] * shape[1] * np.array([1, 2, 0])[:, None]
    sizes[:, 1], sizes[:, 2] = shape[1], shape[0]
    which = np.arange(LANES) % 2
    for table in (lenses, sizes):
        table[2] = np.where(which, table[1], table[0])
    planes = rng.normal(0, 0.02, (3, LANES)).astype(np.float32)
    planes[0] += 0.5
    planes[0, 4] = -30  # behind the camera
    values, weights = (np.empty((SAMPLES, LANES), np.float32) for _ in range(2))
    centres, fine, out = (np.empty(LANES, np.float32) for _ in range(3))
    size, pixels = (shape[1], shape[0]), (xs, ys, np.full(LANES, stride, np.int32))
    njit(lambda *given: prepare(*given))(
        words, own, near, *size, *pixels, limits, False, values, weights, centres, fine
    )

    def expected(lane, k):
        begin = stride * (SIDE - 1) // 2
        u = xs[lane] - begin + stride * (np.arange(SAMPLES) % SIDE)
        v = ys[lane] - begin + stride * (np.arange(SAMPLES) // SIDE)
        inside = (u >= 0) & (v >= 0) & (u < 40) & (v < 30)
        u, v = u[inside], v[inside]
        shown = photos[0, v, u]
        weight = 1 / (1 + ((shown - photos[0, ys[lane], xs[lane]]) / LIKE) ** 2)
        weight *= near[v, u] <= limits[lane]
        mean = (weight * shown).sum() / max(weight.sum(), 1e-9)
        variance = (weight * (shown - mean) ** 2).sum() / max(weight.sum(), 1e-9)
        if weight.sum() < 2 or variance < FLAT:
            return None
        a, b = np.split(lenses[k, :, lane].astype(float), [9])
        w, wx, wy = planes[:, lane].astype(float)
        depth = w + wx * (u - xs[lane]) + wy * (v - ys[lane])
        x, y, z = a.reshape(3, 3) @ np.stack([u, v, np.ones(len(u))]) + b[:, None] * depth
        x, y, used = x / z, y / z, weight > 0
        if ((z <= 0) | (x < 0) | (y < 0) | (x >= 39) | (y >= 29))[used].any():
            return OUTSIDE
        there = map_coordinates(photos[k + 1], [y, x], order=1)
        mean_there = (weight * there).sum() / weight.sum()
        spread = (weight * (there - mean_there) ** 2).sum() / weight.sum()
        if spread < FLAT / 2:
            return UNLIKE
        both = (weight * (shown - mean) * (there - mean_there)).sum() / weight.sum()
        return 1 - both / (variance * spread) ** 0.5

    kinds, compared = [], njit(lambda *given: compare(*given))
    for k in range(3):
        compared(words, starts, lenses, sizes, k, *pixels, planes, values, weights, centres, out)
        for lane in range(LANES):
            wanted = expected(lane, which[lane] if k == 2 else k)
            assert (fine[lane] > 0) == (wanted is not None)
            if wanted is not None:
                np.testing.assert_allclose(out[lane], wanted, atol=3e-5)
            kinds.append(wanted)
    assert {None, OUTSIDE, UNLIKE} <= set(kinds)
    assert sum(kind not in (None, OUTSIDE, UNLIKE) for kind in kinds) > LANES


def test_planes_go_from_pixel_to_pixel_and_lie_where_other_photos_know_them():
    """One pixel has the plane of a photo at first; the other photo is (8, 0) of its parallaxes."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    from gendr.photos.stereo.matching import Matcher, StereoSettings, packed, refine

    size, wide, parallax = (40, 60), 90, 8.0
    settings = StereoSettings(tries=(0, 0))
    y, x = np.mgrid[:40, :60].astype(float)
    w, slopes = 1 + 0.004 * (x - 30) + 0.006 * (y - 20), np.array([0.004, 0.006])
    rng = np.random.default_rng(0)
    there = 2 * gaussian_filter(rng.uniform(-1, 1, (40, wide)), 1.0)
    here = map_coordinates(there, [y, x + parallax * w], order=1)
    images = [packed(each.clip(-1, 1).astype(np.float32)).ravel() for each in (here, there)]
    same, move = np.eye(3, dtype=np.float32)[None], np.array([[parallax, 0, 0]], np.float32)
    matcher = Matcher(
        np.concatenate(images), 0, np.array([0, 40 * 60]), np.array([60, wide]),
        np.array([40, 40]), (same, move, same, -move), np.zeros(size, np.uint8),
        np.zeros(size, np.float32), np.full(size, 0.3, np.float32), np.full(size, 3, np.float32),
        1.0, 50.0,
    )  # fmt: skip
    planes = np.zeros((*size, 3), np.float32)
    planes[..., 0] = rng.uniform(0.4, 2, size)
    planes[20, 30] = 1, *slopes
    costs, views = np.ones(size, np.float32), np.zeros((*size, 3), np.uint8)
    for turn in range(12):
        matcher.visit(
            planes, costs, views, settings, turn, coarse=True, fresh=turn == 0, shrink=1.0
        )
    inside = np.zeros(size, bool)
    inside[4:-4, 4:-4] = True
    assert (abs(planes[..., 0] - w) < 1e-4)[inside].mean() > 0.9

    known = rng.uniform(0.8, 1.2, (40, wide)).astype(np.float32)
    known[::3] = 0
    exact = np.concatenate([w[..., None], np.broadcast_to(slopes, (*size, 2))], 2)
    found = refine(matcher, exact.astype(np.float32), costs, known.ravel(), settings)[1]
    other = known[y.astype(int), np.rint(x + parallax * w).astype(int)]
    pixels = np.where(other > 0, np.minimum(parallax * abs(w - other), 3), 0)
    off = abs(found - settings.geometric * pixels)[inside & (found < 2)]  # 2: no pattern
    assert len(off) > 1500
    assert np.quantile(off, 0.9) < 1e-3
    assert off.max() < 0.05


def test_windows_tell_what_brightness_and_contrast_do_not_explain():
    """Box filters of SciPy of slopes, in a part of an image whose borders mirror it."""
    from scipy.ndimage import uniform_filter

    from gendr.photos.fitting.shape.stereo_kernels import energies

    image = np.random.default_rng(0).random((40, 53))
    for size, box in ((7, [[0, 40], [0, 53]]), (13, [[7, 30], [20, 53]])):
        middle, wanted = uniform_filter(image, size), np.zeros_like(image)
        spread = uniform_filter(image**2, size) - middle**2
        for axis in (0, 1):
            slope = np.gradient(image, axis=axis)
            climb = uniform_filter(slope, size)
            alike = uniform_filter(slope * image, size) - climb * middle
            wanted += uniform_filter(slope**2, size) - climb**2 - alike**2 / spread
        part = wanted[slice(*box[0]), slice(*box[1])]
        found = np.zeros(part.shape, np.float32)
        energies(image.astype(np.float32), np.array(box), size, found)
        np.testing.assert_allclose(found, part, atol=1e-7)


def heights(depths, camera, i):
    """How high the places are that a photo knows, away from the rim of the board."""
    size = depths.weights.shape[1:]
    turn, shift, k = (part[0].double() for part in camera[i].to_opencv(size, pixel_centre=0))
    y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in size), indexing="ij")
    rays = torch.stack([x, y, torch.ones_like(x)], -1) @ torch.linalg.inv(k).T
    places = (rays / torch.from_numpy(depths.planes[i, ..., :1]) - shift) @ turn
    middle = (places[..., [0, 2]].abs() < 0.7).all(-1)
    return places[..., 1][middle & torch.from_numpy(depths.weights[i] > 0.1)]


@pytest.mark.rotating(5, group="photos")
def test_photos_agree_at_the_true_depth(plane):
    rgb, camera, alpha, lid = plane
    done = []
    depths = find_depths(lid, rgb, camera, alpha, done.append)
    assert done == sorted(done)
    assert done[-1] == 1
    assert depths.known > 0.5
    found = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
    assert float(found.abs().median()) < 0.01  # a pixel is 0.03 wide
    assert float(found.abs().quantile(0.8)) < 0.05


@pytest.mark.rotating(5, group="photos")
@for_each(gain=[0.5, 1.5], rotating=2)
def test_brightness_may_differ(plane, gain):
    rgb, camera, alpha, lid = plane
    gains = torch.linspace(0.5, 0.5 * gain, len(rgb))[:, None, None, None]
    depths = find_depths(lid, gains * rgb, camera, alpha)
    found = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
    assert float(found.abs().median()) < 0.02


@pytest.mark.rotating(5, group="photos")
def test_smooth_patterns_are_found_in_noise(plane, monkeypatch):
    """Wide patches see what small ones take for a slope with noise."""
    _, camera, alpha, lid = plane
    camera, alpha = camera[:6], alpha[:6]
    truth = board(0.0, fine=6)
    rgb = shots(truth.with_vertex_colors(pattern(0.5 * truth.vertices)), camera, 96)[0]
    grain = torch.randn(rgb.shape, generator=torch.Generator().manual_seed(0))
    noisy = (rgb + 0.02 * 3**0.5 * grain * alpha[:, None]).clamp(0, 1)
    inside = (alpha > 0.9).numpy()
    assert stereo._noise(noisy.mean(1).numpy(), inside) == pytest.approx(0.02, rel=0.15)
    assert stereo._noise(rgb.mean(1).numpy(), inside) < 0.002

    def near():
        depths = find_depths(lid, noisy, camera, alpha, least=0.3)
        found = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
        return float((found.abs() < 0.06).sum()) / len(camera)

    found = near()
    monkeypatch.setattr(stereo, "SETTINGS", replace(stereo.SETTINGS, patches=1))
    assert found > 3 * near()


@pytest.mark.rotating(5, group="photos")
@for_each(strength=[0.4, 0.015], rotating=2)
def test_tints_tell_what_light_hides(plane, monkeypatch, strength):
    """Grain that is alike in all three colours, as of light, over colours of equal brightness.

    Of plaster they are faint: a few of the 255 steps of a photo.
    """
    _, camera, alpha, lid = plane
    truth = board(0.0, fine=6)
    colors = pattern(truth.vertices)
    colors = 0.5 + strength * (colors - colors.mean(1, keepdim=True))
    rgb = shots(truth.with_vertex_colors(colors), camera, 96)[0]
    grain = torch.randn(alpha.shape, generator=torch.Generator().manual_seed(0))[:, None]
    lit = (255 * rgb * (1 + 0.05 * grain)).clamp(0, 255).round() / 255
    inside = (alpha > 0.9).byte().numpy()
    for images, least, most in ((lit, 2, 3), (lit.mean(1, True).expand_as(lit), 1, 1)):
        words = stereo._levels(stereo._chroma(images), inside)[0]
        kept = len(words) // (stereo.SETTINGS.patches * inside.size)
        assert least <= kept <= most  # what few pixels need takes no memory

    def near():
        depths = find_depths(lid, lit, camera, alpha)
        found = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
        return float((found.abs() < 0.03).sum()) / len(camera)

    found = near()
    chroma = stereo._chroma
    monkeypatch.setattr(stereo, "_chroma", lambda images: chroma(images)[:1])
    assert found > 3 * near()


def test_photos_of_plaster_are_compared_by_ratios_of_colours():
    """Shading and grain alike in all three colours are most of what differs, and tell nothing."""
    dice = torch.Generator().manual_seed(0)
    light = 0.5 + 0.3 * torch.rand(4, 1, 1, 32, generator=dice)
    stripes = torch.sin(torch.arange(32.0) / 3)[:, None] * torch.tensor([1.0, 0, -1])[:, None, None]
    masks = torch.ones(4, 32, 32)

    def told(strength, grain):
        noise = grain * torch.randn(4, 3, 32, 32, generator=dice)
        images = (light * (1 + strength * stripes) + noise).clamp(0, 1)
        return images, stereo.amplified_patterns(images, masks)

    images, found = told(0.01, 0.001)
    assert found.shape == images.shape
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
    # Ratios of colours differ by 0.003, one standard deviation.
    for channel in (1, 2):
        rows = found[:, channel].mean((0, 2))
        assert abs(float(torch.corrcoef(torch.stack([rows, stripes[0, :, 0]]))[0, 1])) > 0.99
        assert float(rows.std()) > 0.03
    assert stereo.is_plain(images, masks)
    for strength, grain in ((0.3, 0.001), (0.0, 0.001)):  # clear ones, and noise alone
        images, found = told(strength, grain)
        assert found is images
        assert stereo.is_plain(images, masks) == (strength == 0)
    noise = 0.006 * torch.randn(4, 3, 32, 32, generator=dice)
    dark = torch.where(torch.arange(32) < 12, 0.02, 0.6) + noise  # in shadows colours are noise
    assert stereo.is_plain(dark.clamp(0, 1), masks)


@pytest.mark.rotating(5, group="photos")
def test_hollows_may_be_deep(plane):
    """A board that lies further below the hull than a third of its diagonal."""
    rgb, camera, alpha, _ = plane
    depths = find_depths(lid(1.1), rgb, camera, alpha)
    found = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
    assert len(found) > 1000
    assert float(found.abs().median()) < 0.02


def turned(*profile, around=64, step=0.04):
    """The surface of revolution of a line through points (radius, height), from axis to axis."""
    points = torch.tensor(profile)
    line = torch.cat([
        a + (b - a) * torch.linspace(0, 1, int((b - a).norm() / step) + 1)[:-1, None]
        for a, b in pairwise(points)
    ] + [points[-1:]])  # fmt: skip
    angle = torch.arange(around) * (2 * torch.pi / around)
    x, z = line[:, :1] * angle.cos(), line[:, :1] * angle.sin()
    vertices = torch.stack([x, line[:, 1:].expand_as(x), z], -1).reshape(-1, 3)
    i, j = torch.meshgrid(torch.arange(len(line) - 1), torch.arange(around), indexing="ij")
    a, b = i * around + j, i * around + (j + 1) % around
    corners = torch.stack([a, a + around, b, b, a + around, b + around], -1)
    return Mesh(vertices, corners.reshape(-1, 3))


def part_of_a_wall(radius, camera, size, below, grain=0.0):
    """How much of the inside of a cup is known and right, of what is so far below its lid."""
    outside = ((0.0, -0.6), (radius + 0.1, -0.6), (radius + 0.1, 0.6))
    truth = turned(*outside, (radius, 0.6), (radius, -0.4), (0.0, -0.4))
    closed = turned(*outside, (0.0, 0.6))
    rgb, alpha = shots(truth.with_vertex_colors(pattern(2 * truth.vertices)), camera, size)
    noise = torch.randn(alpha.shape, generator=torch.Generator().manual_seed(0))[:, None]
    rgb = (rgb * (1 + grain * noise)).clamp(0, 1)
    true, lid = (stereo._fronts(mesh, camera, (size, size)).numpy() for mesh in (truth, closed))
    wall = (true > 0) & (1 / true.clip(1e-3) > 1 / lid.clip(1e-3) + below)
    depths = find_depths(closed, rgb, camera, alpha)
    near = np.abs(1 / depths.planes[..., 0].clip(1e-3) - 1 / true.clip(1e-3)) < 0.03
    return float((near & (depths.weights > 0.1))[wall].mean())


@pytest.mark.rotating(5, group="photos")
def test_steep_walls_of_hollows_are_seen(monkeypatch):
    """Of the four nearest photos often one alone sees the wall of a cup that is as deep as wide."""
    i = torch.arange(18)
    cup = (0.5, look_at(3.0, 32.0 + 26.0 * (i % 2), 20.0 * i), 96, 0.3)
    found = []
    for count in (stereo.SETTINGS.neighbours, 4):
        # The first pass: later ones find what fewer neighbours missed.
        first = replace(stereo.SETTINGS, later_passes=0, neighbours=count)
        monkeypatch.setattr(stereo, "SETTINGS", first)
        found.append(part_of_a_wall(*cup))
    assert found[0] > 0.7, found
    assert found[0] > 1.3 * found[1], found


@pytest.mark.rotating(5, group="photos")
def test_what_is_known_helps_to_see_the_rest(monkeypatch):
    """Deep in a narrow cup, where most other photos see its rim."""
    i = torch.arange(10)
    cup = (0.4, look_at(3.0, 50.0 + 12.0 * (i % 2), 36.0 * i), 64, 0.7, 0.05)
    found = part_of_a_wall(*cup)
    monkeypatch.setattr(stereo, "SETTINGS", replace(stereo.SETTINGS, later_passes=0))
    assert found > 1.15 * part_of_a_wall(*cup)


@pytest.mark.rotating(5, group="photos")
def test_depths_do_not_depend_on_threads(plane):
    """Noise asks for patches of several levels, and leaves much to the second look."""
    rgb, camera, alpha, lid = plane
    grain = torch.randn(rgb.shape, generator=torch.Generator().manual_seed(0))
    noisy = (rgb + 0.05 * grain * alpha[:, None]).clamp(0, 1)[:5, :, :64]
    found = []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            found.append(find_depths(lid, noisy, camera[:5], alpha[:5, :64]))
    finally:
        set_num_threads(None)
    one, more = found
    assert len(np.unique(one.weights)) > 100
    assert np.array_equal(one.planes, more.planes)
    assert np.array_equal(one.weights, more.weights)


@pytest.mark.rotating(5, group="photos")
def test_photos_that_contradict_each_other_tell_nothing(plane, monkeypatch):
    """Each with waves of its own, as of a light: they are alike somewhere, never for long."""
    rgb, camera, alpha, lid = plane
    waves = torch.nn.functional.interpolate(
        torch.rand(len(rgb), 1, 12, 12, generator=torch.Generator().manual_seed(0)), 96,
        mode="bicubic",
    )  # fmt: skip
    lit = (0.2 + 0.6 * waves).clamp(0, 1).expand(-1, 3, -1, -1)
    assert find_depths(lid, lit, camera, alpha, least=0.3).known == 0
    monkeypatch.setattr(stereo, "SETTINGS", replace(stereo.SETTINGS, least_known=0.0))
    assert find_depths(lid, lit, camera, alpha, least=0.3).known > 0


@pytest.mark.rotating(5, group="photos")
def test_what_has_no_pattern_stays(plane):
    _, camera, alpha, lid = plane
    camera, alpha = camera[:5], alpha[:5]
    plain = 0.5 * alpha[:, None].expand(-1, 3, -1, -1)
    depths = find_depths(lid, plain, camera, torch.ones_like(alpha))
    known = torch.cat([heights(depths, camera, i) for i in range(len(camera))])
    assert len(known) < 0.15 * alpha.numel()  # but for the edges of the board
    noise = torch.rand(plain.shape, generator=torch.Generator().manual_seed(0))
    assert find_depths(lid, noise, camera, alpha).known < 0.06


def test_the_rim_of_what_is_plain_is_no_pattern():
    """Outlines lie elsewhere in each photo, and would carve."""
    ball = icosphere(3)
    i = torch.arange(12)
    camera = look_at(4.0, 15.0 + 20.0 * (i % 3), 30.0 * i)
    alpha = visual.silhouettes(ball, camera, 64)
    plain = 0.6 * alpha[:, None].expand(-1, 3, -1, -1)
    assert find_depths(ball.scaled(1.1), plain, camera, alpha).known == 0


def test_thin_parts_are_brought_back():
    """A bar that wrong depths carve away is in all masks."""
    bar = cube(1)
    bar = bar.with_vertices(bar.vertices * torch.tensor([1.0, 0.08, 0.08]))
    camera = visual.orbit(bar, [0.0, 45.0, 90.0, 135.0, 200.0, 290.0], 20.0)
    alpha = shots(bar, camera, 64)[1]
    planes = np.zeros((*alpha.shape, 3), np.float32)
    planes[..., 0] = 1e-3  # all photos see through it, they say
    weights = np.where(alpha > 0.5, 1, 0).astype(np.float32)
    vertices, faces = fused(Depths(planes, weights, 1.0), camera, alpha)
    found = visual.silhouettes(Mesh(torch.from_numpy(vertices).float(), torch.from_numpy(faces)),
                               camera, 64)  # fmt: skip
    assert float(iou(found, alpha).min()) > 0.7


@pytest.mark.rotating(5, group="photos")
def test_what_only_masks_show_is_joined_smoothly():
    """The lower half of a cube, of which photos say nothing: neither cut off nor foam."""
    body = cube(2)
    camera = visual.orbit(body, [45.0 * i for i in range(8)], 10.0)
    alpha = shots(body, camera, 128)[1]
    front = 1 / Renderer(128, "heaviside", "max")(body, camera).depth
    planes = torch.stack([front, 0 * front, 0 * front], -1).numpy()
    weights = (alpha > 0.5).float()
    weights[:, 70:] = 0
    depths = Depths(planes, weights.numpy(), 1.0)
    vertices, faces = fused(depths, camera, alpha, resolution=128)
    found = Mesh(torch.from_numpy(vertices).float(), torch.from_numpy(faces))
    assert len(vertices) - len(faces) // 2 == 2  # a sphere, without a handle
    assert float(iou(visual.silhouettes(found, camera, 128), alpha).min()) > 0.99
    # Depths that are as rough as those of faint patterns are averaged over more cells.
    grain = torch.randn(front.shape, generator=torch.Generator().manual_seed(0)).numpy()
    rough = Depths(planes * (1 + 0.02 * grain[..., None]), depths.weights, 1.0)
    areas = []
    for faint in (False, True):
        corners = Mesh(*map(torch.from_numpy, fused(rough, camera, alpha, 128, faint)))
        a, b, c = corners.vertices[corners.faces].unbind(1)
        areas.append(float(torch.linalg.cross(b - a, c - a).norm(dim=1).sum()) / 2)
    assert areas[1] < 0.95 * areas[0]


def pit():
    """A cube of side 2 with a hole in its upper side, 1.2 wide and 0.6 deep; and the cube alone."""
    closed = remesh(cube(4), 0.12).mesh
    x, y, z = closed.vertices.unbind(1)
    top = closed.vertices[:, 1].max()
    floor = ((x.abs() < 0.6 * top) & (z.abs() < 0.6 * top) & (y > 0.999 * top)).to(y)
    lowered = closed.with_vertices(torch.stack([x, y - 0.6 * top * floor, z], 1))
    return closed, lowered.with_vertex_colors(pattern(2 * lowered.vertices / top)), floor > 0


@pytest.mark.rotating(5, group="photos")
def test_a_hollow_comes_from_colours():
    closed, truth, floor = pit()
    i = torch.arange(12)
    camera = look_at(6.0 * float(closed.vertices[:, 1].max()), 20.0 + 20.0 * (i % 4), 30.0 * i)
    rgb, alpha = shots(truth, camera, 56)
    done = []
    result = refine_shape(closed, rgb, camera, alpha, steps=6, callback=done.append)
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


@pytest.mark.rotating(5, group="photos")
def test_colours_are_compared_inside_outlines(monkeypatch):
    """What is too small shows the pit: steps follow, whose outlines masks judge in the end."""
    closed, truth, _ = pit()
    i = torch.arange(12)
    camera = look_at(6.0 * float(closed.vertices[:, 1].max()), 20.0 + 20.0 * (i % 4), 30.0 * i)
    rgb, alpha = shots(truth, camera, 56)
    small = truth.scaled(0.96)
    both = small.vertices.numpy(), small.faces.numpy()
    known = Depths(np.zeros((12, 1, 1, 3)), np.zeros((12, 1, 1)), 1.0)
    monkeypatch.setattr(refining, "find_depths", lambda *given: known)
    monkeypatch.setattr(refining, "fused", lambda *given, **options: both)
    bare = Mesh(truth.vertices, truth.faces)
    monkeypatch.setattr(refining._Refinement, "stepped", lambda *given: bare)
    monkeypatch.setattr(refining._Refinement, "faired", lambda *given: None)
    result = refine_shape(closed, rgb, camera, alpha, steps=1)
    assert result.improved, result.reason
    assert result.psnr[1] > result.psnr[0] + 3
    outlines = fit_colors(small, rgb, camera, alpha, kind="vertex").psnr.mean()
    assert outlines < result.psnr[0] - refining.MOST_WORSE  # which would have refused it


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


def test_what_one_surface_does_not_fill_counts_for_neither(ball, monkeypatch):
    """To leave out a rim that colours cannot meet is no gain."""
    smaller, rgb, camera, alpha = ball
    rim = alpha > -torch.nn.functional.max_pool2d(-alpha, 5, 1, 2)
    noise = torch.rand(rgb.shape, generator=torch.Generator().manual_seed(0))
    spoiled = torch.where(rim[:, None], noise * alpha[:, None], rgb)
    known = Depths(np.zeros((6, 1, 1, 3)), np.zeros((6, 1, 1)), 1.0)
    both = smaller.vertices.numpy(), smaller.faces.numpy()
    monkeypatch.setattr(refining, "find_depths", lambda *given: known)
    monkeypatch.setattr(refining, "fused", lambda *given, **options: both)
    improving(monkeypatch, 10)
    result = refine_shape(smaller.scaled(1 / 0.9), spoiled, camera, alpha, steps=0)
    assert result.improved
    assert result.psnr[1] < result.psnr[0] - 0.5  # all else is met worse
    # A photo in which a surface fills nothing does not count for the other one either.
    empty = torch.full((1, 4, 4), np.nan)
    one, other = (torch.full((1, 4, 4), off) for off in (0.1, 0.01))
    first = refining._Met(torch.cat([one, one]), 5.0, 1.0)
    last = refining._Met(torch.cat([other, empty]), 6.0, 1.0)
    assert refining._psnrs(first, last) == pytest.approx((20, 40))
    nothing = refining._Met(torch.cat([empty, empty]), 6.0, 1.0)
    assert refining._psnrs(first, nothing) == (5, 6)


@pytest.mark.rotating(5, group="photos")
def test_what_is_not_improved_is_returned(ball, monkeypatch):
    monkeypatch.setattr(refining, "LEAST_GAIN", np.inf)
    result = refine_shape(*ball, steps=1)
    assert not result.improved
    assert result.mesh is ball[0]
    assert result.moved == 0
    assert "dB with it and" in result.reason
    monkeypatch.setattr(refining, "MOST_WORSE", -np.inf)  # which is found out before the steps
    monkeypatch.setattr(refining, "MOST_UNEVEN", -np.inf)
    monkeypatch.setattr(refining._Refinement, "stepped", None)
    result = refine_shape(*ball, steps=1)
    assert "8 photos are met to" in result.reason
    assert result.mesh is ball[0]


@pytest.mark.rotating(5, group="photos")
def test_photos_of_plaster_need_not_be_met_better(ball, monkeypatch):
    """Whatever gain is asked of others: any surface shows what hardly differs."""
    monkeypatch.setattr(refining, "LEAST_GAIN", np.inf)
    mesh, rgb, camera, alpha = ball
    faint = alpha[:, None] * (0.5 + 0.02 * rgb)
    result = refine_shape(mesh, faint, camera, alpha, steps=1)
    assert result.improved, result.reason
    monkeypatch.setattr(refining, "MOST_WORSE", -np.inf)
    assert "of which it may lose" in refine_shape(mesh, faint, camera, alpha, steps=1).reason


@pytest.mark.rotating(5, group="photos")
def test_what_photos_know_little_of_is_made_smooth(ball, monkeypatch):
    """Without steps, which would follow the shading; by that, or if it does not tell the shape."""
    monkeypatch.setattr(refining._Refinement, "stepped", None)
    mesh, rgb, camera, alpha = ball
    grey = 0.6 * alpha[:, None].expand_as(rgb)
    monkeypatch.setattr(shading, "_STAGES", ((1, 4.0, 15),))
    monkeypatch.setattr(shading, "_WAYS", 24)  # lamps, each with a map of depths
    monkeypatch.setattr(shading, "_SIDE", 64)
    for most in (refining.MOST_OFF, -1.0):
        monkeypatch.setattr(refining, "MOST_OFF", most)
        result = refine_shape(mesh, grey, camera, alpha, steps=1)
        assert result.improved
        assert result.finished
        assert result.iou[1] > result.iou[0]
        assert result.moved > 0.03
        assert "a surface without a pattern cannot be matched" in result.reason


def test_shading_comes_first_if_light_moves(ball, monkeypatch):
    monkeypatch.setattr(refining._Refinement, "matched", None)
    mesh, rgb, camera, alpha = ball
    wanted = []

    def told(mesh, *given, still, **more):
        wanted.append(still)
        return mesh.scaled(1.02), 0.0, 0.0

    monkeypatch.setattr(refining, "fit_shading", told)
    result = refine_shape(mesh, 0.6 * alpha[:, None].expand_as(rgb), camera, alpha, steps=1)
    assert result.improved
    assert result.finished
    assert wanted == [False]
    assert "of one colour, so that shading tells its shape" in result.reason


def test_shading_comes_after_stereo_if_light_stands_still(ball, monkeypatch):
    """Also from a checkpoint, and not where it would explain the photos less than allowed."""
    improving(monkeypatch, 1)
    mesh, rgb, camera, alpha = ball
    wanted, off, kept = [], [0.0], []

    def told(mesh, *given, still, **more):
        wanted.append(still)
        return (mesh.scaled(1.002), off[0], float(len(wanted))) if still else None

    monkeypatch.setattr(refining, "fit_shading", told)
    monkeypatch.setattr(refining._Refinement, "matched", lambda self, mesh, depths: mesh)
    photos = 0.6 * alpha[:, None].expand_as(rgb), camera, alpha
    whole = refine_shape(mesh, *photos, steps=1, callback=kept.append)
    assert whole.improved
    assert wanted == [False, True, True]  # from what stereo has found, and from the hull
    later = refine_shape(mesh, *photos, steps=1, resume=kept[-1].state)
    assert wanted[3:] == [True, True]
    assert torch.equal(later.mesh.vertices, whole.mesh.vertices)
    off[0] = 1.0
    alone = refine_shape(mesh, *photos, steps=1)
    assert wanted[5:] == [False, True]
    assert torch.equal(1.002 * alone.mesh.vertices, whole.mesh.vertices)


@for_each(
    shown=[
        ((20.0, 0.95), (21.0, 0.95), (21.6, 0.95), True),
        ((20.0, 0.95), (21.0, 0.95), (21.4, 0.96), False),  # the pattern agrees hardly better
        ((20.0, 0.95), (21.0, 0.95), (22.0, 0.94), False),  # outlines are met worse
    ]
)
def test_faint_patterns_judge_shading_in_light_that_moves(ball, monkeypatch, shown):
    mesh, rgb, camera, alpha = ball
    *scores, taken = shown

    def told(mesh, *given, still, outlines, **more):
        assert outlines
        assert not still
        return mesh.scaled(1.002), 0.0, 0.0

    monkeypatch.setattr(refining, "fit_shading", told)
    monkeypatch.setattr(refining._Refinement, "matched", lambda self, mesh, depths: mesh)
    monkeypatch.setattr(
        refining._Refinement, "stepped", lambda self, mesh, *steps: mesh.scaled(1.0)
    )
    nowhere = torch.full((1, 1, 1), np.nan)
    monkeypatch.setattr(
        refining._Refinement,
        "measured",
        lambda *given, **more: refining._Met(nowhere, *left.pop(0)),
    )
    photos = alpha[:, None] * (0.5 + 0.02 * rgb), camera, alpha
    left = [*scores[:2], (0.0, 0.0)]
    alone = refine_shape(mesh, *photos, steps=1)
    left = list(scores)
    found = refine_shape(mesh, *photos, steps=1)
    assert found.improved
    assert (found.psnr[1], found.iou[1]) == scores[2 if taken else 1]
    times = 1.002 if taken else 1.0
    assert torch.equal(found.mesh.vertices, times * alone.mesh.vertices)


@pytest.mark.rotating(5, group="photos")
def test_goes_on_where_it_was(ball, monkeypatch, tmp_path):
    """After any photo in stereo, after it and any group of steps, and from a file."""
    improving(monkeypatch, 2)
    told = []

    def keep(now):  # as a file would hold it
        file = io.BytesIO()
        torch.save(now.state, file)
        told.append(file)

    def state(i):
        told[i].seek(0)
        return torch.load(told[i], weights_only=True)

    whole = refine_shape(*ball, steps=3, callback=keep)
    assert whole.improved
    assert (whole.reason, whole.known > 0.1) == ("", True)
    states = [state(i) for i in range(len(told))]
    parts = [0 if now is None else now["parts"] for now in states]
    assert parts == sorted(parts)
    assert set(parts) == {0, 1, 2, 3}
    count = len(ball[1])
    places = [(now["stereo"]["look"], now["stereo"]["done"]) for now in states
              if now is not None and "stereo" in now]  # fmt: skip
    assert places == sorted(places)
    firsts = [parts.index(part) for part in (1, 2, 3)]
    # In each of the three looks, after them, and after any group of steps.
    for place in ((0, 2), (1, 1), (2, count - 1), (3, 0)):
        at = next(i for i, now in enumerate(states) if now and now.get("stereo")
                  and (now["stereo"]["look"], now["stereo"]["done"]) == place)  # fmt: skip
        firsts.append(at)
    for i in firsts:
        again = refine_shape(*ball, steps=3, resume=states[i])
        assert torch.equal(again.mesh.vertices, whole.mesh.vertices)
        assert (again.psnr, again.iou, again.moved) == (whole.psnr, whole.iou, whole.moved)


@pytest.mark.rotating(5, group="photos")
def test_a_budget_ends_it_and_the_work_is_told_on_the_way(ball, monkeypatch):
    improving(monkeypatch, 4)
    # How often threads tell what is done depends on which is first.
    monkeypatch.setattr("gendr.kernels.threads._own_threads", 1)
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
        assert seconds[0] <= part * total + 4
        assert not found[-1].finished
        assert found[-1].improved == (part > 0.3), part
    assert found[0].mesh is ball[0]
    assert all(math.isnan(value) for value in found[0].psnr + found[0].iou)
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
