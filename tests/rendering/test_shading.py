"""Colours: the softmax over depth, textures, lights, and their gradients."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from gendr import Camera, Lighting, Mesh, Renderer, look_at
from gendr.mesh import cube, icosphere
from support import TOLERANCES, relative_l2
from support.backends import BACKENDS, centres, place
from support.cases import for_each


def two_squares(front=2.0, back=3.0):
    """Two big squares that face a camera at the origin looking along +z; red before green."""
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], dtype=torch.float64)
    layers = [corners * 4 + torch.tensor([0, 0, z]) for z in (front, back)]
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64).repeat_interleave(4, 0)
    return Mesh(torch.cat(layers), torch.cat([faces, faces + 4]), vertex_colors=colours)


def ahead():
    return Camera(torch.diag(torch.tensor([-1.0, 1, 1])), fov=60.0).to(torch.float64)


def scene():
    """Vertices, faces and colours of a bumpy ball."""
    generator, mesh = torch.Generator().manual_seed(1), icosphere(0)
    vertices = mesh.vertices.double() * 0.6 + 0.05 * torch.rand(12, 3, generator=generator).double()
    return vertices, mesh.faces, torch.rand(12, 3, generator=generator).double()


@for_each(backend=["cpu", "reference"])
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


def test_transforms_take_several_images():
    """Of which the definition computes one after the other, anew backward; not so in transforms."""
    vertices = icosphere(0).vertices.requires_grad_()
    for renderer in (Renderer(8, gamma=0.05), Renderer(8, composite="ordered")):

        def energy(x, renderer=renderer):
            camera = look_at(3.0, 20.0, torch.tensor([30.0, 90.0]))
            return renderer(icosphere(0).with_vertices(x), camera).rgb.square().sum()

        (want,) = torch.autograd.grad(energy(vertices), vertices)
        found = torch.func.grad(energy)(vertices.detach())
        torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-3)


@for_each(backend=["cpu", "reference"], gamma=[1e-3, 0.01, 0.011, 0.1])
def test_what_no_face_covers_is_the_background(backend, gamma):
    """In float32 its weight e^(-.9 / .01) is subnormal beside a face."""
    vertices = icosphere(0).vertices.requires_grad_()
    rgb = Renderer(8, gamma=gamma, background=(0.0, 0.0, 1.0), backend=backend)(
        icosphere(0).with_vertices(vertices), look_at(3.0, 20.0, 30.0)
    ).rgb
    assert torch.equal(rgb[0, :, 0, 0], torch.tensor([0.0, 0.0, 1.0]))
    (slope,) = torch.autograd.grad(rgb.square().sum(), vertices)
    assert rgb.isfinite().all()
    assert slope.isfinite().all()


@for_each(options=[{}, {"composite": "alpha"}, {"shading": "hard"}, {"composite": "ordered"}])
def test_what_lies_beside_a_photo_is_the_background(options):
    edges, camera = torch.tensor([-0.5, -0.6, 0.3, 0.4]), look_at(2.0, 20.0, [0.0, 40.0])
    renderer = Renderer(20, "logistic", scale=0.1, background=(0.1, 0.2, 0.3), **options)
    whole = renderer(icosphere(1), camera)
    seen = renderer(icosphere(1), camera.with_window(edges.expand(2, 4)))
    x = (2 * torch.arange(20) - 19) / 20
    photo = ((x > -0.4) & (x < 0.6))[:, None] & ((x > -0.5) & (x < 0.3))  # rows go down
    behind = torch.tensor([0.1, 0.2, 0.3])[:, None, None]
    torch.testing.assert_close(seen.rgb, torch.where(photo, whole.rgb, behind))
    torch.testing.assert_close(seen.alpha, whole.alpha * photo)
    assert torch.equal(seen.face_id, torch.where(photo, whole.face_id, -1))


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
    beyond = Renderer(5, near=4.0, far=5.0, background=(0.1, 0.2, 0.3))
    with pytest.warns(UserWarning, match="depths of the mesh are 2 to 3, not between 4 and 5"):
        nothing = beyond(two_squares(), ahead())
    beyond(two_squares(), ahead())  # once is enough
    behind = icosphere(0).to(torch.float64).translated(torch.tensor([0.0, 0.0, -5.0]).double())
    renderer = Renderer(8)
    with pytest.warns(UserWarning, match="behind the camera"):
        assert not renderer(behind, ahead()).alpha.any()
    assert not renderer(behind, ahead()).alpha.any()
    assert torch.isinf(nothing.depth).all()
    assert (nothing.normals == 0).all()
    assert not nothing.alpha.any()
    torch.testing.assert_close(nothing.rgb[0, :, 2, 2], torch.tensor([0.1, 0.2, 0.3]).double())


@for_each(factor=[1e-3, 1.0, 1e3])
def test_near_and_far_are_found_from_the_scene(factor):
    """A scene of any size is seen; one between the planes at 1 and 100 looks as with these."""
    mesh, camera = icosphere(2), look_at(2.7 * factor, 20.0, 30.0)
    out = Renderer(24, "heaviside", "max")(mesh.scaled(factor), camera)
    want = Renderer(24, "heaviside", "max", near=1.0, far=100.0)(mesh, look_at(2.7, 20.0, 30.0))
    assert want.alpha.mean() > 0.5
    assert (out.alpha != want.alpha).sum() <= 2
    if factor == 1:
        assert torch.equal(out.rgb, want.rgb)


def test_a_scene_around_the_camera_is_cut_close_to_it():
    """Walls nearer than 1 are seen; what is behind the camera is cut off, and nothing overflows."""
    room = cube().scaled(0.8)
    out = Renderer(16, "heaviside", "max")(room, look_at(0.01, 0.0, 0.0, fov=90.0))
    assert out.alpha.all()
    assert 0.5 < out.depth.min() < out.depth.max() < 1.0


@for_each(backend=BACKENDS)
def test_faces_at_the_nearest_depth_are_seen(backend, recwarn):
    """The near plane is found there; a face that touches it from behind is not seen."""
    device = place(backend)[0]

    def drawn(mesh, camera, size=4, **options):
        renderer = Renderer(size, "heaviside", "max", backend=backend, **options)
        return renderer(mesh.to(device), camera.to(device))

    camera = Camera(torch.diag(torch.tensor([-1.0, 1.0, 1.0])), fov=60.0)
    square = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    mesh = Mesh(square + torch.tensor([0, 0, 0.99]), faces)
    for near in (None, float(torch.tensor(0.99))):
        depth = drawn(mesh, camera, near=near).depth.cpu()
        torch.testing.assert_close(depth, torch.full((1, 4, 4), 0.99))
    box = drawn(cube().scaled(0.1), look_at(0.6, 0.0, 0.0), 9)
    assert box.depth[0, 4, 4].item() == pytest.approx(0.5, abs=1e-6)
    assert not recwarn
    ball, view = icosphere(2), look_at(3.0, 20.0, 30.0)
    columns = Mesh(ball.vertices, ball.faces.T.contiguous().T)  # as tensors of others may lie
    assert torch.equal(drawn(columns, view, 24).depth, drawn(ball, view, 24).depth)
    touching = Mesh(square + torch.tensor([[0, 0, 1.0], *[[0, 0, 0.5]] * 3]), faces)
    assert not drawn(touching, camera, near=1.0).alpha.any()


@for_each(composite=["depth", "alpha"])
def test_faces_of_one_colour_look_as_if_it_were_interpolated(composite):
    ball, camera = icosphere(2), look_at(3.0, 20.0, torch.tensor([0.0, 100.0]))
    paint = torch.rand(len(ball.faces), 3, generator=torch.Generator().manual_seed(0))
    found = []
    for corners in (None, torch.ones_like(ball.vertices)):
        colours = paint.clone().requires_grad_()
        mesh = ball.with_face_colors(colours).with_vertex_colors(corners)
        renderer = Renderer(
            24, scale=0.02, shading="hard", composite=composite, background=(0.2, 0.4, 0.9)
        )
        rgb = renderer(mesh, camera).rgb
        upstream = torch.rand(rgb.shape, generator=torch.Generator().manual_seed(1))
        found.append((rgb.detach(), *torch.autograd.grad(rgb, colours, upstream)))
    (one, one_grad), (other, other_grad) = found
    assert torch.equal(one, other)
    assert torch.allclose(one_grad, other_grad, atol=1e-5)
    assert len(one.unique()) > 100


@for_each(backend=BACKENDS, face=[[0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 2, 1]])
def test_a_face_without_area_has_the_mean_of_its_colours(backend, face):
    """Whatever rounding makes of its area: two corners coincide, or one lies between the others."""
    generator = torch.Generator().manual_seed(3)
    device, _ = place(backend)
    ends = torch.rand(4 if backend == "triton" else 20, 2, 3, generator=generator) - 0.5
    vertices = torch.cat((ends, ends.mean(1, keepdim=True)), 1)
    colours = torch.eye(3, device=device)
    camera = look_at(2.7, 30.0, 20.0)
    camera = Camera(camera.rotation, camera.translation, focal=1.0, orthographic=True).to(device)
    for composite in ("depth", "alpha"):
        renderer = Renderer(
            8, "logistic", scale=0.1, composite=composite, lighting="none", backend=backend
        )
        mesh = Mesh(
            vertices.to(device),
            torch.tensor([face], device=device),
            vertex_colors=colours.expand(len(vertices), 3, 3),
        )
        out = renderer(mesh, camera)
        part = out.alpha if composite == "alpha" else out.rgb.sum(1)
        want = colours[face].mean(0)[:, None, None] * part[:, None]
        torch.testing.assert_close(out.rgb, want, rtol=0, atol=1e-5)


@for_each(backend=BACKENDS, composite=["depth", "alpha"])
def test_a_face_on_one_line_that_the_near_plane_cuts(backend, composite):
    """It has the mean of its colours, and covers what the definition says in float64.

    Rounding may turn what is left of it inside out, and lost half of it.
    """
    generator = torch.Generator().manual_seed(1)
    ends = torch.rand(40 if backend == "cpu" else 4, 2, 3, generator=generator) - 0.5
    ends = ends * torch.tensor([[1, 1, 0.6], [2, 2, 3]])
    ends = ends + torch.tensor([[0, 0, 0.6], [0, 0, 3.5]])
    lines = torch.cat((ends[:, :1], ends.mean(1, keepdim=True), ends[:, 1:]), 1)
    lines = torch.cat((lines, lines[..., [1, 0, 2]] * torch.tensor([1.0, -1, 1])))
    colours, face = torch.eye(3), torch.arange(3)[None]
    meshes = Mesh.batch([Mesh(line, face, vertex_colors=colours) for line in lines])
    device = place(backend)[0]

    def drawn(name, device, dtype):
        renderer = Renderer(
            16, "logistic", scale=0.03, near=1.0, far=10.0, lighting="none", composite=composite,
            backend=name,
        )  # fmt: skip
        return renderer(meshes.to(device, dtype), ahead().to(device, dtype))

    out, want = drawn(backend, device, torch.float32), drawn("reference", "cpu", torch.float64)
    assert (want.alpha.amax((1, 2)) > 0.1).all()
    torch.testing.assert_close(out.alpha.cpu().double(), want.alpha, rtol=0, atol=1e-5)
    torch.testing.assert_close(out.rgb.cpu().double(), want.rgb, rtol=0, atol=1e-5)
    torch.testing.assert_close(want.rgb, want.rgb.mean(1, keepdim=True).expand_as(want.rgb))


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


def lit(light, size=5, turned=False):
    """The red of a grey plane ahead under a light; the camera's right is -x."""
    mesh = two_squares().with_vertex_colors(None)
    mesh = Mesh(mesh.vertices, mesh.faces.flip(1)) if turned else mesh
    renderer = Renderer(size, "heaviside", "max", shading="hard", lighting=light)
    return renderer(mesh, ahead()).rgb[0, 0]


