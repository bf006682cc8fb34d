"""`Renderer(composite="ordered")`: scenes by kernels, by lists of pairs, and by the definition."""

import pytest
import torch
from torch.autograd import gradcheck

from gendr import Lighting, Mesh, Renderer, look_at
from gendr.mesh import icosphere
from gendr.rendering.ordered import ordered
from support.backends import BACKENDS, place
from support.cases import for_each

SIZE = (9, 14)
DOUBLE = {"dtype": torch.float64}


def leaves(seed=0):
    """A bumpy ball and a sheet through it, with all that faces may have."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, **DOUBLE)

    ball = icosphere(0).scaled(0.7)
    vertices = torch.cat([ball.vertices.double() + 0.1 * uniform(12, 3), 2 * uniform(3, 3) - 1])
    faces = torch.cat([ball.faces, torch.tensor([[12, 13, 14]])])
    found = {
        "vertices": vertices,
        "vertex_colors": uniform(15, 3),
        "face_colors": uniform(21, 3),
        "face_opacity": 0.2 + 0.7 * uniform(21),
        "face_scale": 0.02 + 0.1 * uniform(21),
        "face_shape": 1 + uniform(21),
        "texture": uniform(3, 4, 3),
        "direction": uniform(3) - 0.5,
        "distance": torch.tensor(2.7, **DOUBLE),
    }
    return {name: x.requires_grad_() for name, x in found.items()}, faces


def drawn(backend, names, given=None, orthographic=False, light=None, **options):
    """Image and alpha of two views, of a mesh with these attributes."""
    tensors, faces = leaves()
    tensors = given or tensors
    parts = {name: tensors[name] for name in names}
    if "texture" in parts:
        parts |= {"uvs": tensors["vertex_colors"].detach()[:, :2] * 2, "face_uvs": faces}
    mesh = Mesh(tensors["vertices"], faces, **parts)
    turns = torch.tensor([33.0, 140.0], **DOUBLE)
    camera = look_at(tensors["distance"], 21.0, turns, orthographic=orthographic)
    if light is not None:
        light = Lighting(direction=tensors["direction"], **light)
    options = {"dist": "gamma(shape=2)", "tconorm": "probabilistic", "bound": 0.0, **options}
    renderer = Renderer(
        SIZE, composite="ordered", backend=backend, lighting=light or "none",
        background=(0.1, 0.2, 0.3), **options,
    )  # fmt: skip
    out = renderer(mesh, camera)
    return out.rgb, out.alpha


def found(backend, names, **options):
    """The images, and the gradients of everything."""
    tensors, _ = leaves()
    images = drawn(backend, names, tensors, **options)
    loss = sum(
        (x * torch.linspace(-1, 1, x.numel(), **DOUBLE).reshape(x.shape)).sum() for x in images
    )
    return [x.detach() for x in images], torch.autograd.grad(
        loss, list(tensors.values()), materialize_grads=True
    )


def assert_same(got, want):
    for x, y in zip(got[0], want[0], strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-10)
    for x, y in zip(got[1], want[1], strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-9)


OWN = ("face_opacity", "face_scale", "face_shape")
LOOKS = {
    "white": ((), None),
    "flat": (("face_colors", *OWN), {"specular": 0.0}),
    "vertex colours": (("vertex_colors", "face_colors", *OWN), None),
    "texture": (("texture", *OWN), None),
    "smooth and glossy": (("face_colors", *OWN), {"smooth": True, "specular": 0.4}),
}


@for_each(
    look=LOOKS,
    tconorm=["probabilistic", "max", "average", "yager(p=2)"],
    sort=["pixel", "centroid"],
    orthographic=[False, True],
    rotating=16,
)
def test_images_and_all_gradients_are_those_of_the_reference(look, tconorm, sort, orthographic):
    names, light = LOOKS[look]
    options = {"light": light, "tconorm": tconorm, "sort": sort, "orthographic": orthographic}
    want = found("reference", names, **options)
    assert sum(bool(g.any()) for g in want[1]) >= len(names) + 2 * ("face_scale" in names)
    assert_same(found("cpu", names, **options), want)


@pytest.mark.rotating(4, group="long")
@for_each(
    tconorm=["probabilistic", "max", "average", "hamacher(p=0.5)"], backend=["cpu", "reference"]
)
def test_lists_of_pairs_give_what_the_kernel_gives(tconorm, backend, monkeypatch):
    """Vertex colours of white change nothing but the way; so do runs of few pairs."""
    white = torch.ones(15, 3, **DOUBLE)
    tensors, _ = leaves()
    names = ("face_colors", *OWN)
    want = drawn(backend, names, tensors, tconorm=tconorm)
    for limit in (1_000_000, 2_000):
        monkeypatch.setattr("gendr.rendering.ordered_output.PAIRS_AT_ONCE", limit)
        got = drawn(backend, ("vertex_colors", *names), {**tensors, "vertex_colors": white},
                    tconorm=tconorm)  # fmt: skip
        results = []
        for images in (got, want):
            loss = images[0].square().sum() + images[1].sum()
            wanted = [tensors[name] for name in ("vertices", *names)]
            results.append(([x.detach() for x in images],
                            torch.autograd.grad(loss, wanted, retain_graph=True)))  # fmt: skip
        assert_same(*results)


@for_each(sort=["pixel", "centroid"])
def test_it_is_the_function_on_the_projected_faces(sort):
    tensors, faces = leaves()
    mesh = Mesh(tensors["vertices"], faces, face_colors=tensors["face_colors"])
    camera = look_at(2.7, 21.0, 33.0, **DOUBLE)
    options = {"scale": 0.07, "bound": 0.0, "sort": sort}
    out = Renderer(SIZE, "logistic", composite="ordered", lighting="none", opacity=0.4, **options)(
        mesh, camera
    )
    clip, depth = camera.clip_coordinates(mesh.vertices[None])
    screen = torch.cat([clip[0, :, :2] / clip[0, :, 2:], depth[0, :, None]], -1)[faces]
    opacity = torch.full((21,), 0.4, **DOUBLE)
    image, alpha = ordered(
        screen, tensors["face_colors"], SIZE, "logistic", opacity=opacity, **options
    )
    torch.testing.assert_close(out.alpha[0], alpha, rtol=0, atol=1e-12)
    torch.testing.assert_close(out.rgb[0], image, rtol=0, atol=1e-12)


@for_each(
    orthographic=[False, True], sort=["pixel", "centroid"], backend=["cpu", "reference"],
    behind=[True, False],
)  # fmt: skip
def test_the_nearer_face_hides_the_farther_one(orthographic, sort, backend, behind):
    """Whichever comes first in the mesh."""
    first = torch.tensor([[-9.0, -9, 0], [9, -9, 0], [0, 18, 0]])
    second = first + torch.tensor([0, 0, 0.5 if behind else -0.5])
    colors, faces = torch.eye(3)[:2], torch.arange(6).reshape(2, 3)
    mesh = Mesh(torch.cat([first, second]), faces, face_colors=colors)
    renderer = Renderer(4, composite="ordered", sort=sort, backend=backend, lighting="none")
    rgb = renderer(mesh, look_at(3.0, 0.0, 0.0, orthographic=orthographic)).rgb[0]
    torch.testing.assert_close(rgb, colors[int(not behind)][:, None, None].expand(3, 4, 4))


def test_the_values_of_a_mesh_come_before_those_of_the_renderer():
    ones = torch.ones(21, **DOUBLE)
    given, _ = leaves()
    given |= {"face_opacity": 0.3 * ones, "face_scale": 0.05 * ones, "face_shape": 1.5 * ones}
    want = drawn("cpu", OWN, given)
    once = {"dist": "gamma(shape=1.5)", "scale": 0.05, "opacity": 0.3}
    for names, options in (
        ((), once),
        (OWN[:1], {**once, "opacity": 1.0}),
        (OWN[1:2], {**once, "scale": 1.0}),
        (OWN[2:], {**once, "dist": "gamma(shape=9)"}),
        ((), {**once, "opacity": torch.tensor(0.3, **DOUBLE)}),
        ((), {**once, "scale": torch.tensor([0.05, 0.05], **DOUBLE)}),
    ):
        for x, y in zip(drawn("cpu", names, given, **options), want, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


def test_everything_of_the_renderer_that_is_learnt_has_its_gradient():
    scale, shape, opacity, p = (torch.tensor(x, **DOUBLE) for x in (0.1, 2.0, 0.6, 1.5))

    def images(scale, shape, opacity, p):
        from gendr.distributions import get
        from gendr.tnorms import tconorm

        dist, family = get("gamma(shape=2)").with_shape(shape), tconorm("yager(p=2)").with_p(p)
        return drawn(
            "cpu", ("face_colors",), dist=dist, tconorm=family, scale=scale, opacity=opacity
        )

    inputs = tuple(x.requires_grad_() for x in (scale, shape, opacity, p))
    assert gradcheck(images, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)
    renderer = Renderer(8, "gamma(shape=2)", "yager(p=2)", composite="ordered",
                        learnable=("scale", "shape", "p"))  # fmt: skip
    renderer(icosphere(0), look_at(2.7, 0.0, 0.0)).rgb.sum().backward()
    assert all(x.grad.abs() > 0 for x in renderer.parameters())


@pytest.mark.rotating(4, group="long")
@for_each(backend=BACKENDS, rotating=3)
def test_the_eye_among_the_faces(backend):
    """Faces that the near plane cuts have four corners; on all backends, chunk by chunk."""
    device, dtype = place(backend)
    mesh = icosphere(0).to(dtype)
    colours = torch.rand(20, 3, dtype=dtype)
    camera = look_at(0.2, 10.0, torch.tensor([0.0, 50.0]), fov=80.0, dtype=dtype)
    images = []
    for name in (backend, "reference"):
        on = mesh.with_face_colors(colours).to(device if name == backend else "cpu")
        vertices = on.vertices.clone().requires_grad_()
        renderer = Renderer(6, "logistic", composite="ordered", opacity=0.5, scale=0.1,
                            backend=name, bound=0.0)  # fmt: skip
        out = renderer(on.with_vertices(vertices), camera.to(on.device))
        out.rgb.square().sum().backward()
        images.append([out.rgb.detach().cpu(), vertices.grad.cpu()])
    assert images[1][1].any()
    exact = dtype == torch.float64
    torch.testing.assert_close(images[0][0], images[1][0], rtol=0, atol=1e-10 if exact else 1e-5)
    error = (images[0][1] - images[1][1]).norm() / images[1][1].norm()
    assert error < (1e-8 if exact else 1e-3)


def test_a_cdf_of_your_own():
    tensors, _ = leaves()
    names = ("face_colors", "face_opacity", "face_scale")
    want = drawn("cpu", names, tensors, dist="logistic", cutoff=1e-3)
    got = drawn("cpu", names, tensors, dist=torch.sigmoid, cutoff=1e-3)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-10)


def test_alpha_and_the_background():
    rgb, alpha = drawn("cpu", ("face_opacity", "face_scale"))
    rest = (1 - alpha) * torch.tensor([0.1, 0.2, 0.3], **DOUBLE).reshape(3, 1, 1, 1)
    torch.testing.assert_close(rgb, alpha[:, None] + rest.transpose(0, 1))
    assert alpha.max() > 0.9
    assert (1 - alpha).max() > 0.9
    tensors, faces = leaves()
    mesh, camera = Mesh(tensors["vertices"], faces), look_at(2.7, 0.0, 0.0, **DOUBLE)
    both = [
        Renderer(SIZE, "cauchy", composite=c, bound=0.0)(mesh, camera).alpha
        for c in ("ordered", "depth")
    ]
    torch.testing.assert_close(*both, rtol=0, atol=1e-10)


def test_float32_and_without_gradients():
    tensors, faces = leaves()
    parts = {n: tensors[n].detach().float() for n in ("vertex_colors", *OWN)}
    mesh = Mesh(tensors["vertices"].detach().float(), faces, **parts)
    renderer = Renderer(SIZE, "gamma(shape=2)", composite="ordered", bound=0.0, lighting="none",
                        background=(0.1, 0.2, 0.3))  # fmt: skip
    out = renderer(mesh, look_at(2.7, 21.0, torch.tensor([33.0, 140.0])))
    assert out.rgb.dtype == torch.float32
    assert not out.rgb.requires_grad
    want = drawn("reference", ("vertex_colors", *OWN))[0]
    torch.testing.assert_close(out.rgb.double(), want, rtol=0, atol=1e-4)


@for_each(
    "options, kind, words",
    [
        ({"opacity": 1.5}, ValueError, r"opacity must lie in \[0, 1\], got 1.5"),
        ({"opacity": "1"}, TypeError, "opacity must be a number"),
        ({"opacity": torch.ones(3)}, ValueError, r"opacity must have shape \[\]"),
        ({"opacity": torch.tensor(-0.5)}, ValueError, "opacity must lie in"),
        ({"sort": "tile"}, ValueError, "unknown sort 'tile'"),
        ({"bound": 1.0}, ValueError, "bound must be >= 0 and < 1"),
        ({"shading": "hard"}, ValueError, 'shading="hard" draws the nearest face'),
    ],
)
def test_refusals(options, kind, words):
    with pytest.raises(kind, match=words):
        Renderer(8, composite="ordered", **options)


def test_its_settings_are_in_its_text():
    text = repr(Renderer(8, composite="ordered", opacity=torch.tensor(0.25), sort="centroid"))
    assert "composite=ordered" in text
    assert "opacity=0.25, sort=centroid, bound=0.0001" in text


def test_what_needs_ordered_joining_says_so():
    mesh, camera = icosphere(0), look_at(3, 0, 0)
    owner = mesh.with_face_opacity(torch.full((20,), 0.5))
    with pytest.raises(ValueError, match=r'need Renderer\(composite="ordered"\), got "depth"'):
        Renderer(8)(owner, camera)
    shaped = mesh.with_face_shape(torch.ones(20))
    with pytest.raises(ValueError, match="the mesh has a face_shape, but logistic has no shape"):
        Renderer(8, "logistic", composite="ordered")(shaped, camera)
