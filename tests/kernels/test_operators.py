"""Every operator alike: kernels beside the definition, derivatives, transforms, graphs, threads."""

import pytest
import torch

import gendr
from support.cases import for_each
from support.operator_examples import example, operators
from support.operators import all_work_shared

NAMES = sorted(operators())
pytestmark = pytest.mark.skipif(gendr.backends()["cpu"] is not None, reason="needs Numba")


def case(name):
    """(the operator with the kernels of the CPU, the same by its definition, the example)."""
    operator, one = operators()[name], example(name)

    def by(kernels):
        return lambda *inputs: operator(kernels, one.spec, *one.completed(*inputs))

    return by(one.kernels), by(None), one


def flat(results):
    """The results that have gradients."""
    results = (results,) if isinstance(results, torch.Tensor) else results
    return [result for result in results if result.requires_grad]


def outcome(function, inputs):
    """Results and the gradients of a curved function of them."""
    results = function(*inputs)
    results = (results,) if isinstance(results, torch.Tensor) else results
    loss = sum((result * torch.linspace(1, 2, result.numel()).view_as(result)).square().sum()
               for result in flat(results))  # fmt: skip
    return [*(r.detach() for r in results), *torch.autograd.grad(loss, inputs)]


def assert_equal(got, want, **tolerance):
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@for_each(name=NAMES)  # a wrong gradient of one of them may show nowhere else
def test_kernels_equal_the_definition(name):
    kernel, definition, one = case(name)
    want = outcome(definition, one.inputs)
    assert_equal(outcome(kernel, one.inputs), want, rtol=1e-9, atol=1e-10)
    strided = [torch.stack([t, t], -1).detach()[..., 0].requires_grad_() for t in one.inputs]
    assert_equal(outcome(kernel, strided), want, rtol=1e-9, atol=1e-10)
    if one.empty is not None:
        assert_equal(outcome(kernel, one.empty), outcome(definition, one.empty))


@for_each(name=NAMES, rotating=6)
def test_derivatives_are_those_of_the_values(name, pytestconfig):
    kernel, _, one = case(name)
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        fast = not pytestconfig.getoption("--every")  # random directions in place of all
        assert check(lambda *t: tuple(flat(kernel(*t))), one.inputs, fast_mode=fast)
    # That looks at the graph alone, which could be of another function than the kernels'.
    results = flat(kernel(*one.inputs))
    weights = [torch.linspace(1, 2, r.numel()).double().view_as(r) for r in results]
    found = [
        torch.autograd.grad(results, one.inputs, weights, retain_graph=True, create_graph=graph)
        for graph in (False, True)
    ]
    assert_equal(*found, rtol=1e-9, atol=1e-10)


@for_each(name=NAMES, rotating=3)
def test_transforms_of_torch_func(name):
    kernel, _, one = case(name)
    plain = [t.detach() for t in one.inputs]
    places = tuple(range(len(plain)))

    def loss(*inputs):
        results = kernel(*inputs)
        results = (results,) if isinstance(results, torch.Tensor) else results
        return sum(result.square().sum() for result in results)

    def by_hand(*inputs):
        inputs = [t.detach().requires_grad_() for t in inputs]
        return torch.autograd.grad(loss(*inputs), inputs, materialize_grads=True)

    assert_equal(torch.func.grad(loss, places)(*plain), by_hand(*plain))
    if not one.batched:
        return
    dims = tuple(0 if i in one.batched else None for i in places)
    twice = [
        torch.stack([t, 0.9 * t.flip(-1)]) if i in one.batched else t for i, t in enumerate(plain)
    ]
    got = torch.func.vmap(torch.func.grad(loss, places), dims)(*twice)
    for row in range(2):
        inputs = [t[row] if i in one.batched else t for i, t in enumerate(twice)]
        assert_equal([g[row] for g in got], by_hand(*inputs))


def or_refused(find):
    """What it gives, or None for our error."""
    try:
        return find()
    except RuntimeError as error:
        if "gendr is not made for" not in str(error):
            raise
        return None


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # PyTorch's own
@for_each(name=NAMES, rotating=3)
def test_forward_mode_is_right_or_refused(name):
    kernel, _, one = case(name)
    plain = tuple(t.detach() for t in one.inputs)
    tangents = tuple(torch.randn_like(t) for t in plain)
    wanted = flat(kernel(*one.inputs))
    pushed = or_refused(lambda: torch.func.jvp(lambda *t: kernel(*t), plain, tangents)[1])
    if pushed is not None:
        pushed = (pushed,) if isinstance(pushed, torch.Tensor) else pushed
        weights = [torch.randn_like(t) for t in wanted]
        grads = torch.autograd.grad(wanted, one.inputs, weights)
        found = sum((w * t).sum() for w, t in zip(weights, pushed, strict=True))
        torch.testing.assert_close(
            found, sum((g * t).sum() for g, t in zip(grads, tangents, strict=True))
        )


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@for_each(name=NAMES, rotating=15)
def test_a_graph_of_a_transform_is_right_or_refused(name):
    """Dynamo differentiates what stands in the forward pass of an autograd function."""
    kernel, _, one = case(name)
    if hasattr(one.kernels, "traced"):
        return  # a program of the user's own
    plain = one.inputs[0].detach()

    def loss(x):
        results = kernel(x, *(t.detach() for t in one.inputs[1:]))
        results = (results,) if isinstance(results, torch.Tensor) else results
        return sum(result.square().sum() for result in results)

    torch._dynamo.reset()
    graph = torch.compile(torch.func.grad(loss), backend="eager")
    found = or_refused(lambda: graph(plain))
    if found is not None:
        torch.testing.assert_close(found, torch.func.grad(loss)(plain))


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@for_each(name=NAMES, rotating=15)
def test_one_graph(name):
    kernel, _, one = case(name)
    torch._dynamo.reset()
    # What the compiler makes of a definition in plain torch is its own matter.
    backend = "aot_eager" if hasattr(one.kernels, "traced") else "eager"
    graph = torch.compile(kernel, backend=backend, fullgraph=True)
    assert_equal(outcome(graph, one.inputs), outcome(kernel, one.inputs))


@for_each(name=NAMES, rotating=2)
def test_threads_do_not_change_a_bit(name):
    kernel, _, one = case(name)
    found = []
    try:
        for threads in (1, 2, 8):
            gendr.set_num_threads(threads)
            with all_work_shared():
                found.append(outcome(kernel, one.inputs))
    finally:
        gendr.set_num_threads(None)
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_what_outlived_a_transform_keeps_its_gradient():
    weights, kept = torch.randn(2, 4).requires_grad_(), []

    def loss(x):
        kept.append(weights * x)
        return kept[0].sum()

    torch.func.grad(loss)(torch.ones(2, 4))
    (found,) = torch.autograd.grad(gendr.sorting.soft_sort(kept[0]).sum(), weights)
    assert torch.allclose(found, torch.ones(2, 4), atol=1e-5)  # a sort keeps the sum
