"""The Triton backend of layers of gates against the float64 reference.

Interpreted where there is no GPU.
"""

from itertools import product

import pytest
import torch
from torch import nn

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.kernels.triton.launch import interpreted
from gendr.logic import GroupSum, LogicLayer, random_wiring
from gendr.logic.backends import choice
from gendr.logic.backends.reference import SOFT_GATES
from gendr.logic.backends.triton import backend
from gendr.logic.backends.wires import Wires
from support import relative_l2
from support.ahead_of_time import CAPABILITIES, launches_compiled
from support.arithmetic import pessimistic_arithmetic
from support.cases import for_each
from support.races import in_any_order

pytestmark = pytest.mark.usefixtures("nan_in_new_tensors")

DEVICE = "cpu" if interpreted() else "cuda"
OPERATORS = torch.ops.gendr
# Relative. Numbers of 16 bits are rounded once; the interpreter rounds bfloat16 towards 0.
TOLERANCE = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
# Every loop turns, every grid has several programs.
SMALL = backend.GateLaunch(batch=4, elements=8, table_elements=16)
LAUNCHES = {"usual": backend.LAUNCH, "small": SMALL, "gpu": backend.GateLaunch()}
# Features, gates, rows of the batch.
SHAPES = [(9, 7, 1), (7, 1, 5), (20, 33, 37), (8, 40, 256), (6, 3, 257)]


def layer_of(fan_in, shape, dtype, seed=0):
    """Features [F, B], wires, tables and a gradient of the outputs, on the device."""
    features, count, batch = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(features, batch, generator=generator)
    tables = torch.rand(count, 1 << fan_in, generator=generator)
    grad = torch.rand(count, batch, generator=generator) - 0.3
    wires = random_wiring(features, count, fan_in, seed=seed).to(DEVICE)
    return [*(t.to(DEVICE, dtype) for t in (x, tables, grad)), Wires(wires, features)]


def outcome(kernels, x, tables, grad, wires):
    """Outputs and the gradients of features and tables, by the reference in float64 on the CPU."""
    if kernels is None:
        x, tables, grad = (t.double().cpu() for t in (x, tables, grad))
        wires = Wires(wires.inputs.cpu(), wires.features)
    x, tables = (t.clone().requires_grad_() for t in (x, tables))
    y = SOFT_GATES(kernels, wires, x, tables)
    return [y.detach(), *torch.autograd.grad(y, (x, tables), grad)]


def assert_equal(got, want, tolerance):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape
        assert relative_l2(a.double().cpu(), b) <= tolerance, index


@for_each("fan_in, shape", list(product(range(1, 7), SHAPES)), rotating=15, dtype=TOLERANCE)
def test_outputs_and_gradients_equal_the_reference(fan_in, shape, dtype):
    given = layer_of(fan_in, shape, dtype)
    got = outcome(backend, *given)
    assert all(t.dtype == dtype for t in got)
    assert_equal(got, outcome(None, *given), TOLERANCE[dtype])


@for_each(fan_in=range(1, 7), rotating=2)
def test_any_launch_gives_the_same_bits(fan_in, monkeypatch):
    """Only sums over the batch may differ, which are cut into blocks."""
    given = layer_of(fan_in, (7, 5, 6), torch.float32)
    found = []
    for launch in LAUNCHES.values():
        monkeypatch.setattr(backend, "LAUNCH", launch)
        found.append(outcome(backend, *given))
    for y, of_x, of_tables in found[1:]:
        assert torch.equal(y, found[0][0])
        assert torch.equal(of_x, found[0][1])
        torch.testing.assert_close(of_tables, found[0][2])


def test_a_feature_of_many_readers_and_one_of_none():
    wires = torch.tensor([[0] * 20 + [1, 2], [1] * 10 + [0] * 10 + [2, 2]], device=DEVICE)
    x, tables, grad, _ = layer_of(2, (4, 22, 9), torch.float32)
    given = x, tables, grad, Wires(wires, 4)
    got = outcome(backend, *given)
    assert_equal(got, outcome(None, *given), 1e-6)
    assert (got[1][3] == 0).all()


def test_only_what_is_wanted():
    x, tables, grad, wires = layer_of(3, (20, 33, 37), torch.float32)
    _, of_x, of_tables = outcome(backend, x, tables, grad, wires)
    leaf = tables.clone().requires_grad_()
    assert torch.equal(
        torch.autograd.grad(SOFT_GATES(backend, wires, x, leaf), leaf, grad)[0], of_tables
    )
    leaf = x.clone().requires_grad_()
    assert torch.equal(
        torch.autograd.grad(SOFT_GATES(backend, wires, leaf, tables), leaf, grad)[0], of_x
    )


