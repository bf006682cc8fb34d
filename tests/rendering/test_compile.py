"""`torch.compile` and `torch.autocast` around rendering."""

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from support import soup

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DISTS = ["logistic", "gamma(shape=0.5).reversed.centred.squared"]


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    """Compiled as a whole, or not at all: `fullgraph` makes a graph break an error."""
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.mark.rotating(2)
@pytest.mark.parametrize("dist", DISTS)
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_step_with_silhouette_has_no_graph_break(dist):
    def step(faces, scale):
        alpha = gendr.silhouette(faces, (20, 24), dist, "yager(p=2)", scale, backend="triton")
        return (alpha - 0.5).square().mean()

    results = []
    for run in (step, compiled(step)):
        faces = soup(2, 6, 0, torch.float32).to(DEVICE).requires_grad_()
        scale = torch.tensor(0.05, device=DEVICE, requires_grad=True)
        loss = run(faces, scale)
        loss.backward()
        results.append((loss.detach(), faces.grad, scale.grad))
    for eager, traced in zip(*results, strict=True):
        torch.testing.assert_close(eager, traced)
    assert results[0][1].abs().sum() > 0


@pytest.mark.rotating(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("near", [1.0, 1.6])  # the second plane cuts the ball
def test_a_step_with_a_renderer_has_no_graph_break(near):
    ball = icosphere(0).to(DEVICE)
    renderer = gendr.Renderer(20, backend="triton", scale=2e-2, near=near).to(DEVICE)
    camera = gendr.look_at(2.2, 20.0, torch.tensor([10.0, 80.0], device=DEVICE))
    target = torch.rand(2, 20, 20, device=DEVICE)

    def step(vertices):
        mesh = ball.with_vertices(vertices)
        return gendr.losses.iou_loss(renderer(mesh, camera).alpha, target).mean()

    grads = []
    for run in (step, compiled(step)):
        vertices = ball.vertices.clone().requires_grad_()
        run(vertices).backward()
        grads.append(vertices.grad)
    torch.testing.assert_close(*grads)
    assert grads[0].abs().sum() > 0


@pytest.mark.parametrize("backend", ["cpu", "triton", "reference"])
def test_rendering_takes_no_part_in_autocast(backend):
    device = DEVICE if backend == "triton" else "cpu"
    ball = icosphere(1).to(device)
    half = torch.bfloat16
    with torch.autocast(device, dtype=half):
        camera = gendr.look_at(2.2, 20.0, torch.tensor(10.0, device=device))
        out = gendr.Renderer(16, backend=backend).to(device)(ball, camera)
        mixed = [out.alpha, out.rgb, out.normals]
    out = gendr.Renderer(16, backend=backend).to(device)(ball, camera)
    for a, b in zip(mixed, [out.alpha, out.rgb, out.normals], strict=True):
        assert a.dtype == torch.float32
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["cpu", "triton"])
def test_half_precision_is_taken_under_autocast_only(backend):
    device = DEVICE if backend == "triton" else "cpu"
    faces = soup(1, 4, 0, torch.float32).to(device).bfloat16()
    with torch.autocast(device, dtype=torch.bfloat16):
        alpha = gendr.silhouette(faces, 12, backend=backend)
    assert torch.equal(alpha, gendr.silhouette(faces.float(), 12, backend=backend))
    with pytest.raises(TypeError, match="float32 or float64"):
        gendr.silhouette(faces, 12, backend=backend)
