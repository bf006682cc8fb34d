"""The Triton backend of layers of gates against the float64 reference.

Interpreted where there is no GPU.
"""

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.logic import GroupSum, LogicLayer
from support import relative_l2
from support.arithmetic import pessimistic_arithmetic
from support.cases import for_each
from support.races import in_any_order
from support.triton import DEVICE, as_on_a_gpu, needs_the_interpreter, small_gates

pytestmark = pytest.mark.usefixtures("nan_in_new_tensors")

OPERATORS = torch.ops.gendr
# Relative. Numbers of 16 bits are rounded once; the interpreter rounds bfloat16 towards 0.
TOLERANCE = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
# Features, gates, rows of the batch.
SHAPES = [(9, 7, 1), (7, 1, 5), (20, 33, 37), (8, 40, 256), (6, 3, 257)]


def layer_of(fan_in, shape, dtype=torch.float32, **options):
    """A layer that learns truth tables, features [B, F] and a gradient of the outputs."""
    features, count, batch = shape
    torch.manual_seed(0)
    x, grad = torch.rand(batch, features), torch.rand(batch, count) - 0.3
    if "wiring" not in options:
        options["seed"] = 0
    options |= {"init": "normal", "parametrization": "table", "backend": "triton"}
    layer = LogicLayer(features, count, fan_in, **options)
    return layer.to(DEVICE, dtype), *(t.to(DEVICE, dtype) for t in (x, grad))


def outcome(layer, x, grad):
    """Outputs, and the gradients of features and weights."""
    leaf = x.clone().requires_grad_()
    y = layer(leaf)
    return [y.detach(), *torch.autograd.grad(y, (leaf, layer.weight), grad)]


def defined(layer, x, grad):
    """The same by the definition in float64, from the tables that the layer has in its dtype."""
    tables, leaf = layer.soft_tables(), x.double().requires_grad_()
    entries = exact = tables.detach().double().requires_grad_()
    for wires in layer.wires:  # the first input is the first digit of an entry's number
        entries = entries.unflatten(-1, (2, -1))
        no, yes = entries.unbind(-2)
        entries = torch.lerp(no, yes, leaf[:, wires, None])
    of_x, of_tables = torch.autograd.grad(entries[..., 0], (leaf, exact), grad.double())
    of_weights = torch.autograd.grad(tables, layer.weight, of_tables.to(tables.dtype))
    return [t.double().cpu() for t in (entries[..., 0].detach(), of_x, *of_weights)]


def assert_equal(got, want, tolerance):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape
        assert relative_l2(a.double().cpu(), b) <= tolerance, index


@for_each(fan_in=range(1, 7), shape=SHAPES, dtype=TOLERANCE, rotating=15)
def test_outputs_and_gradients_equal_the_reference(fan_in, shape, dtype):
    given = layer_of(fan_in, shape, dtype)
    got = outcome(*given)
    assert all(t.dtype == dtype for t in got)
    assert_equal(got, defined(*given), TOLERANCE[dtype])


@for_each(fan_in=range(1, 7), rotating=2)
def test_any_launch_gives_the_same_bits(fan_in, monkeypatch):
    """Only sums over the batch may differ, which are cut into blocks."""
    given = layer_of(fan_in, (7, 5, 6))
    found = [outcome(*given)]
    for patch in (small_gates, as_on_a_gpu):
        patch(monkeypatch)
        found.append(outcome(*given))
    for y, of_x, of_tables in found[1:]:
        assert torch.equal(y, found[0][0])
        assert torch.equal(of_x, found[0][1])
        torch.testing.assert_close(of_tables, found[0][2])


def test_a_feature_of_many_readers_and_one_of_none():
    wires = torch.tensor([[0] * 20 + [1, 2], [1] * 10 + [0] * 10 + [2, 2]])
    given = layer_of(2, (4, 22, 9), wiring=wires)
    got = outcome(*given)
    assert_equal(got, defined(*given), 1e-6)
    assert (got[1][:, 3] == 0).all()


