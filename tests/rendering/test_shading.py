"""Colours: the softmax over depth, textures, lights, and their gradients."""

import math

import pytest
import torch
from torch.autograd import gradcheck

import gendr
from gendr import Camera, Lighting, Mesh, Renderer, look_at
from gendr.mesh import cube, grid, icosphere


def two_squares(front=2.0, back=3.0):
    """Two big squares that face a camera at the origin looking along +z; red before green."""
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], dtype=torch.float64)
    layers = [corners * 4 + torch.tensor([0, 0, z]) for z in (front, back)]
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64).repeat_interleave(4, 0)
    return Mesh(torch.cat(layers), torch.cat([faces, faces + 4]), vertex_colors=colours)


def ahead(**kwargs):
    return Camera(
        torch.diag(torch.tensor([-1.0, 1, 1])).double(), torch.zeros(3).double(), fov=60.0, **kwargs
    )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_softmax_by_hand(backend):
    """Two layers that cover every pixel fully: the formula of the contract with a = 1."""
    gamma, eps, near, far = 0.05, 0.2, 1.0, 10.0
    renderer = Renderer(
        4, "uniform", scale=1e-4, lighting="none", gamma=gamma, eps=eps, near=near, far=far,
        background=(0.0, 0.0, 1.0), backend=backend,
    )  # fmt: skip
    rgb = renderer(two_squares(), ahead()).rgb
    weights = [math.exp((far - z) / (far - near) / gamma) for z in (2.0, 3.0)]
    weights.append(math.exp(eps / gamma))
    want = torch.tensor([w / sum(weights) for w in weights], dtype=torch.float64)
    # Off the diagonal, where the two triangles of a square meet and both cover a pixel by half.
    torch.testing.assert_close(rgb[0, :, 0, 1], want)
    torch.testing.assert_close(rgb[0, :, 3, 1], want)


def test_hard_shading_takes_the_nearest():
    for front, back, want in ((2.0, 3.0, [1, 0, 0]), (3.0, 2.0, [0, 1, 0])):
        for backend in ("cpu", "reference"):
            renderer = Renderer(
                5, "heaviside", "max", shading="hard", lighting="none", backend=backend
            )
            out = renderer(two_squares(front, back), ahead())
            assert (out.rgb == torch.tensor(want).double()[:, None, None]).all()
            assert out.depth.min() == out.depth.max() == 2
            assert set(out.face_id.unique().tolist()) <= ({0, 1} if front < back else {2, 3})


def test_what_is_out_of_range_is_not_seen():
    out = Renderer(5, far=2.5, lighting="none")(two_squares(), ahead())
    assert (out.face_id < 2).all()
    assert not Renderer(5, near=4.0, far=5.0)(two_squares(), ahead()).alpha.any()
    nothing = Renderer(5, near=4.0, far=5.0, background=(0.1, 0.2, 0.3))(two_squares(), ahead())
    assert torch.isinf(nothing.depth).all()
    assert (nothing.normals == 0).all()
    torch.testing.assert_close(nothing.rgb[0, :, 2, 2], torch.tensor([0.1, 0.2, 0.3]).double())


def test_a_texture_is_sampled_where_the_uv_says():
    """A square that fills the image of an orthographic camera shows its texture."""
    texture = torch.rand(6, 6, 3, dtype=torch.float64)
    corners = torch.tensor([[-1.0, -1, 3], [1, -1, 3], [1, 1, 3], [-1, 1, 3]], dtype=torch.float64)
    uvs = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=torch.float64)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    # Looking along +z with x to the left of the image: mirror x so that u runs to the right.
    corners[:, 0] *= -1
    mesh = Mesh(corners, faces, uvs=uvs, face_uvs=faces, texture=texture)
    camera = Camera(
        torch.diag(torch.tensor([-1.0, 1, 1])).double(),
        torch.zeros(3).double(),
        focal=1.0,
        orthographic=True,
    )
    rgb = Renderer(6, "heaviside", "max", shading="hard", lighting="none")(mesh, camera).rgb[0]
    torch.testing.assert_close(rgb.permute(1, 2, 0), texture)


def test_batches_of_meshes_with_their_own_textures():
    def textured(shade, size):
        base = cube().scaled(0.5)
        faces = base.faces
        return Mesh(
            base.vertices, faces, uvs=torch.rand(8, 2), face_uvs=faces,
            texture=torch.full((size, size + 1, 3), shade),
        )  # fmt: skip

    batch = Mesh.batch([textured(0.25, 3), textured(0.75, 5)])
    rgb = Renderer(16, "heaviside", "max", shading="hard", lighting="none")(
        batch, look_at(3, 20, 30)
    ).rgb
    assert set(rgb[0].unique().tolist()) == {0.0, 0.25}
    assert set(rgb[1].unique().tolist()) == {0.0, 0.75}