def test_a_light_for_all_images_is_that_of_each():
    """Which lights both sides of the faces before cameras see them; from behind, too."""
    cameras = look_at(3.0, 20.0, torch.tensor([0.0, 180.0])).to(torch.float64)
    direction = torch.tensor([0.3, 0.8, -0.5])
    for two_sided in (True, False):
        found = []
        for directions in (direction, direction.expand(2, 3)):
            mesh = two_squares()
            vertices = mesh.vertices.clone().requires_grad_()
            light = Lighting(0.1, 0.7, direction=directions, two_sided=two_sided)
            rgb = Renderer(16, lighting=light)(mesh.with_vertices(vertices), cameras).rgb
            found.append((rgb, *torch.autograd.grad((rgb * rgb).sum(), vertices)))
        for one, each in zip(*found, strict=True):
            torch.testing.assert_close(one, each)


def test_lambert_and_phong_by_hand():
    # A plane lit at 60 degrees: ambient + diffuse / 2.
    # However short the direction is.
    red = lit(Lighting(ambient=0.2, diffuse=0.6, direction=(1e-25 * math.sqrt(3), 0.0, -1e-25)))
    torch.testing.assert_close(red, torch.full_like(red, 0.2 + 0.6 * 0.5))
    # Light from behind does not shine through.
    for two_sided in (True, False):
        light = Lighting(0.1, 0.7, 0.5, direction=(0.0, 0.0, 1.0), two_sided=two_sided)
        red = lit(light, turned=not two_sided)
        torch.testing.assert_close(red, torch.full_like(red, 0.1))
    # Light from the eye: n = l, so r = l, and at the centre of the image r.v = 1; one pixel to the
    # right r stays (0, 0, -1), and v tilts by atan(2/5 tan 30).
    red = lit(Lighting(0.1, 0.2, specular=0.4, shininess=20, direction=(0.0, 0.0, -1.0)))
    tilt = math.atan(2 / 5 * math.tan(math.radians(30)))
    torch.testing.assert_close(red[2, 2].item(), 0.1 + 0.2 + 0.4)
    torch.testing.assert_close(red[2, 3].item(), 0.3 + 0.4 * math.cos(tilt) ** 20)
    # Light from 30 degrees to one side is seen best 30 degrees to the other: in r, not in l.
    side = math.tan(math.radians(30))
    left, right = (
        int(lit(Lighting(0.0, 0.0, 1.0, 50, (x, 0.0, -1.0)), (5, 101))[2].argmax())
        for x in (side, -side)
    )
    assert left < 50 < right
    assert left == 100 - right
    # What turns away from the light has no highlight, though its mirror image is seen in it.
    side, eye = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.1, 0.0, -1.0]])
    behind = Lighting(0.0, 0.0, 1.0, 4.0, direction=-eye[0])
    assert behind.shade(torch.ones(1, 3), side, eye, torch.zeros(1).long()).sum() == 0


