"""Every operator under the transforms of `torch.func`, and in a graph whose kernels are not cached.

A transform gives what autograd and a loop over the items give, or our error, never PyTorch's.
"""

import re

import pytest
import torch
from torch.func import grad, vmap

import gendr
from gendr.logic import LogicLayer
from gendr.relaxed import (
    bubble_sort,
    dynamic_time_warping,
    estimators,
    levenshtein,
    shortest_path,
    silhouette,
)
from gendr.sorting import methods, permutation, soft_rank, soft_sort
from gendr.topk import TopKCrossEntropy, soft_topk, soft_topk_mask

GRID, KEYS = (3, 3), (5,)
TRIANGLE = torch.tensor([[[-0.5, -0.5, 1.0], [0.6, -0.4, 1.0], [0.0, 0.7, 1.0]]])
SQUARE = gendr.Mesh(torch.tensor([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))
RENDERER = gendr.Renderer(image_size=6, scale=0.1)
LAYER = LogicLayer(5, 6, seed=0).double()


@gendr.relax
def clamp(x, low, high):
    if x < low:
        x = low
    elif x > high:
        x = high
    return x


@gendr.relax(max_iterations=4)
def halved(x, below):
    while x > below:
        x = x / 2
    return x


def rendered(shift, part="alpha"):
    mesh = SQUARE.with_vertices(SQUARE.vertices.double() + shift)
    return getattr(RENDERER(mesh, gendr.look_at(3.0, 0.0, 0.0).to(torch.float64)), part)


# What is taken -> an operator of one input, and the shape of that.
OPERATORS = {
    **{
        f"{of.__name__} {name}": (lambda x, of=of, name=name: of(x, name, steepness=2.0), KEYS)
        for name in methods() if name != "network"
        for of in (soft_sort, soft_rank, permutation)
        if (of, name) != (permutation, "permutahedron")
    },
    "hard": (lambda x: soft_sort(x, hard=True), KEYS),
    "payload": (lambda x: soft_sort(x, payload=x[:, None].exp())[1], KEYS),
    "steepness": (lambda x: soft_sort(x, steepness=x[0].exp()), KEYS),
    **{
        f"topk {name}": (lambda x, name=name: soft_topk(x, 2, name).attribution, KEYS)
        for name in ("splitter", "neuralsort", "sinkhorn")
    },
    **{
        f"mask {dist}": (lambda x, dist=dist: soft_topk_mask(x, 2, dist, 0.5), KEYS)
        for dist in ("laplace", "gaussian", "heaviside")
    },
    "k": (lambda x: soft_topk_mask(x, 1 + x[0].sigmoid()), KEYS),
    "loss": (lambda x: TopKCrossEntropy([0.5, 0.5], m=4)(x[None], torch.tensor([1])), KEYS),
    "shortest path": (shortest_path, GRID),
    "4 neighbours, cauchy": (lambda x: shortest_path(x, "cauchy", neighbourhood=4), GRID),
    "levenshtein": (lambda x: levenshtein(x.softmax(-1), x.mT.softmax(-1)), GRID),
    "dtw": (lambda x: dynamic_time_warping(x[0], x[1]), GRID),
    "bubble sort": (lambda x: bubble_sort(x).values, KEYS),
    "silhouette of a program": (lambda x: silhouette(TRIANGLE.double() + x, 4), ()),
    "program": (lambda x: clamp(x, -0.5, 0.5, scale=0.3), KEYS),
    "loop": (lambda x: halved(x, 0.5, scale=0.3), KEYS),
    "scale": (lambda x: clamp(x, -0.5, 0.5, scale=x[0].exp()), KEYS),
    "silhouette": (lambda x: gendr.silhouette(TRIANGLE.double() + x, 6, scale=0.1), ()),
    "yager": (lambda x: gendr.silhouette(TRIANGLE.double() + x, 4, "cauchy", "yager(p=2)"), ()),
    **{
        f"renderer {part}": (lambda x, part=part: rendered(x, part), ())
        for part in ("alpha", "rgb", "depth", "normals")
    },
    "layer": (lambda x: LAYER(x.sigmoid()[None]), KEYS),
    "estimated": (estimators.estimated(lambda x: x, "smoothing", event_dims=1), KEYS),
}  # fmt: skip
# Those that say no, to all transforms or to vmap.
REFUSED = {
    *(f"{of} sinkhorn" for of in ("soft_sort", "soft_rank", "permutation", "topk")), "estimated",
}  # fmt: skip
NOT_BATCHED = {"silhouette", "yager", *(name for name in OPERATORS if name.startswith("renderer"))}


def outcome(find):
    """What it gives, or None for our error."""
    try:
        return find()
    except RuntimeError as error:
        if "is not made for " not in str(error):
            raise
        return None


# PyTorch's word on speed about the layout of what vmap hands to the closed form of a mask.
@pytest.mark.filterwarnings("ignore:.*searchsorted")
def test_transforms_give_what_autograd_and_loops_give_or_our_error():
    torch.manual_seed(0)
    for name, (operator, shape) in OPERATORS.items():
        x = torch.randn(3, *shape, dtype=torch.float64)

        def loss(x, operator=operator):
            return operator(x).square().sum()

        found = {
            "grad": outcome(lambda x=x, loss=loss: grad(loss)(x[0])),
            "vmap": outcome(lambda x=x, operator=operator: vmap(operator)(x)),
            "vmap(grad)": outcome(lambda x=x, loss=loss: vmap(grad(loss))(x)),
        }
        refused = {transform for transform, value in found.items() if value is None}
        allowed = set(found) if name in REFUSED else {"vmap", "vmap(grad)"}
        assert refused == (allowed if name in REFUSED | NOT_BATCHED else set()), name
        if name in REFUSED:
            continue
        leaf = x.clone().requires_grad_()
        results = torch.stack([operator(row) for row in leaf.unbind()])
        slopes = torch.zeros_like(x)
        if results.requires_grad:
            (slopes,) = torch.autograd.grad(results.square().sum(), leaf)
        wanted = {"grad": slopes[0], "vmap": results.detach(), "vmap(grad)": slopes}
        for transform in found.keys() - refused:
            assert torch.allclose(
                found[transform].to(slopes), wanted[transform].to(slopes), rtol=1e-5, atol=1e-6
            ), (name, transform)


def test_a_named_backend_and_an_endless_loop_say_what_to_do():
    x = torch.randn(3, 4, 5)
    with pytest.raises(RuntimeError, match="backend 'cpu' is not made for the transforms"):
        vmap(lambda x: shortest_path(x, backend="cpu"))(x)
    with pytest.raises(RuntimeError, match="bound it by max_iterations"):
        vmap(lambda x: halved(x, 0.5, scale=0.3, max_iterations=None))(x[:, 0])


def test_dynamo_stays_out_of_the_compiler_of_kernels():
    """It took the frames of Numba one by one, which ended in a RecursionError."""
    numba = pytest.importorskip("numba")
    from torch._dynamo.convert_frame import input_codes

    from gendr._runtime.numba.compilation import ensure_cache

    ensure_cache()

    @numba.njit
    def kernel(x, y):
        for i in range(len(x)):
            y[i] = 2 * x[i]

    def function(x):
        torch._dynamo.graph_break()
        y = torch.empty_like(x)
        kernel(x.numpy(), y.numpy())
        return y

    x = torch.rand(3)
    assert torch.equal(torch.compile(function, backend="eager")(x), 2 * x)
    codes = [code() for code in input_codes.seen if code() is not None]
    assert any(code.co_filename == __file__ for code in codes)
    assert not [
        code.co_filename for code in codes if re.search("llvmlite|numba/core", code.co_filename)
    ]
