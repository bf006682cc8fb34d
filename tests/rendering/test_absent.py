"""Faces that are not seen, left out or standing among the others: the same images and gradients."""

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from gendr.rendering import api, geometry
from support import soup
from support.cases import for_each

BACKENDS = ["reference", "cpu", "triton"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    reason = gendr.backends()[request.param]
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def device(backend):
    return "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"


def both(monkeypatch, run):
    """What `run` returns where faces are left out, and where they stay."""
    results = []
    for leave_out in (True, False):
        for module in (api, geometry):
            monkeypatch.setattr(module, "can_leave_out", lambda _, answer=leave_out: answer)
        results.append(run())
    return results


@for_each(family=["probabilistic", "max", "average"])
def test_silhouettes(monkeypatch, backend, device, family):
    """Cauchy at cutoff 0 reaches everywhere, also from very far away."""
    scene = soup(2, 5, 3, torch.float32)
    scene[0, [1, 3], 2, 2] = -1.0

    def run():
        vertices = scene.to(device, copy=True).requires_grad_()
        image = gendr.silhouette(vertices, (7, 9), "cauchy", family, 0.1, 0.0, backend)
        image.square().sum().backward()
        return image.detach(), vertices.grad

    left_out, stayed = both(monkeypatch, run)
    for want, got in zip(left_out, stayed, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    assert not stayed[1][0, [1, 3]].any()
    assert left_out[0].any()


def test_all_images_of_a_renderer(monkeypatch, backend, device):
    """The ball reaches behind the camera and beyond the far plane, and its front is cut."""
    ball = icosphere(0).to(device)
    camera = gendr.look_at(0.9, 20.0, torch.tensor([10.0, 80.0], device=device))
    colours = torch.linspace(0, 1, 3 * len(ball.vertices), device=device).reshape(-1, 3)

    def run():
        vertices = ball.vertices.clone().requires_grad_()
        mesh = ball.with_vertices(vertices).with_vertex_colors(colours)
        options = {"scale": 0.03, "gamma": 0.1, "near": 0.5, "far": 1.4, "backend": backend}
        out = gendr.Renderer((8, 11), "gaussian", **options).to(device)(mesh, camera)
        (out.alpha.square().sum() + out.rgb.square().sum()).backward()
        images = [out.alpha, out.rgb, out.depth, out.normals, out.face_id]
        return [x.detach() for x in images] + [vertices.grad]

    left_out, stayed = both(monkeypatch, run)
    assert (left_out[4] >= 0).any()
    for want, got in zip(left_out, stayed, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