def test_a_headlight_moves_with_the_camera():
    """Seen from anywhere, a sphere is brightest in its middle; gradients flow to the camera."""
    camera = look_at(5.0, torch.tensor([0.0, 40.0, -70.0]), torch.tensor([0.0, 120.0, 250.0]))
    rgb = Renderer(33, "heaviside", "max", shading="hard", lighting="headlight")(
        icosphere(3), camera
    ).rgb
    torch.testing.assert_close(rgb[:, 0, 16, 16], torch.ones(3), rtol=0, atol=0.02)
    assert (rgb[:, 0, 16, 6] < 0.9).all()
    direction = torch.tensor([0.3, 0.2, -1.0])
    axes = torch.stack([camera.right, camera.up, camera.ahead])
    in_world = Lighting(direction=direction, frame="camera").seen_by(camera).direction
    torch.testing.assert_close(in_world, (direction[:, None, None] * axes).sum(0))

    def image(elevation, direction):
        light = Lighting(0.1, 0.5, 0.3, 4.0, direction, frame="camera")
        camera = look_at(2.7, elevation, 33.0)
        renderer = Renderer(5, "logistic", scale=0.1, lighting=light, cutoff=0.0)
        return renderer(Mesh(*scene()[:2]), camera).rgb

    inputs = torch.tensor([21.0, 70.0]).double(), torch.tensor([0.3, 0.2, -1.0]).double()
    assert gradcheck(image, tuple(x.requires_grad_() for x in inputs), atol=1e-5)


