"""`Splats`: what is refused, what cameras see of them, and how they are drawn."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gendr import Camera, backends, look_at, look_from
from gendr.mesh import icosphere
from gendr.photos import visual
from gendr.photos.splatting import Photos, Splats, camera_path, from_mesh
from gendr.photos.splatting.harmonics import flat_color, harmonics_of
from gendr.photos.splatting.pictures import film, pair, sheet, with_mean_colors
from gendr.photos.splatting.splats import NEAR, projected
from gendr.rendering.fragments import signed_distance
from support.cases import for_each

F64 = torch.float64


def made(count=4, degree=1, seed=0, **changes):
    source = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(*shape, dtype=F64, generator=source)

    given = {
        "vertices": rand(count, 3, 3) - 0.5,
        "harmonics": rand(count, (degree + 1) ** 2, 3) - 0.5,
        "opacity": 0.1 + 0.9 * rand(count),
        "scale": 0.2 + rand(count),
    }
    return Splats(**{**given, **changes})


def cameras(count=2, **settings):
    azimuth = torch.arange(count, dtype=F64) * 70
    return look_at(3.0, 20.0, azimuth, 40.0, dtype=F64, **settings)


@for_each(
    case=[
        ({"vertices": torch.zeros(4, 3, dtype=F64)}, r"vertices must have shape \[N, 3, 3\]"),
        ({"harmonics": torch.zeros(4, 5, 3, dtype=F64)}, "1, 4, 9 or 16 harmonics, got 5"),
        ({"harmonics": torch.zeros(3, 4, 3, dtype=F64)}, r"harmonics must have shape .*N = 4"),
        ({"opacity": torch.zeros(4, dtype=F64)}, r"opacity must be in \(0, 1\], got 0"),
        ({"opacity": torch.full((4,), 1.5, dtype=F64)}, r"opacity must be in \(0, 1\], got 1.5"),
        ({"scale": -torch.ones(4, dtype=F64)}, "scale must be > 0, got -1"),
        ({"scale": torch.full((4,), torch.nan, dtype=F64)}, "scale must be finite"),
        ({"shape": torch.ones(4, dtype=F64)}, "uniform has no shape to set for each triangle"),
        ({"shape": torch.zeros(4, dtype=F64), "dist": "gamma"}, "shape must be > 0, got 0"),
        ({"dist": "unifrom"}, "unknown distribution 'unifrom'"),
        ({"tconorm": "probabilistc"}, "unknown T-conorm 'probabilistc'"),
        ({"unit": "mm"}, "unknown unit 'mm'"),
        ({"cutoff": 1.0}, "cutoff must be .*< 1"),
        ({"background": torch.full((3,), 2.0, dtype=F64)}, r"background must be RGB in \[0, 1\]"),
        ({"background": torch.ones(4, dtype=F64)}, r"background must have shape \[3\]"),
    ]
)
def test_refusals(case):
    changes, words = case
    with pytest.raises(ValueError, match=words):
        made(**changes)


def test_dtypes_that_differ_are_refused():
    with pytest.raises(TypeError, match="opacity must have the dtype of vertices, float64"):
        made(opacity=torch.full((4,), 0.5))


def test_a_batch_of_triangles():
    splats = made(5, dist="gamma(shape=0.5).reversed", shape=torch.rand(5, dtype=F64) + 1)
    assert len(splats) == 5
    assert splats.degree == 1
    assert "5 triangles" in repr(splats)
    assert torch.equal(splats.background, torch.ones(3, dtype=F64))
    assert str(splats.dist) == "gamma(shape=0.5).reversed"
    for index in (slice(1, 3), [1, 2], torch.tensor([1, 2]), splats.opacity == 0, 4):
        some = splats[index]
        want = index if not isinstance(index, int) else [index]
        assert torch.equal(some.vertices, splats.vertices[want])
        assert torch.equal(some.shape, splats.shape[want])
        assert some.background is splats.background
        assert some.dist is splats.dist
    with pytest.raises(IndexError, match="triangle 5 of 5"):
        _ = splats[5]
    assert splats.to(torch.float32).scale.dtype == torch.float32
    learnt = splats.with_tensors(opacity=splats.opacity.clone().requires_grad_())
    assert learnt.opacity.requires_grad
    assert not learnt.detach().opacity.requires_grad
    assert learnt[:2].opacity.requires_grad


def incircle(corners):
    """The inradius by the distance of the incentre from a side."""
    sides = torch.stack([(corners[(i + 1) % 3] - corners[(i + 2) % 3]).norm() for i in range(3)])
    middle = (sides[:, None] * corners).sum(0) / sides.sum()
    a, b = corners[0], corners[1]
    normal = torch.stack([-(b - a)[1], (b - a)[0]]) / (b - a).norm()
    return ((middle - a) * normal).sum().abs()


@for_each(size=[40, (30, 50)], orthographic=[False, True])
def test_what_cameras_see(size, orthographic):
    splats, camera = made(), cameras(orthographic=orthographic)
    faces, colors, scale = projected(splats, camera, size)
    xy, depth = camera.project(splats.vertices.reshape(-1, 3))
    torch.testing.assert_close(faces[..., :2], xy.reshape(2, 4, 3, 2))
    torch.testing.assert_close(faces[..., 2], depth.reshape(2, 4, 3))
    for b in range(2):
        for n in range(4):
            want = splats.scale[n] * incircle(xy.reshape(2, 4, 3, 2)[b, n])
            assert scale[b, n].item() == pytest.approx(want.item(), rel=1e-10)
            way = splats.vertices[n].mean(0) - camera.eye[b]
            way = camera.ahead[b] if orthographic else way / way.norm()
            x, y, z = way
            h = splats.harmonics[n]
            k = 0.4886025119029199
            color = 0.5 + 0.28209479177387814 * h[0] + k * (-y * h[1] + z * h[2] - x * h[3])
            torch.testing.assert_close(colors[b, n], color.clamp(min=0))
    short = size if isinstance(size, int) else min(size)
    for unit, factor in (("px", 2 / short), ("ndc", 1.0)):
        found = projected(made(unit=unit), camera, size)[2]
        torch.testing.assert_close(found, (factor * splats.scale).expand(2, 4))


def test_scales_of_squared_distributions_are_squares_of_lengths():
    camera = cameras()
    for unit in ("inradius", "px"):
        plain, squared = made(unit=unit), made(unit=unit, dist="gaussian.squared")
        size = projected(plain, camera, 32)[2] / plain.scale
        torch.testing.assert_close(projected(squared, camera, 32)[2], squared.scale * size**2)


def test_gradients():
    splats, camera = made(), cameras()
    names = ("vertices", "harmonics", "scale")

    def seen(*tensors):
        return projected(splats.with_tensors(**dict(zip(names, tensors, strict=True))), camera, 32)

    given = [getattr(splats, name).clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(seen, given)


def test_what_is_behind_or_too_near_is_left_out_without_a_trace():
    splats, camera = made(4), Camera(translation=torch.tensor([0.0, 0, 0], dtype=F64))
    away = torch.tensor([[0, 0, -3.0], [0, 0, 3.0], [0, 0, 0.0], [0, 0, -3.0]], dtype=F64)
    v = splats.vertices + away[:, None]
    v[2, 1, 2] = 0  # a corner beside the eye
    v[3, 0, 2] = -NEAR / 2  # one corner too near
    v.requires_grad_()
    faces, colors, scale = projected(splats.with_tensors(vertices=v), camera, 32)
    assert (faces[0, 0, :, 2] > 2).all()
    assert not faces[0, 1:].any()
    assert torch.isfinite(scale).all()
    assert (scale > 0).all()
    (faces.sum() + scale.sum() + colors.sum()).backward()
    assert torch.isfinite(v.grad).all()
    v.grad = None
    faces, _, scale = projected(splats.with_tensors(vertices=v), camera, 32)
    (faces.sum() + scale.sum()).backward()
    assert v.grad[0].any()
    assert not v.grad[1:].any()
    with pytest.raises(ValueError, match="near must be > 0"):
        projected(splats, camera, 32, near=0.0)


def test_triangles_without_area_have_a_scale_and_finite_gradients():
    v = torch.zeros(2, 3, 3, dtype=F64)
    v[1, :, 0] = torch.tensor([-1.0, 0, 1])  # on a line
    v.requires_grad_()
    faces, _, scale = projected(made(2).with_tensors(vertices=v), cameras(), 32)
    assert (scale > 0).all()
    (faces.sum() + scale.sum()).backward()
    assert torch.isfinite(v.grad).all()


def test_a_background_that_is_an_image(tmp_path):
    """It is stretched to the picture: means over areas where that is smaller, else linearly."""
    image = torch.rand(3, 8, 12, dtype=F64, requires_grad=True)
    splats = made(background=image.detach().clone())
    camera = cameras()
    plain, alpha = splats.with_tensors(background=torch.zeros(3, dtype=F64)).render(camera, (8, 12))
    found, _ = splats.with_tensors(background=image).render(camera, (8, 12))
    torch.testing.assert_close(found, plain + (1 - alpha)[:, None] * image)
    (gradient,) = torch.autograd.grad(found.sum(), image)
    torch.testing.assert_close(gradient, (1 - alpha).sum(0).expand(3, -1, -1))
    half = splats.behind((4, 6))
    torch.testing.assert_close(half, image.unflatten(1, (4, 2)).unflatten(3, (6, 2)).mean((2, 4)))
    ramp = torch.arange(12.0, dtype=F64).expand(3, 8, 12) / 12
    wide = splats.with_tensors(background=ramp).behind((16, 24))
    steps = wide[:, :, 1:-1].diff(dim=2)
    torch.testing.assert_close(steps, torch.full_like(steps, 1 / 24))
    splats.save(tmp_path / "a.npz")
    assert torch.equal(Splats.load(tmp_path / "a.npz").background, image)
    splats.to_ply(tmp_path / "a.ply")  # which has no background


@for_each(shape=[None, torch.linspace(0.5, 2, 6, dtype=F64)])
def test_render_is_the_sum_over_faces_from_front_to_back(shape):
    """One triangle after the other, by the definition, with alpha blending."""
    background = torch.tensor([0.2, 0.9, 0.4], dtype=F64)
    dist = "uniform" if shape is None else "power"
    splats, camera = made(6, background=background, dist=dist, shape=shape), cameras()
    image, alpha = splats.render(camera, 16, sort="centroid", bound=0.0, backend="reference")
    faces, colors, scale = projected(splats, camera, 16)
    ticks = (2 * torch.arange(16, dtype=F64) + 1) / 16 - 1
    points = torch.stack(torch.meshgrid(-ticks, ticks, indexing="ij")[::-1], -1)
    for b in range(2):
        left, want = torch.ones(16, 16, dtype=F64), torch.zeros(3, 16, 16, dtype=F64)
        for n in faces[b, :, :, 2].mean(1).argsort().tolist():
            d = signed_distance(points, faces[b, n, :, :2])
            z = d / scale[b, n]
            window = (z + 1) / 2 if shape is None else z.clamp(min=0) ** shape[n]
            a = splats.opacity[n] * window.clamp(0, 1)
            want += left * a * colors[b, n][:, None, None]
            left = left * (1 - a)
        torch.testing.assert_close(alpha[b], 1 - left)
        want += left * splats.background[:, None, None]
        torch.testing.assert_close(image[b], want, atol=1e-5, rtol=0)


@for_each(count=[1, 4, 9, 16], unit=["inradius", "px"], rotating=3)
def test_kernels_see_what_the_definition_sees(count, unit):
    """Also of triangles that are too near, on edge, and in one point; 70 fill more than a block."""
    generator = torch.Generator().manual_seed(count)
    vertices = torch.rand(70, 3, 3, generator=generator, dtype=torch.float64) * 2 - 1
    vertices[1] += torch.tensor([0, 0, -40.0]).double()
    vertices[2, 1] = vertices[2, 0]
    vertices[3] = vertices[3, :1]
    harmonics = torch.rand(70, count, 3, generator=generator, dtype=torch.float64) - 0.6
    scale = torch.rand(70, generator=generator, dtype=torch.float64) + 0.1
    values = [x.float().double() for x in (vertices, harmonics, scale)]
    grads = [torch.rand(70, *shape, generator=generator) for shape in ((3, 3), (3,), ())]

    def seen(dtype, backend):
        v, h, s = (x.to(dtype).requires_grad_() for x in values)
        camera = look_at(2.5, 20.0, 200.0, dtype=dtype)
        splats = Splats(v, h, torch.ones_like(s), s, unit=unit)
        found = [x[0] for x in projected(splats, camera, (30, 40), backend=backend)]
        total = sum((x * g.to(dtype)).sum() for x, g in zip(found, grads, strict=True))
        return [*found, *torch.autograd.grad(total, (v, h, s))]

    want = seen(torch.float64, "reference")
    for backend, reason in backends("splatting").items():
        found = seen(torch.float32, backend) if reason is None else []
        for x, y in zip(found, want[: len(found)], strict=True):
            assert x.isfinite().all()
            some = torch.ones(70, dtype=torch.bool)
            some[2:4] = x is not None and x.shape != (70, 3, 3)  # whose inradius has a kink
            torch.testing.assert_close(x[some].double(), y[some], rtol=2e-4, atol=2e-5)


# -- walks and pictures

AT = torch.tensor([3.0, -1.0, 2.0], dtype=F64)


def test_a_walk_past_cameras_in_a_circle_is_that_circle():
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    camera = look_at(4.0, 20.0, order.to(F64) * 30, 40.0, at=AT)
    path = camera_path(camera, 30)
    assert len(path) == 30
    arms = path.eye - AT
    torch.testing.assert_close(arms.norm(dim=-1), torch.full((30,), 4.0, dtype=F64))
    torch.testing.assert_close(arms[:, 1], torch.full((30,), 4 * np.sin(np.pi / 9), dtype=F64))
    steps = (path.eye - path.eye.roll(1, 0)).norm(dim=-1)
    assert float(steps.max() / steps.min()) < 1.01
    assert float(steps.sum()) == pytest.approx(2 * np.pi * 4 * np.cos(np.pi / 9), rel=0.01)
    torch.testing.assert_close(path.ahead, -arms / 4)
    torch.testing.assert_close(path.focal, camera.focal[:1].expand(30, 2))


def test_a_walk_before_a_wall_goes_to_and_fro():
    """Cameras on a quarter of a circle, which look past its centre at places of their own."""
    angles = torch.linspace(-45, 45, 15, dtype=F64)[torch.randperm(15)]
    middle = look_at(5.0, 10.0, angles, 40.0, at=AT)
    aims = AT + 0.2 * torch.randn(15, 3, dtype=F64)
    camera = look_from(middle.eye, aims, fov=40.0)
    path = camera_path(camera, 50, AT)
    arms = path.eye - AT
    azimuth = torch.atan2(arms[:, 0], -arms[:, 2])
    assert float(azimuth.abs().max()) < np.pi / 4
    assert float(azimuth.max() - azimuth.min()) > np.pi / 4
    turned = (azimuth - azimuth.roll(1)).sign()
    assert int((turned != turned.roll(1)).sum()) == 2  # at both ends
    steps = (path.eye - path.eye.roll(1, 0)).norm(dim=-1)
    assert float(steps.max()) < 1.2 * float(steps.mean())
    turns = (path.ahead * path.ahead.roll(1, 0)).sum(-1).clamp(max=1).acos()
    assert float(turns.max()) < np.pi / 20


def test_cameras_that_do_not_turn_leave_the_walk_where_they_are():
    camera = look_at(3.0, 0.0, torch.tensor([40.0]), 30.0)
    path = camera_path(camera, 3, torch.zeros(3))
    torch.testing.assert_close(path.eye, camera.eye.expand(3, 3))
    with pytest.raises(ValueError, match="count must be >= 1"):
        camera_path(camera, 0)


@pytest.fixture(scope="module")
def ball():
    return from_mesh(icosphere(2), 50)


def test_films_have_a_frame_for_each_camera(ball):
    camera, told = look_at(4.0, 10.0, torch.arange(3) * 100.0, 40.0), []
    with Image.open(io.BytesIO(film(ball, camera, (21, 33), told.append))) as image:
        assert (image.n_frames, image.size) == (3, (33, 21))
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert told == [1 / 3, 2 / 3, 1]


def test_white_stays_white_in_gifs():
    """Near whites do not take its place in the palette."""
    frames = np.full((2, 8, 8, 3), 255, np.uint8)
    frames[:, 4:] = np.arange(32).reshape(4, 8)[None, :, :, None] + 222
    with Image.open(io.BytesIO(visual.gif(list(frames)))) as image:
        shown = np.asarray(image.convert("RGB"))
    assert (shown[:4] == 255).all()
    assert np.abs(shown[4:].astype(int) - frames[0, 4:]).max() < 8


def test_sheets_show_photos_and_splats_under_each_other():
    red, green, blue = torch.eye(3)[:, :, None, None].expand(3, 3, 20, 30)
    rows = [([red] * 8, []), ([green] * 8, [f"{i} dB" for i in range(8)])]
    page = sheet("title", "subtitle", [f"./{i}.png" for i in range(8)], rows)
    counts = [(page == color).all(-1).sum() for color in ([255, 0, 0], [0, 255, 0])]
    assert counts == [8 * 192 * 128] * 2
    columns = (page == [255, 0, 0]).all(-1).any(0).sum()
    assert columns == 4 * 192  # two rows of four
    long = sheet("title " * 40, "name_without_spaces" * 20, [""], [([red], [])])
    assert (long[:, -16:] == 255).all()
    assert (long == [255, 0, 0]).all(-1).sum() == 192 * 128
    assert (np.diff((long != 255).any((1, 2)).nonzero()[0]) > 1).sum() >= 5  # lines, none cut
    both = pair("title", "note", red, blue)
    assert (both[120, 100] == [255, 0, 0]).all()
    assert (both[120, 500] == [0, 0, 255]).all()


def test_opaque_triangles_have_the_mean_color_of_pixels_that_show_them():
    """Of a red and a blue photo from both sides, with walls between: black shards, one hidden."""
    wide = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]])
    # A front wall, one behind it that only the second camera sees, an edge-on one within, and a
    # roof that both see alike.
    walls = [torch.cat([wide, torch.full((3, 1), z)], 1) for z in (1.0, -1.0)]
    hidden = 0.5 * walls[0] * torch.tensor([1.0, 1.0, 0.0])
    roof = torch.tensor([[-1.0, 1.5, 0.0], [1.0, 1.5, 0.0], [0.0, 2.0, 0.0]])
    vertices = torch.stack([walls[0], walls[1], hidden, roof])
    dark = harmonics_of(torch.full((4, 3), -0.5), 1)
    assert flat_color(harmonics_of(torch.full((4, 3), 0.3), 2)).allclose(torch.tensor(0.3))
    splats = Splats(vertices, dark, torch.full((4,), 0.3), torch.full((4,), 0.5))
    camera = look_at(8.0, 0.0, torch.tensor([0.0, 180.0]), 40.0)
    red, blue = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 1.0])
    images = torch.stack([red, blue])[..., None, None].expand(2, 3, 64, 64)
    photos = Photos(images, None, camera, ("a", "b"), torch.ones(3))
    found = with_mean_colors(splats, photos)
    in_front = int(camera.eye[0, 2] < 0)  # the wall that the first camera sees
    order = [red, blue] if in_front == 0 else [blue, red]
    want = torch.stack([*order, (red + blue) / 2])
    torch.testing.assert_close(found.vertices, vertices[[0, 1, 3]])
    torch.testing.assert_close(flat_color(found.harmonics), want, atol=1e-6, rtol=0)
    assert bool((found.opacity == 1).all())
    assert not found.harmonics[:, 1:].any()
    # Beside whole pictures other cameras may look: what is there stays as it is.
    away = vertices[3:] + torch.tensor([50.0, 0, 0])
    more = Splats(
        torch.cat([vertices, away]), dark[[0, 1, 2, 3, 3]], torch.full((5,), 0.3), torch.ones(5)
    )
    kept = with_mean_colors(more, photos)
    torch.testing.assert_close(kept.vertices, more.vertices[[0, 1, 3, 4]])
    assert flat_color(kept.harmonics)[-1].tolist() == flat_color(dark)[3].tolist()  # black
    assert len(with_mean_colors(more, replace(photos, alpha=torch.ones(2, 64, 64)))) == 3
    with pytest.raises(ValueError, match="no photo shows any of the 1 triangles"):
        with_mean_colors(splats[3:].with_tensors(vertices=away), photos)
