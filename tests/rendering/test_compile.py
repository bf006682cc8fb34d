"""`torch.compile` around rendering."""

from itertools import product

import pytest
import torch

import gendr
from gendr.mesh import icosphere
from support import soup

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def silhouette(dist):
    """A step of float32 corners and a scale: the function and its leaves."""

    def step(faces, scale):
        alpha = gendr.silhouette(faces, (20, 24), dist, "yager(p=2)", scale, backend="triton")
        return (alpha - 0.5).square().mean()

    return step, (soup(2, 6, 0, torch.float32), torch.tensor(0.05))


def renderer(near):
    """A step of the vertices of a ball."""
    ball = icosphere(0).to(DEVICE)
    draw = gendr.Renderer(20, backend="triton", scale=2e-2, near=near).to(DEVICE)
    camera = gendr.look_at(2.2, 20.0, torch.tensor([10.0, 80.0], device=DEVICE))
    target = torch.rand(2, 20, 20, device=DEVICE)

    def step(vertices):
        return gendr.losses.iou_loss(draw(ball.with_vertices(vertices), camera).alpha, target)

    return step, (icosphere(0).vertices,)


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize(
    ("make", "option"),
    [
        (silhouette, "logistic"),
        (silhouette, "gamma(shape=0.5).reversed.centred.squared"),
        (renderer, 1.0),
        (renderer, 1.6),  # this plane cuts the ball
    ],
)
def test_a_step_has_no_graph_break(make, option):
    """Compiled as a whole, or not at all: `fullgraph` makes a graph break an error."""
    torch._dynamo.reset()
    step, leaves = make(option)
    results = []
    for run in (step, torch.compile(step, backend="aot_eager", fullgraph=True)):
        own = [x.to(DEVICE, copy=True).requires_grad_() for x in leaves]
        loss = run(*own)
        results.append((loss.detach(), *torch.autograd.grad(loss, own)))
    for eager, traced in zip(*results, strict=True):
        torch.testing.assert_close(eager, traced)
    assert results[0][1].abs().sum() > 0


@pytest.mark.filterwarnings("ignore")  # the tracer's own
@pytest.mark.parametrize(
    ("trace", "image"),
    [
        ("export", "alpha"),
        *product(["export", "jit"], ["rgb", "depth", "normals", "face_id", "mask"]),
    ],
)
def test_images_have_no_exported_graph(trace, image):
    """A trace would keep the mask of its example, and colours of its pairs, without an error."""
    ball, camera = icosphere(0), gendr.look_at(2.2, 20.0, 10.0)
    renderer = gendr.Renderer(8, composite="alpha")

    class Draw(torch.nn.Module):
        def forward(self, vertices):
            return getattr(renderer(ball.with_vertices(vertices), camera), image)

    make = torch.export.export if trace == "export" else torch.jit.trace
    with pytest.raises(RuntimeError, match="of a rendering has no graph"):
        make(Draw(), (ball.vertices,))