def test_normals_point_outwards_in_the_world():
    mesh, camera = icosphere(3), look_at(3.0, 20.0, 50.0)
    for smooth, bound in ((True, 0.02), (False, 0.12)):
        out = Renderer(32, "heaviside", "max", lighting=Lighting(smooth=smooth))(mesh, camera)
        covered = out.face_id[0] >= 0
        xy = centres((32, 32))[covered.reshape(-1)].float()
        x, y = (xy / camera.focal).T[..., None]
        ray = camera.ahead + x * camera.right + y * camera.up
        points = camera.eye + out.depth[0][covered][:, None] * ray
        normals = out.normals[0][:, covered].T
        # On the unit sphere the normal is the point itself.
        assert (normals - points).norm(dim=-1).max() < bound + 0.02
        assert (out.normals[0][:, ~covered] == 0).all()


@for_each(shading=["hard", "softmax"], inside_out=[False, True])
def test_smooth_light_does_not_flip_at_contours(shading, inside_out):
    """Near a contour an interpolated normal points away from the eye; the face is still in front.

    Light from behind the object reaches just those: turned by their own sign they would be dark.
    """
    mesh = icosphere(0)
    if inside_out:
        mesh = Mesh(mesh.vertices, mesh.faces.flip(1))
    camera = look_at(3.0, 50.0, 75.0, orthographic=True)
    light = Lighting(0.0, 1.0, direction=camera.ahead[0], smooth=True)
    out = Renderer(96, "uniform", scale=1e-6, shading=shading, lighting=light)(mesh, camera)
    normals = out.normals[0].permute(1, 2, 0)
    facing = (normals * camera.ahead[0]).sum(-1) * (-1 if inside_out else 1)
    covered = out.face_id[0] >= 0
    assert (facing[covered] > 0.05).sum() > 10  # there are such normals
    want = facing.clamp(min=0)[covered]
    got = out.rgb[0, 0][covered]
    assert (got - want).abs().max() < (1e-6 if shading == "hard" else 0.2)
    assert ((got - want).abs() > 0.02).float().mean() < 0.03