def test_lambert_by_hand():
    """A plane lit at 60 degrees: ambient + diffuse / 2."""
    light = Lighting(ambient=0.2, diffuse=0.6, direction=(math.sqrt(3), 0.0, -1.0))
    mesh = two_squares().with_vertex_colors(None)
    rgb = Renderer(4, "heaviside", "max", shading="hard", lighting=light)(mesh, ahead()).rgb
    torch.testing.assert_close(rgb, torch.full_like(rgb, 0.2 + 0.6 * 0.5))


def test_phong_by_hand():
    """Light from the eye: n = l, so r = l, and at the centre of the image r.v = 1."""
    light = Lighting(
        ambient=0.1, diffuse=0.2, specular=0.4, shininess=20, direction=(0.0, 0.0, -1.0)
    )
    mesh = two_squares().with_vertex_colors(None)
    rgb = Renderer(5, "heaviside", "max", shading="hard", lighting=light)(mesh, ahead()).rgb
    torch.testing.assert_close(rgb[0, 0, 2, 2].item(), 0.1 + 0.2 + 0.4)
    # One pixel to the right: r stays (0, 0, -1), v tilts by atan(2/5 tan 30).
    tilt = math.atan(2 / 5 * math.tan(math.radians(30)))
    torch.testing.assert_close(rgb[0, 0, 2, 3].item(), 0.3 + 0.4 * math.cos(tilt) ** 20)


def test_the_highlight_is_where_the_mirror_image_of_the_light_is():
    """Light from 30 degrees to one side is seen best 30 degrees to the other: in r, not in l."""
    side = math.tan(math.radians(30))
    mesh = two_squares().with_vertex_colors(None)
    peaks = {}
    for x in (side, -side):
        light = Lighting(0.0, 0.0, 1.0, shininess=50, direction=(x, 0.0, -1.0))
        rgb = Renderer((5, 101), "heaviside", "max", shading="hard", lighting=light)(
            mesh, ahead()
        ).rgb
        peaks[x] = int(rgb[0, 0, 2].argmax())
    # The camera's right is -x: light from +x is light from the left, its highlight on the left
    # of a plane seen from ahead is where the mirrored ray comes back to the eye.
    assert peaks[side] < 50 < peaks[-side]
    assert peaks[side] == 100 - peaks[-side]


def test_light_from_behind_does_not_shine_through():
    mesh = two_squares().with_vertex_colors(None)
    for two_sided in (True, False):
        light = Lighting(0.1, 0.7, 0.5, direction=(0.0, 0.0, 1.0), two_sided=two_sided)
        turned = mesh if two_sided else Mesh(mesh.vertices, mesh.faces.flip(1))
        rgb = Renderer(5, "heaviside", "max", shading="hard", lighting=light)(turned, ahead()).rgb
        torch.testing.assert_close(rgb, torch.full_like(rgb, 0.1))


def test_normals_point_outwards_in_the_world():
    mesh, camera = icosphere(3), look_at(3.0, 20.0, 50.0)
    for smooth, bound in ((True, 0.02), (False, 0.12)):
        out = Renderer(32, "heaviside", "max", lighting=Lighting(smooth=smooth))(mesh, camera)
        covered = out.face_id[0] >= 0
        size = (32, 32)
        from gendr.rendering.geometry import ImageSize

        pixels = covered.reshape(-1).nonzero().squeeze(-1)
        xy = ImageSize(*size).centres(pixels, torch.float32)
        points = camera.unproject(xy, out.depth[0][covered])[0]
        normals = out.normals[0][:, covered].T
        # On the unit sphere the normal is the point itself.
        assert (normals - points).norm(dim=-1).max() < bound + 0.02
        assert (out.normals[0][:, ~covered] == 0).all()


def scene(texture=False):
    generator = torch.Generator().manual_seed(1)
    mesh = icosphere(0)
    vertices = mesh.vertices.double() * 0.6 + 0.05 * torch.rand(12, 3, generator=generator).double()
    colours = torch.rand(12, 3, generator=generator).double()
    if not texture:
        return vertices, mesh.faces, colours
    return vertices, mesh.faces, torch.rand(3, 4, 3, generator=generator).double()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("lighting", ["none", "lambert", "phong"])
