"""Fused softmax shading on the Triton backend against the dense reference in float64."""

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from support import TOLERANCES, relative_l2
from support.backends import place
from support.cases import for_each

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from support.triton import small_tiles

TOLERANCE = TOLERANCES[torch.float32]
DISTRIBUTIONS = [
    "logistic",
    "uniform",
    "gamma(shape=0.5).reversed",
    "cauchy.squared",
    "gumbel_max.centred",
]


def render(backend, dist, faces=7, orthographic=False, lighting=True, **options):
    """A bumpy ball with colours on vertices and faces, and all gradients by name."""
    device, dtype = place(backend)
    ball, generator = icosphere(0), torch.Generator().manual_seed(3)
    noise = torch.rand(len(ball.vertices), 6, generator=generator, dtype=torch.float64)
    leaves = {
        "vertices": ball.vertices.double() + 0.2 * noise[:, :3],
        "vertex_colors": noise[:, 3:],
        "face_colors": torch.rand(faces, 3, generator=generator, dtype=torch.float64),
        "background": torch.tensor([0.1, 0.5, 0.9]),
        "direction": torch.tensor([0.3, 1.0, -0.6]),
    }
    leaves = {k: v.to(device, dtype).requires_grad_() for k, v in leaves.items()}
    mesh = gendr.Mesh(
        leaves["vertices"], ball.faces[:faces].to(device),
        vertex_colors=leaves["vertex_colors"], face_colors=leaves["face_colors"],
    )  # fmt: skip
    learnable = ("scale", "gamma", "shape") if "gamma" in dist else ("scale", "gamma")
    renderer = gendr.Renderer(
        (19, 17), dist=dist, scale=3e-2, gamma=1e-2, backend=backend, learnable=learnable,
        lighting=gendr.Lighting(direction=leaves["direction"]) if lighting else "none", **options,
    ).to(device, dtype)  # fmt: skip
    renderer.background = leaves["background"]
    views = torch.tensor([10.0, 80.0], dtype=dtype, device=device)
    image = renderer(mesh, gendr.look_at(3.0, 20.0, views, orthographic=orthographic)).rgb
    weight = torch.linspace(-1, 1, image.numel(), dtype=dtype, device=device).cos()
    (image * weight.reshape(image.shape)).sum().backward()
    grads = {k: v.grad for k, v in leaves.items() if v.grad is not None}
    grads |= {k: p.grad for k, p in renderer.named_parameters()}
    return image.detach().cpu(), {k: g.cpu() for k, g in grads.items()}


def compare(*args, **options):
    got, got_grads = render("triton", *args, **options)
    want, want_grads = render("reference", *args, **options)
    assert (got - want).abs().max() <= TOLERANCE.alpha
    assert got_grads.keys() == want_grads.keys()
    for name, grad in want_grads.items():
        if grad.norm() > 1e-20:  # below, float32 has subnormal numbers only
            assert relative_l2(got_grads[name], grad) <= TOLERANCE.gradient, name
    return want_grads


@for_each(
    "dist, options",
    [
        *((dist, {}) for dist in DISTRIBUTIONS),
        ("logistic", {"orthographic": True}),
        ("logistic", {"lighting": False}),
        ("logistic", {"eps": 0.99}),  # a background in front
    ],
    rotating=8,
)
def test_colours_and_all_gradients(dist, options):
    names = {"vertices", "vertex_colors", "face_colors", "background", "log_scale", "log_gamma"}
    grads = compare(dist, **options)
    assert names <= grads.keys()
    assert ("direction" in grads) == options.get("lighting", True)


@pytest.mark.rotating(4, group="rendering")
def test_many_tiles_lists_and_shares(monkeypatch):
    small_tiles(monkeypatch, block_faces=2, block_pixels=64)
    compare("uniform", faces=6)


def test_no_faces_give_the_background():
    image, _ = render("triton", "logistic", faces=0)
    want = torch.tensor([0.1, 0.5, 0.9])[None, :, None, None].expand_as(image)
    assert torch.allclose(image, want)