# Those of the other backends are compared with these below.


@for_each(lighting=["none", "lambert", Lighting(0.5, 0.3, 0.3, 3.0, smooth=True, two_sided=False)])
def test_gradients_of_vertices_colours_textures_and_uvs(lighting):
    vertices, faces, colours = scene()
    generator = torch.Generator().manual_seed(2)
    uvs = torch.rand(12, 2, generator=generator).double()
    texture = torch.rand(3, 4, 3, generator=generator).double()
    renderer = Renderer(
        5, "logistic", scale=0.1, cutoff=0.0, gamma=0.05, lighting=lighting, backend="reference"
    )
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)

    def image(v, c, t, uv):
        mesh = Mesh(v, faces, vertex_colors=c, uvs=uv, face_uvs=faces, texture=t)
        return renderer(mesh, camera).rgb

    inputs = tuple(x.requires_grad_() for x in (vertices, colours, texture, uvs))
    assert gradcheck(image, inputs, eps=1e-7, atol=1e-4, fast_mode=True)


@for_each(orthographic=[False, True])
def test_gradients_of_the_camera_and_of_gamma(orthographic):
    vertices, faces, colours = scene()
    mesh = Mesh(vertices, faces, vertex_colors=colours)

    def image(distance, elevation, azimuth, fov, gamma):
        camera = look_at(distance, elevation, azimuth, fov, orthographic=orthographic)
        renderer = Renderer(
            5, "logistic", scale=0.1, cutoff=0.0, gamma=gamma, lighting=Lighting(smooth=True),
            backend="reference",
        )  # fmt: skip
        out = renderer(mesh, camera)
        return out.rgb, out.alpha

    inputs = [torch.tensor(x).double().requires_grad_() for x in (2.7, 21.0, 33.0, 31.0, 0.1)]
    assert gradcheck(image, inputs, eps=1e-6, atol=1e-5, fast_mode=True)


def test_gradients_of_depth_and_normals():
    vertices, faces, _ = scene()
    camera, renderer = look_at(2.7, 21.0, 33.0).to(torch.float64), Renderer(5, "heaviside", "max")

    def images(v):
        out = renderer(Mesh(v, faces), camera)
        covered = out.face_id >= 0
        return out.depth[covered], out.normals.permute(0, 2, 3, 1)[covered]

    assert gradcheck(images, (vertices.requires_grad_(),), eps=1e-7, atol=1e-5, fast_mode=True)


