"""Every operator under the transforms of `torch.func`, and in a graph whose kernels are not cached.

A transform gives what autograd and a loop over the items give, or our error, never PyTorch's.
"""

import re

import numpy
import pytest
import torch
from torch.func import grad, vmap

import gendr
from gendr import primitives
from gendr.relaxed import estimators, programs, shortest_path
from gendr.sorting import names, permutation, soft_rank, soft_sort
from gendr.topk import soft_topk_mask
from support.cases import for_each
from support.graphs import assert_graph, inductor
from support.operators import entries

SQUARE = gendr.Mesh(torch.tensor([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))
RENDERER = gendr.Renderer(image_size=6, scale=0.1)


@gendr.relax(max_iterations=4)
def halved(x, below):
    while x > below:
        x = x / 2
    return x


def rendered(part):
    def run(shift):
        mesh = SQUARE.with_vertices(SQUARE.vertices.double() + shift)
        return getattr(RENDERER(mesh, gendr.look_at(3.0, 0.0, 0.0).to(torch.float64)), part)

    return run, (torch.rand(()),)


def operators():
    """Calls in float64: of the public entry points, and with other settings."""
    keys = (torch.randn(5),)
    # Renderers of meshes with colours, what takes no part in training, and losses of points.
    left_out = re.compile("(cpu|reference|smooth) |circuit|chamfer|parametrization")
    found = {name: call for name, call in entries().items() if not left_out.match(name)}
    found |= {f"render {name}": rendered(name) for name in ("alpha", "rgb", "depth", "normals")}
    for name in {*names()} - {"network", "permutahedron"}:
        found[f"permutation {name}"] = lambda x, name=name: permutation(x, name), keys
    return found | {
        "hard": (lambda x: soft_sort(x, hard=True), keys),
        "payload": (lambda x: soft_sort(x, payload=x[:, None].exp())[1], keys),
        "steepness": (lambda x: soft_sort(x, steepness=x[0].exp()), keys),
        "mask heaviside": (lambda x: soft_topk_mask(x, 2, "heaviside", 0.5), keys),
        "k": (lambda x: soft_topk_mask(x, 1 + x[0].sigmoid()), keys),
        "4 neighbours": (lambda x: shortest_path(x, neighbourhood=4), (torch.rand(3, 3),)),
        "loop": (lambda x: halved(x, 0.5, scale=0.3), keys),
        "scale": (lambda x: halved(x, 0.5, scale=x[0].exp()), keys),
        "estimated": (estimators.estimated(lambda x: x, "smoothing", event_dims=1), keys),
    }


def outcome(find):
    """What it gives, or None for our error."""
    try:
        return find()
    except RuntimeError as error:
        if "is not made for " not in str(error):
            raise
        return None


@pytest.fixture
def _in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# PyTorch's word on speed about the layout of what vmap hands to the closed form of a mask.
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore:.*searchsorted")
@pytest.mark.usefixtures("_in_float64")
def test_transforms_give_what_autograd_and_loops_give_or_our_error(drawn):
    for name, (operator, leaves) in drawn(operators().items(), 12):
        twice = [torch.stack([x, 0.9 * x]).detach() for x in leaves]
        places = tuple(range(len(leaves)))

        def loss(*inputs, operator=operator):
            return operator(*inputs).square().sum()

        found = {
            "grad": outcome(lambda: grad(loss, places)(*(x[0] for x in twice))),  # noqa: B023
            "vmap": outcome(lambda: [vmap(operator)(*twice)]),  # noqa: B023
            "vmap(grad)": outcome(lambda: vmap(grad(loss, places))(*twice)),  # noqa: B023
        }
        refused = {transform for transform, value in found.items() if value is None}
        # Some refuse all of them, and the renderer is not batched.
        wanted = {*found} if re.search("estimated", name) else set()
        wanted |= {"vmap", "vmap(grad)"} if re.match("render|silhouette$", name) else set()
        assert refused == wanted, name
        own = [x.clone().requires_grad_() for x in twice]
        results = torch.stack([operator(*(x[k] for x in own)) for k in range(2)])
        slopes = [torch.zeros_like(x) for x in own]
        if results.requires_grad:
            slopes = torch.autograd.grad(results.square().sum(), own, materialize_grads=True)
        want = {"grad": [x[0] for x in slopes], "vmap": [results.detach()], "vmap(grad)": slopes}
        for transform in found.keys() - refused:
            for got, right in zip(found[transform], want[transform], strict=True):
                assert torch.allclose(got.to(right), right, rtol=1e-5, atol=1e-6), (name, transform)


def images(shift):
    image = RENDERER(SQUARE.with_vertices(SQUARE.vertices + shift), gendr.look_at(3.0, 0.0, 0.0))
    return image.rgb.sum(1) + image.normals.sum(1) + torch.where(image.mask, image.depth, 0.0)


def one_hot_of_largest(x):
    return numpy.eye(x.shape[-1])[x.argmax(-1)]


GRAPHS = {
    "images": (images, torch.linspace(0, 0.5, 9).view(3, 3)),  # of no sliver
    "program": (lambda x: programs.bubble_sort(x, scale=0.3)[0], torch.randn(3, 4)),
    "estimator": (
        estimators.estimated(one_hot_of_largest, "smoothing", event_dims=1), torch.randn(3, 4)
    ),
}  # fmt: skip


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@for_each(name=GRAPHS, rotating=3)
def test_graphs_with_free_sizes_break_where_they_must(name):
    """Which ended in errors of Numba, of attributes and of the compiler."""
    call, x = GRAPHS[name]
    own = x.clone().requires_grad_()
    assert_graph(call, own, rtol=1e-4, atol=1e-5, backend="eager", dynamic=True)


def lit(x):
    light = gendr.Lighting(specular=0.3, smooth=True)
    renderer = gendr.Renderer(image_size=6, scale=0.1, lighting=light)
    return renderer(SQUARE.with_vertices(SQUARE.vertices + x), gendr.look_at(3.0, 0.0, 0.0)).rgb


def cube(x):
    texels = torch.linspace(0, 1, 6 * 4 * 4 * 2).view(1, 6, 4, 4, 2).sin()
    return primitives.texture(texels, x, filter_mode="linear", boundary_mode="cube")


@inductor
@for_each("call, x", [(lit, torch.rand(3, 3)), (cube, torch.rand(1, 3, 3, 3))])
def test_inductor(call, x):
    assert_graph(call, x.clone().requires_grad_(), rtol=1e-4, atol=1e-5)


def test_autocast_leaves_results_as_they_are():
    weights, image = torch.rand(2, 5), torch.rand(1, 1, 12, 12)
    for operator, x in (
        (lambda x: gendr.soft.take_along_dim(weights, x), torch.rand(2, 3, 5)),
        (lambda x: gendr.losses.ssim(x, image), torch.rand(1, 1, 12, 12)),
        (lambda x: soft_rank(x, "sinkhorn"), torch.rand(30)),
    ):
        with torch.autocast("cpu", torch.bfloat16):
            found = operator(x)
        torch.testing.assert_close(found, operator(x), rtol=1e-5, atol=1e-6)


@pytest.mark.graphs
def test_a_named_backend_and_an_endless_loop_say_what_to_do():
    x = torch.randn(3, 4, 5)
    with pytest.raises(RuntimeError, match="backend 'cpu' is not made for the transforms"):
        vmap(lambda x: shortest_path(x, backend="cpu"))(x)
    with pytest.raises(RuntimeError, match="bound it by max_iterations"):
        vmap(lambda x: halved(x, 0.5, scale=0.3, max_iterations=None))(x[:, 0])