# -- what the interpreter hides: races, their order, the arithmetic of a GPU

KERNELS = ["gates", "tables_gradients", "features_gradients"]
HIDDEN = pytest.mark.skipif(not interpreted(), reason="it hooks the interpreter")
SCENES = [(1, (5, 7, 9)), (2, (6, 11, 9)), (6, (7, 5, 6))]


@pytest.mark.rotating(4, group="logic")
@HIDDEN
@for_each("fan_in, shape", SCENES, rotating=2)
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(
    fan_in, shape, monkeypatch
):
    monkeypatch.setattr(backend, "LAUNCH", SMALL)
    given = layer_of(fan_in, shape, torch.float32)
    watch, shuffled = in_any_order(lambda: outcome(backend, *given))
    assert set(watch.kernels) == set(KERNELS)
    assert min(watch.programs) > 1
    assert all(map(torch.equal, shuffled, outcome(backend, *given)))


@pytest.mark.rotating(4, group="logic")
@HIDDEN
@for_each("fan_in, shape", SCENES)
def test_the_arithmetic_of_a_gpu_is_accurate_enough(fan_in, shape, signs, monkeypatch):
    monkeypatch.setattr(backend, "LAUNCH", SMALL)
    given = layer_of(fan_in, shape, torch.float32)
    with pessimistic_arithmetic(signs, fused=True):
        got = outcome(backend, *given)
    assert_equal(got, outcome(None, *given), 1e-6)


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
    x, tables, grad, wires = layer_of(2, (9, 7, 5), torch.float32)
    torch.library.opcheck(
        OPERATORS.logic_gates, (x.requires_grad_(), tables.requires_grad_(), wires.inputs)
    )
    for wants_x in (True, False):
        inputs = (x, tables, wires.inputs, grad, wants_x)
        torch.library.opcheck(
            OPERATORS.logic_gates_gradients, inputs, test_utils=("test_schema", "test_faketensor")
        )


# -- choice


def test_float64_is_for_the_reference():
    x = torch.zeros(4, 1, dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match=r"'triton' does not serve tensors on .* of float64"):
        choice.choose("triton", x)
    for dtype in TOLERANCE:
        assert choice.choose("triton", x.to(dtype)) is backend


@for_each(dtype=[*TOLERANCE, torch.float64])
def test_auto_on_a_gpu(dtype, monkeypatch):
    class OnGpu:
        """A stand-in for a tensor on a GPU, with what `choose` reads of it."""

        device, is_cuda = torch.device("cuda"), True

    OnGpu.dtype = dtype
    monkeypatch.setattr(backend, "available", lambda: None)
    assert choice.choose("auto", OnGpu()) is (backend if dtype in TOLERANCE else None)


# -- ahead of time

# In a process of its own: this one may interpret kernels, and then Triton cannot compile.
SCRIPT = """
import torch
from gendr.logic import random_wiring
from gendr.logic.backends.triton import backend
from gendr.logic.backends.wires import Wires
from support.ahead_of_time import compile_launches

cases = compile_launches()
for fan_in, batch, dtype in cases:
    wires = Wires(random_wiring(784, 8000, fan_in, seed=0), 784)
    x = torch.zeros(784, batch, dtype=getattr(torch, dtype))
    tables = torch.zeros(8000, 1 << fan_in, dtype=x.dtype)
    (grad,), _ = backend.forward(wires, x, tables, save=True)
    backend.backward(wires, (x, tables), (), (grad,), (True, True))
"""
# Rows that are aligned and rows that are not, one row, the most inputs, half precision.
CASES = [(2, 100, "float32"), (2, 1, "float32"), (1, 512, "float16"), (6, 256, "bfloat16")]


@pytest.mark.every
@pytest.mark.slow
def test_kernels_compile_ahead_of_time_and_spill_nothing():
    found = launches_compiled(SCRIPT, CASES, CAPABILITIES)
    assert [x[:2] for x in found] == [
        (name, c) for name in KERNELS * len(CASES) for c in CAPABILITIES
    ]
    for *what, usage in found:
        assert usage.local == 0, what
        assert 0 < usage.registers <= 128, what