def wide_scene():
    """Large faces and small ones, so that blocks of pixels hold parts of faces and many faces."""
    generator = torch.Generator().manual_seed(4)
    mesh = icosphere(1).scaled(0.7).to(torch.float64)
    sheet = Mesh(
        torch.tensor([[-1.2, -1, 0.2], [1.1, -0.9, -0.3], [0, 1.3, 0.4]], dtype=torch.float64),
        torch.tensor([[0, 1, 2]]),
    )
    vertices = torch.cat([mesh.vertices, sheet.vertices])
    faces = torch.cat([mesh.faces, sheet.faces + len(mesh.vertices)])
    count = len(vertices)

    def random(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    return {
        "vertices": vertices,
        "faces": faces,
        "vertex_colors": random(count, 3),
        "face_colors": random(len(faces), 3),
        "texture": random(7, 5, 3),
        "uvs": 3 * random(count, 2) - 1,  # beyond the ends, where the texture repeats
        "direction": random(2, 3) - 0.5,
        "distance": torch.tensor(2.7, dtype=torch.float64),
        "background": torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64),
    }


LIGHTS = {
    "none": None,
    "lambert": {},
    "smooth": {"smooth": True},
    "phong": {"smooth": True, "specular": 0.4, "shininess": 5.0},
    "flat and glossy": {"specular": 0.4, "shininess": 5.0, "two_sided": False},
}
SURFACES = ("vertex_colors", "face_colors", "texture")


def painted(
    backend, surface=SURFACES[:2], light="lambert", dist="logistic", count=81, orthographic=False,
    eps=1e-3,
):  # fmt: skip
    """Two images of the last `count` faces, and the gradients of all that they depend on."""
    device, dtype = place(backend)
    leaf = wide_scene()
    leaf["faces"], leaf["face_colors"] = (leaf[k][81 - count :] for k in ("faces", "face_colors"))
    faces = leaf.pop("faces").to(device)
    leaf = {k: v.to(device, dtype).requires_grad_() for k, v in leaf.items()}
    camera = look_at(
        leaf["distance"], 21.0, leaf["distance"].new_tensor([33.0, 140.0]),
        orthographic=orthographic,
    )  # fmt: skip
    parts = {name: leaf[name] for name in surface}
    if "texture" in surface:
        parts |= {"uvs": leaf["uvs"], "face_uvs": faces}
    lighting = LIGHTS[light]
    if lighting is not None:
        lighting = Lighting(direction=leaf["direction"], **lighting)
    renderer = Renderer(
        (13, 15), dist, scale=0.08, gamma=0.05, eps=eps, backend=backend, lighting=lighting,
        cutoff=1e-4, learnable=("scale", "gamma", *["shape"] * ("gamma" in dist)),
    ).to(device, dtype)  # fmt: skip
    renderer.background = leaf["background"]
    rgb = renderer(Mesh(leaf["vertices"], faces, **parts), camera).rgb
    weights = torch.linspace(-1, 1, rgb.numel(), dtype=dtype, device=device).reshape(rgb.shape)
    (rgb * weights).sum().backward()
    leaf |= renderer.named_parameters()
    grads = {name: x.grad.cpu() for name, x in leaf.items() if x.grad is not None}
    return rgb.detach().cpu(), grads


@for_each(rotating=10, surface=[(), SURFACES[:2], SURFACES[2:], SURFACES], light=LIGHTS)
def test_fused_colours_equal_the_reference_in_all_gradients(light, surface):
    """Everything that a colour depends on, with more fragments than fit a block."""
    case = {"surface": surface, "light": light, "orthographic": light == "smooth"}
    got, want = painted("cpu", **case), painted("reference", **case)
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-9)


@pytest.mark.skipif("triton" not in BACKENDS, reason="needs a GPU or the interpreter")
@for_each(
    "small, case",
    [
        *((False, {"dist": dist}) for dist in (
            "logistic", "uniform", "gamma(shape=0.5).reversed", "cauchy.squared",
            "gumbel_max.centred",
        )),
        (False, {"orthographic": True}),
        (False, {"light": "none"}),
        (False, {"eps": 0.99}),  # a background in front
        (False, {"count": 0}),
        (True, {"dist": "uniform"}),  # many tiles, lists and shares
    ],
    rotating=8,
)  # fmt: skip
def test_fused_colours_of_triton_equal_the_reference(small, case, monkeypatch):
    case, tolerance = {"count": 7} | case, TOLERANCES[torch.float32]
    if small:
        from support.triton import small_tiles

        small_tiles(monkeypatch, block_faces=2, block_pixels=64)
    (got, grads), (want, want_grads) = (painted(name, **case) for name in ("triton", "reference"))
    assert (got - want).abs().max() <= tolerance.alpha
    assert grads.keys() == want_grads.keys()
    for name, grad in want_grads.items():
        if grad.norm() > 1e-20:  # below, float32 has subnormal numbers only
            assert relative_l2(grads[name], grad) <= tolerance.gradient, name


