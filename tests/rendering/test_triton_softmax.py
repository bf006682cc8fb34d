"""Fused softmax shading on the Triton backend against the dense reference in float64."""

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from gendr.rendering import shading
from gendr.rendering.backends.triton import softmax as triton_softmax
from gendr.rendering.backends.triton import tiles as triton_tiles
from support import TOLERANCES, relative_l2

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = TOLERANCES[torch.float32]
LAWS = ["logistic", "uniform", "gamma(shape=0.5).reversed", "cauchy.squared", "gumbel_max.centred"]


def scene(dtype, device, faces=7, **leaves):
    """A bumpy ball with colours on vertices and faces, and every leaf that gradients reach."""
    generator = torch.Generator().manual_seed(3)
    ball = icosphere(0)
    noise = torch.rand(len(ball.vertices), 6, generator=generator, dtype=torch.float64)
    face_colors = torch.rand(len(ball.faces), 3, generator=generator, dtype=torch.float64)
    found = {
        "vertices": ball.vertices.double() + 0.2 * noise[:, :3],
        "vertex_colors": noise[:, 3:],
        "face_colors": face_colors,
        "background": torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64),
        "direction": torch.tensor([0.3, 1.0, -0.6], dtype=torch.float64),
    }
    return {k: v.to(device, dtype).requires_grad_() for k, v in found.items()}, ball.faces[:faces]


def render(backend, dtype, dist, faces=7, orthographic=False, lighting=True, **options):
    """The image, and the gradients of all leaves and parameters by name."""
    device = DEVICE if backend == "triton" else "cpu"
    leaves, index = scene(dtype, device, faces)
    mesh = gendr.Mesh(
        leaves["vertices"],
        index.to(device),
        vertex_colors=leaves["vertex_colors"],
        face_colors=leaves["face_colors"][: len(index)],
    )
    light = gendr.Lighting(direction=leaves["direction"]) if lighting else "none"
    learnable = ("scale", "gamma", "shape") if "gamma" in dist else ("scale", "gamma")
    renderer = gendr.Renderer(
        (24, 19), dist=dist, scale=3e-2, gamma=1e-2, backend=backend, lighting=light,
        learnable=learnable, **options,
    ).to(device, dtype)  # fmt: skip
    renderer.background = leaves["background"]
    views = torch.tensor([10.0, 80.0], dtype=dtype, device=device)
    camera = gendr.look_at(3.0, 20.0, views, orthographic=orthographic)
    image = renderer(mesh, camera).rgb
    weight = torch.linspace(-1, 1, image.numel(), dtype=dtype, device=device).cos()
    (image * weight.reshape(image.shape)).sum().backward()
    grads = {k: v.grad for k, v in leaves.items() if v.grad is not None}
    grads |= {k: p.grad for k, p in renderer.named_parameters()}
    return image.detach().cpu(), {k: g.cpu() for k, g in grads.items()}


def compare(*args, **options):
    got, got_grads = render("triton", torch.float32, *args, **options)
    want, want_grads = render("reference", torch.float64, *args, **options)
    assert (got - want).abs().max() <= TOLERANCE.alpha
    assert got_grads.keys() == want_grads.keys()
    for name, grad in want_grads.items():
        if grad.norm() > 1e-20:  # below, float32 has subnormal numbers only
            assert relative_l2(got_grads[name], grad) <= TOLERANCE.gradient, name
    return want_grads


@pytest.fixture
def fused(monkeypatch):
    """Fails if fragments are listed: then the test would compare the shared code with itself."""
    calls = []
    real = triton_softmax.softmax
    monkeypatch.setattr(triton_softmax, "softmax", lambda *args: calls.append(1) or real(*args))
    yield
    assert calls


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("dist", LAWS)
def test_colours_and_all_gradients(dist):
    grads = compare(dist)
    assert {"vertices", "vertex_colors", "face_colors", "background", "direction"} <= grads.keys()
    assert {"log_scale", "log_gamma"} <= grads.keys()


@pytest.mark.usefixtures("fused")
def test_orthographic_unlit_and_a_background_in_front():
    compare("logistic", orthographic=True)
    compare("logistic", lighting=False)
    compare("logistic", eps=0.99)


@pytest.mark.rotating(2)
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("atomic", [False, True])
def test_many_tiles_lists_and_shares(monkeypatch, atomic):
    small = triton_tiles.TileLaunch(
        tile=(8, 16), block_faces=2, block_pixels=64, programs=64, walked=0
    )
    monkeypatch.setattr(triton_tiles, "LAUNCH", small)
    triton_tiles.set_atomic(atomic)
    try:
        compare("uniform", faces=6)
    finally:
        triton_tiles.set_atomic(False)


@pytest.mark.usefixtures("fused")
def test_no_faces_is_background():
    image, _ = render("triton", torch.float32, "uniform", faces=0)
    assert torch.allclose(
        image, torch.tensor([0.1, 0.5, 0.9])[None, :, None, None].expand_as(image)
    )


def test_what_is_not_linear_lists_fragments(monkeypatch):
    ball = icosphere(1).to(DEVICE)
    camera = gendr.look_at(2.0, 20.0, torch.tensor(10.0, device=DEVICE))
    monkeypatch.setattr(triton_softmax, "softmax", None)  # a call would fail
    listed = []
    real = shading.recomputed
    monkeypatch.setattr(shading, "recomputed", lambda *args: listed.append(1) or real(*args))
    for options in ({"lighting": "phong"}, {"near": 1.3}):
        images = [
            gendr.Renderer(24, scale=2e-2, backend=b, **options)(ball, camera).rgb
            for b in ("triton", "reference")
        ]
        assert (images[0] - images[1]).abs().max() <= TOLERANCE.alpha
    assert len(listed) == 4


def test_second_derivatives_are_refused():
    leaves, index = scene(torch.float32, DEVICE)
    mesh = gendr.Mesh(leaves["vertices"], index.to(DEVICE))
    camera = gendr.look_at(3.0, 20.0, torch.tensor(10.0, device=DEVICE))
    image = gendr.Renderer(16, scale=2e-2, backend="triton").to(DEVICE)(mesh, camera).rgb
    (grad,) = torch.autograd.grad(image.square().sum(), leaves["vertices"], create_graph=True)
    with pytest.raises(RuntimeError, match="backend='reference'"):
        grad.sum().backward()