def test_gradients_of_colours_and_vertices(lighting, backend):
    vertices, faces, colours = scene()
    if lighting == "phong":
        lighting = Lighting(specular=0.3, shininess=3.0, smooth=True, two_sided=False)
    renderer = Renderer(
        5, "logistic", scale=0.1, cutoff=0.0, gamma=0.05, lighting=lighting, backend=backend
    )
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)

    def image(v, c):
        return renderer(Mesh(v, faces, vertex_colors=c), camera).rgb

    assert gradcheck(image, (vertices.requires_grad_(), colours.requires_grad_()), fast_mode=True)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_gradients_of_texture_uv_and_vertices(backend):
    vertices, faces, texture = scene(texture=True)
    uvs = torch.rand(12, 2, generator=torch.Generator().manual_seed(2)).double()
    renderer = Renderer(
        5, "gaussian", scale=0.1, cutoff=0.0, gamma=0.05, lighting="lambert", backend=backend
    )
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)

    def image(v, t, uv):
        return renderer(Mesh(v, faces, uvs=uv, face_uvs=faces, texture=t), camera).rgb

    inputs = tuple(x.clone().requires_grad_() for x in (vertices, texture, uvs))
    assert gradcheck(image, inputs, eps=1e-7, atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("orthographic", [False, True])
def test_gradients_of_the_camera_and_of_gamma(backend, orthographic):
    vertices, faces, colours = scene()
    mesh = Mesh(vertices, faces, vertex_colors=colours)

    def image(distance, elevation, azimuth, fov, gamma):
        camera = look_at(distance, elevation, azimuth, fov, orthographic=orthographic)
        renderer = Renderer(
            5, "logistic", scale=0.1, cutoff=0.0, gamma=gamma, lighting=Lighting(smooth=True),
            backend=backend,
        )  # fmt: skip
        out = renderer(mesh, camera)
        return out.rgb, out.alpha

    inputs = [torch.tensor(x).double().requires_grad_() for x in (2.7, 21.0, 33.0, 31.0, 0.1)]
    assert gradcheck(image, inputs, eps=1e-6, atol=1e-5)


def test_depth_and_normals_are_differentiable():
    vertices, faces, _ = scene()
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)
    renderer = Renderer(5, "heaviside", "max")

    def images(v):
        out = renderer(Mesh(v, faces), camera)
        covered = out.face_id >= 0
        return out.depth[covered], out.normals.permute(0, 2, 3, 1)[covered]

    assert gradcheck(images, (vertices.requires_grad_(),), eps=1e-7, atol=1e-5, fast_mode=True)


def test_cpu_colours_equal_the_reference():
    vertices, faces, colours = scene()
    camera = look_at(2.7, 21.0, torch.tensor([33.0, 90.0]), dtype=torch.float64)
    results = []
    for backend in ("cpu", "reference"):
        v, c = vertices.clone().requires_grad_(), colours.clone().requires_grad_()
        renderer = Renderer((14, 19), "logistic.squared", scale=1e-3, gamma=1e-2, backend=backend)
        rgb = renderer(Mesh(v, faces, vertex_colors=c), camera).rgb
        (rgb**2).sum().backward()
        results.append((rgb.detach(), v.grad, c.grad))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)


def test_vertex_colours_are_recovered_from_12_views():
    mesh, camera = icosphere(2), look_at(3.0, 20.0, torch.arange(12) * 30.0)
    generator = torch.Generator().manual_seed(3)
    truth = torch.rand(162, 3, generator=generator)
    renderer = Renderer(32, "logistic", scale="0.3px", lighting="none")
    with torch.no_grad():
        target = renderer(mesh.with_vertex_colors(truth), camera).rgb
    colours = torch.full_like(truth, 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([colours], lr=0.05)
    losses = []
    for _ in range(60):
        rgb = renderer(mesh.with_vertex_colors(colours), camera).rgb
        loss = ((rgb - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 500
    seen = mesh.vertices[:, 1].abs() < 0.8  # the poles are seen at a glance only
    assert (colours - truth)[seen].abs().mean() < 0.02


def test_only_what_is_read_is_computed(monkeypatch):
    from gendr.rendering import cpu

    def refuse(*args):
        raise AssertionError("not asked for")

    monkeypatch.setattr(cpu, "pairs", refuse)
    monkeypatch.setattr(cpu, "nearest", refuse)
    out = Renderer(8, backend="cpu")(icosphere(0).scaled(0.5), look_at(3, 0, 0))
    assert out.alpha.any()
    assert out.alpha is out.alpha
    with pytest.raises(AssertionError, match="not asked for"):
        _ = out.rgb


def test_grid_and_mesh_helpers_render_alike():
    """A flat grid is one square, however finely it is cut."""
    camera = Camera(
        torch.diag(torch.tensor([-1.0, 1, 1])),
        torch.tensor([0.0, 0, 3]),
        focal=0.7,
        orthographic=True,
    )
    images = []
    for n in (1, 4):
        mesh = grid(n, n)
        images.append(gendr.Renderer(16, "heaviside", "max")(mesh, camera).alpha)
    assert torch.equal(images[0], images[1])