@pytest.mark.every
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


# -- over alpha -----------------------------------------------------------------------------------


@for_each(backend=["cpu", "reference"], shading=["softmax", "hard"])
def test_over_alpha_soft_edges_fade_into_the_background(shading, backend):
    """One face of one colour: colour * alpha + background * (1 - alpha), however soft."""
    vertices, faces, _ = scene()
    mesh = Mesh(vertices, faces[:1], face_colors=torch.tensor([[0.9, 0.5, 0.1]]).double())
    background = torch.tensor([0.2, 0.3, 1.0]).double()
    renderer = Renderer(
        16, "logistic", scale=0.1, shading=shading, composite="alpha", lighting="none",
        background=background.tolist(), backend=backend,
    )  # fmt: skip
    out = renderer(mesh, look_at(2.7, 21.0, 33.0, dtype=torch.float64))
    alpha = out.alpha[:, None]
    assert alpha.min() < 0.01 < 0.5 < alpha.max() < 1
    want = mesh.face_colors[0][:, None, None] * alpha + background[:, None, None] * (1 - alpha)
    torch.testing.assert_close(out.rgb, want)


def test_over_alpha_opaque_pixels_show_what_the_papers_show():
    """Where alpha is 1 and the background of the softmax far behind, nothing changes."""
    vertices, faces, colours = scene()
    mesh = Mesh(vertices, faces, vertex_colors=colours)
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)
    images = [
        Renderer(32, "uniform", scale=1e-2, composite=c, background=(1, 0, 1))(mesh, camera)
        for c in ("depth", "alpha")
    ]
    opaque = (images[0].alpha == 1)[:, None].expand(-1, 3, -1, -1)
    assert opaque.float().mean() > 0.1
    torch.testing.assert_close(images[1].rgb[opaque], images[0].rgb[opaque], rtol=0, atol=1e-4)


def test_over_alpha_a_fringe_takes_the_colour_of_the_face_next_to_it():
    """Hard shading: beyond the left edge of two squares side by side the left colour goes on."""
    corners = torch.tensor([[-1.0, -1, 2], [0, -1, 2], [0, 1, 2], [-1, 1, 2]]).double()
    right = corners + torch.tensor([1.0, 0, 0])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0]]).double().repeat_interleave(2, 0)
    mesh = Mesh(torch.cat([corners, right]), torch.cat([faces, faces + 4]), face_colors=colours)
    renderer = Renderer(
        (9, 33), "logistic", scale=0.2, shading="hard", composite="alpha", lighting="none"
    )
    images = []
    for backend in ("cpu", "reference"):
        renderer.backend = backend
        out = renderer(mesh, ahead())
        assert (out.alpha > 0).all()
        assert (out.face_id < 0).any()
        pure = out.rgb / out.alpha[:, None]
        # The camera's right is -x: red, at x < 0, is on the right.
        assert (pure[0, :, 4, 0] - torch.tensor([0.0, 1, 0])).abs().max() < 1e-12
        assert (pure[0, :, 4, -1] - torch.tensor([1.0, 0, 0])).abs().max() < 1e-12
        images.append(out.rgb)
    torch.testing.assert_close(images[0], images[1])
    # Of two faces that meet at a contour it is the one that is seen.
    ball, camera = icosphere(1).to(torch.float64), look_at(3.0, 20.0, 10.0, orthographic=True)
    a, b, c = ball.vertices[ball.faces].unbind(1)
    seen = (torch.linalg.cross(b - a, c - a) @ camera.ahead[0].double() < 0).double()
    ball = Mesh(ball.vertices, ball.faces, face_colors=torch.stack([seen, 1 - seen, 0 * seen], 1))
    out = renderer(ball, camera.to(torch.float64))
    assert ((out.face_id < 0) & (out.alpha > 0.1)).any()
    assert not out.rgb[:, 1].any()