def test_only_what_is_wanted():
    layer, x, grad = layer_of(3, (20, 33, 37))
    _, of_x, of_tables = outcome(layer, x, grad)
    assert torch.equal(torch.autograd.grad(layer(x), layer.weight, grad)[0], of_tables)
    leaf = x.clone().requires_grad_()
    layer.requires_grad_(False)
    assert torch.equal(torch.autograd.grad(layer(leaf), leaf, grad)[0], of_x)


# -- what the interpreter hides: races, their order, the arithmetic of a GPU

KERNELS = ["gates", "tables_gradients", "features_gradients"]
SCENES = [(1, (5, 7, 9)), (2, (6, 11, 9)), (6, (7, 5, 6))]


@pytest.mark.rotating(4, group="logic")
@needs_the_interpreter
@for_each("fan_in, shape", SCENES, rotating=2)
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(
    fan_in, shape, monkeypatch
):
    small_gates(monkeypatch)
    given = layer_of(fan_in, shape)
    watch = in_any_order(lambda: outcome(*given))
    assert set(watch.kernels) == set(KERNELS)
    assert min(watch.programs) > 1


@pytest.mark.rotating(4, group="logic")
@needs_the_interpreter
@for_each("fan_in, shape", SCENES)
def test_the_arithmetic_of_a_gpu_is_accurate_enough(fan_in, shape, signs, monkeypatch):
    small_gates(monkeypatch)
    given = layer_of(fan_in, shape)
    with pessimistic_arithmetic(signs, fused=True):
        got = outcome(*given)
    assert_equal(got, defined(*given), 1e-6)


# -- graphs


@pytest.fixture
def _forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.graphs
@pytest.mark.usefixtures("_forget")
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.rotating(7, group="graphs")
@pytest.mark.parametrize("has_run", [False, True])
def test_a_network_is_one_graph(has_run):
    model = nn.Sequential(
        LogicLayer(9, 14, init="normal", seed=0, backend="triton"),
        LogicLayer(14, 6, 3, init="normal", seed=1, backend="triton"),
        GroupSum(2),
    ).to(DEVICE)
    other = LogicLayer(9, 14, seed=5)
    x = torch.rand(5, 9, device=DEVICE)

    def step(run):
        leaf = x.clone().requires_grad_()
        y = run(leaf)
        return [y, *torch.autograd.grad(y.square().sum(), [leaf, *model.parameters()])]

    if has_run:
        before = step(model)
    graph = torch.compile(model, backend="aot_eager", fullgraph=True)
    before = step(graph)
    for a, b in zip(before, step(model), strict=True):
        torch.testing.assert_close(a, b)
    # Other wires in the same memory, as from a state dict.
    with torch.no_grad():
        model[0].wires.copy_(other.wires)
    after = step(graph)
    assert not torch.equal(after[0], before[0])
    for a, b in zip(after, step(model), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.rotating(4, group="logic")
@pytest.mark.filterwarnings("ignore")
def test_operators_are_what_torch_takes_them_for():
    layer, x, grad = layer_of(2, (9, 7, 5))
    x, grad, tables = x.T.contiguous(), grad.T.contiguous(), torch.rand(7, 4, device=DEVICE)
    torch.library.opcheck(
        OPERATORS.logic_gates, (x.requires_grad_(), tables.requires_grad_(), layer.wires)
    )
    for wants_x in (True, False):
        inputs = (x, tables, layer.wires, grad, wants_x)
        torch.library.opcheck(
            OPERATORS.logic_gates_gradients, inputs, test_utils=("test_schema", "test_faketensor")
        )


def test_float64_is_for_the_reference():
    layer, x, _ = layer_of(2, (9, 7, 5), torch.float64)
    with pytest.raises(ValueError, match=r"'triton' does not serve tensors on .* of float64"):
        layer(x)