@for_each(backend=["cpu", "reference"])
def test_over_alpha_where_no_face_reaches_an_uncovered_pixel(backend):
    """No fringe, no face at all, or an image full of faces."""
    none = Mesh(torch.zeros(3, 3), torch.empty(0, 3, dtype=torch.int64))
    scenes = [(icosphere(1), 6.0, 16), (none, 3.0, 4), (cube(), 2.2, 8)]
    for mesh, distance, size in scenes:
        vertices = mesh.vertices.clone().requires_grad_()
        renderer = Renderer(
            size, shading="hard", composite="alpha", backend=backend, background=(0.1, 0.2, 0.3)
        )
        out = renderer(mesh.with_vertices(vertices), look_at(distance, 30.0, 20.0))
        empty = (out.alpha == 0).unsqueeze(1)
        backdrop = torch.tensor([0.1, 0.2, 0.3])[:, None, None].expand_as(out.rgb)
        torch.testing.assert_close(torch.where(empty, out.rgb, backdrop), backdrop)
        (grad,) = torch.autograd.grad(out.rgb.sum(), vertices)
        assert grad.isfinite().all()


@for_each(shading=["softmax", "hard"])
def test_over_alpha_gradients_are_complete(shading):
    """To vertices also through alpha, to scale, to colours."""
    vertices, faces, colours = scene()
    camera = look_at(2.7, 21.0, 33.0, dtype=torch.float64)
    renderer = Renderer(
        5, "logistic", cutoff=0.0, gamma=0.05, shading=shading, composite="alpha",
        background=(0.3, 0.1, 0.2), backend="cpu",
    )  # fmt: skip

    def image(v, c, scale):
        return renderer(Mesh(v, faces, vertex_colors=c), camera, scale=scale).rgb

    inputs = (vertices, colours, torch.tensor(0.1).double())
    assert gradcheck(image, tuple(x.requires_grad_() for x in inputs), fast_mode=True)


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@for_each(composite=["depth", "alpha"], shading=["softmax", "hard"], rotating=2)
def test_parts_are_the_same_in_whatever_order_and_mode_they_are_read(shading, composite):
    parts = ("alpha", "rgb", "depth", "normals")
    renderer = Renderer(
        7, "logistic", scale=0.05, shading=shading, composite=composite, learnable="scale",
        background=(0.2, 0.4, 0.6),
    )  # fmt: skip
    mesh, camera = icosphere(0), look_at(2.7, 20.0, 30.0)
    leaves = [mesh.vertices.clone().requires_grad_(), torch.rand(12, 3).requires_grad_()]
    scene = mesh.with_vertices(leaves[0]).with_vertex_colors(leaves[1])
    leaves += renderer.parameters()
    weights = torch.rand(8, 7, 7)

    def read(out):
        return {name: getattr(out, name) for name in parts}

    def gradients(images):
        sums = [torch.where(x.isfinite(), x, 0.0).reshape(-1, 7, 7) for x in images.values()]
        return torch.autograd.grad((torch.cat(sums) * weights).sum(), leaves, retain_graph=True)

    images = read(renderer(scene, camera))
    want = gradients(images)
    for k in range(len(parts)):
        order = parts[k:] + parts[:k]
        for name, mode in MODES.items():
            out = renderer(scene, camera)
            with mode():
                first = getattr(out, order[0])
                assert first.requires_grad == (name == "autocast")
            for part in order[1:]:
                getattr(out, part)
            got = read(out)
            for part in parts:
                assert got[part].dtype == torch.float32
                assert torch.equal(got[part], images[part]), (order, name, part)
            for a, b in zip(gradients(got), want, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=f"{order} {name}")
            with mode():  # and what has a graph shows none there
                assert getattr(out, order[0]).requires_grad == (name == "autocast")
    for name in ("no_grad", "inference_mode"):
        with MODES[name]():
            out = renderer(scene, camera)
            _ = out.depth
        for part, image in read(out).items():  # the mode of the call holds later, too
            assert not image.requires_grad, (name, part)
            (leaves[1].sum() * torch.where(image.isfinite(), image, 0.0)).sum().backward()
