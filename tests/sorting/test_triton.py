"""The Triton backend of the sorting networks against the float64 reference.

Interpreted where there is no GPU.
"""

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.distributions import get, names
from gendr.sorting import Network, network
from gendr.sorting.backends import choice as backends
from gendr.sorting.backends.comparators import Comparators, has_kernel
from gendr.sorting.backends.cpu import backend as cpu_backend
from gendr.sorting.backends.reference import CARRY, GATES
from gendr.sorting.backends.triton import backend, isotonic
from gendr.sorting.permutahedron import ISOTONIC, FastSort
from support import relative_l2
from support.ahead_of_time import CAPABILITIES, launches_compiled
from support.arithmetic import pessimistic_arithmetic
from support.cases import for_each
from support.races import in_any_order
from support.triton import DEVICE, needs_the_interpreter

pytestmark = pytest.mark.usefixtures("nan_in_new_tensors")

TOLERANCE = 1e-5
SYMMETRIC = ["heaviside", *(name for name in names() if get(name).is_symmetric)]
# Comparators that point up and down, idle wires, layers of different sizes.
ODD = Network(5, (((0, 3), (4, 1)), ((2, 0),), ((1, 0), (3, 2)), ((3, 4),)), "odd")

LANES = backend.LAUNCH
MEMORY = backend.Launch(64, 64, 64, 0, shares=1)
# Every loop turns, every grid has several programs, and these work through several items.
SMALL_LANES = backend.Launch(4, 2, 2, 64, 16, 8, 6, 2)
SMALL_MEMORY = backend.Launch(4, 2, 2, 0, 16, 8, 6, 2)
LAUNCHES = {
    "lanes": LANES,
    "memory": MEMORY,
    "small_lanes": SMALL_LANES,
    "small_memory": SMALL_MEMORY,
}


@pytest.fixture(params=LAUNCHES)
def launch(request, monkeypatch):
    monkeypatch.setattr(backend, "LAUNCH", LAUNCHES[request.param])


def leaf(tensor, module):
    """The same float32 numbers, float64 on the CPU for the reference."""
    on, dtype = ("cpu", torch.float64) if module is None else (DEVICE, torch.float32)
    return tensor.detach().to(on, dtype, copy=True).requires_grad_()


def weighted(outputs):
    """A sum of all numbers with weights of their own, and terms that make it curved."""
    generator = torch.Generator().manual_seed(5)
    total = 0
    for out in outputs:
        weight = torch.rand(out.shape, generator=generator, dtype=torch.float64).to(out)
        total = total + (weight * out + 0.5 * (weight * out) ** 2).sum()
    return total


def gates(module, x, wires, law, steepness):
    """Values, keep and swap by the kernels of a backend, None for the definition."""
    kernels = module.Gates if module and has_kernel(law) else None
    return GATES(kernels, Comparators(wires, law), x, steepness)


def carry(module, keep, swap, wires, payload):
    return CARRY(module and module.Carry, wires, keep, swap, payload)


def gated(module, x, wires, law, steepness):
    """Values, keep, swap, and the gradients of the keys and of the steepness."""
    x, steepness = leaf(x, module), leaf(torch.tensor(steepness), module)
    values, keep, swap = gates(module, x, wires, get(law), steepness)
    weighted((values, keep)).backward()
    return values, keep, swap, x.grad, steepness.grad


def carried(module, keep, swap, wires, payload):
    """What comes out, and the gradients of keep and of the payload if there is one."""
    keep, swap = leaf(keep, module), leaf(swap, module).detach()
    payload = None if payload is None else leaf(payload, module)
    out = carry(module, keep, swap, wires, payload)
    (weighted((out,)) + 0 * keep.sum()).backward()  # a single wire has no gates
    return (out, keep.grad) if payload is None else (out, keep.grad, payload.grad)


def assert_equal(got, want, tolerance=TOLERANCE):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == torch.float32
        assert a.shape == b.shape
        assert relative_l2(a.cpu(), b) <= tolerance, index


def some_gates(rows, wires):
    keep = torch.rand(rows, wires.size)
    return keep, 1 - keep


# -- gates


@pytest.mark.rotating(4, group="sorting")
@for_each(law=SYMMETRIC, art=[0.0, 0.25], rotating=2)
def test_gates_of_every_law(law, art):
    law = f"{law}.art({art})" if art else law
    law = "logistic.squared" if law == "heaviside.art(0.25)" else law
    x, wires = torch.randn(3, 6), network("bitonic", 6)
    # The slope |d|^-art amplifies the rounding of values, 3e-7 here, where they nearly
    # tie: in one layer by art / |d| = 0.25 / 8e-4.
    tolerance = 1e-4 if art else TOLERANCE
    got, want = (gated(module, x, wires, law, 2.5) for module in (backend, None))
    assert_equal(got, want, tolerance)


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.usefixtures("launch")
def test_gates_of_every_launch():
    for wires, rows in ((ODD, 7), (network("odd_even", 6), 3)):
        x = torch.randn(rows, wires.n)
        assert_equal(*(gated(module, x, wires, "cauchy", 3.0) for module in (backend, None)))


def test_gates_of_ties():
    for law in ("cauchy", "logistic.art(0.25)", "uniform"):
        x, wires = torch.tensor([[1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]), network("bitonic", 4)
        assert_equal(*(gated(module, x, wires, law, 4.0) for module in (backend, None)))


# -- carry


@pytest.mark.rotating(2)
@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize(("wires", "rows"), [(ODD, 4), (network("bitonic", 6), 2)])
def test_carry(wires, rows, width):
    keep, swap = some_gates(rows, wires)
    payload = None if width is None else torch.randn(rows, wires.n, width)
    assert_equal(*(carried(m, keep, swap, wires, payload) for m in (backend, None)))


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.parametrize("launch", ["lanes", "memory"], indirect=True)
@pytest.mark.usefixtures("launch")
def test_many_wires():
    wires, x = network("bitonic", 33), torch.randn(2, 33)
    keep, swap = some_gates(2, wires)
    assert_equal(*(carried(m, keep, swap, wires, None) for m in (backend, None)))
    assert_equal(*(gated(m, x, wires, "cauchy", 3.0) for m in (backend, None)))


def test_wires_are_in_lanes_or_in_memory(monkeypatch):
    kernels, run = [], backend.run

    def recorder(kernel, *args, **constants):
        kernels.append(kernel.fn.__name__)
        run(kernel, *args, **constants)

    monkeypatch.setattr(backend, "run", recorder)
    for n in (64, 65):
        wires = Network(n, (((0, n - 1),),))
        carried(backend, *some_gates(1, wires), wires, torch.randn(1, n, 1))
    assert kernels == ["carry_lanes", "carry_lanes_gradients", "carry", "carry_gradients"]


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.parametrize("launch", ["lanes", "memory"], indirect=True)
@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(
    ("rows", "n", "width"), [(0, 4, None), (2, 1, None), (2, 1, 3), (2, 4, 0), (1, 2, None)]
)
def test_shapes_at_the_edge(rows, n, width):
    wires = network("odd_even", n)
    keep, swap = some_gates(rows, wires)
    payload = None if width is None else torch.randn(rows, n, width)
    assert_equal(*(carried(m, keep, swap, wires, payload) for m in (backend, None)))
    x = torch.randn(rows, n, device=DEVICE, requires_grad=True)
    values, *_ = gates(backend, x, wires, get("cauchy"), 2.0)
    values.sum().backward()
    assert values.shape == x.shape
    assert torch.allclose(x.grad, torch.ones_like(x), atol=1e-5)  # the sum is kept


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.parametrize("launch", ["small_lanes", "small_memory"], indirect=True)
@pytest.mark.usefixtures("launch")
def test_scratch_is_bounded_and_not_shared(monkeypatch):
    keep, swap = (x.to(DEVICE) for x in some_gates(3, ODD))
    grad, sizes, run = torch.randn(3, 5, 5, device=DEVICE), [], backend.run

    def recorder(kernel, grid, device, *args, **constants):
        scratch = [x for name, x in zip(kernel.arg_names, args, strict=False) if name in SCRATCH]
        sizes.append((grid[0], sum(4 * x.numel() for x in scratch)))
        run(kernel, grid, device, *args, **constants)
        assert all(x.isfinite().all() for x in scratch)  # every program has used its own

    SCRATCH = ("wires", "differences")
    monkeypatch.setattr(backend, "run", recorder)
    backward, wanted = backend.carry_backward, (True, False, False)
    unbounded, *_ = backward(ODD, (keep, swap, None), (), (grad,), wanted)
    programs, used = sizes[0]
    assert programs == 2
    # Where wires are in memory, segments could make room for both programs: not in this much.
    small = vars(backend.LAUNCH) | {"scratch": used // 2}
    monkeypatch.setattr(backend, "LAUNCH", backend.Launch(**small))
    bounded, *_ = backward(ODD, (keep, swap, None), (), (grad,), wanted)
    assert sizes[1][0] == 1
    assert sizes[1][1] <= used // 2
    assert torch.allclose(bounded, unbounded, rtol=1e-5, atol=1e-6)


@pytest.mark.rotating(6)
@pytest.mark.parametrize("launch", ["memory", "small_memory"], indirect=True)
@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize("span", [1, 2, 5])
def test_layers_in_segments(span, width, monkeypatch):
    """The differences of a few layers at a time, of a network of 7: the last segment is shorter."""
    wires = network("odd_even", 7)
    keep, swap = some_gates(3, wires)
    payload = None if width is None else torch.randn(3, 7, width)
    whole = carried(backend, keep, swap, wires, payload)
    segments = -(-7 // span)
    cut = (span, segments, ((segments + 1) * 7, 3 * span))
    monkeypatch.setattr(backend, "cut_layers", lambda network, most: cut)
    parts = carried(backend, keep, swap, wires, payload)
    assert all(map(torch.equal, parts, whole))


def plan(name, n, batch=1, launch=None):
    """The plan of the backward pass on a GPU, and its bytes: of scratch, of gradients of gates."""
    wires, launch = network(name, n), launch or backend.Launch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "LAUNCH", launch)
        block = backend.carry_block(wires, n, launch.held_back)[1]
        columns = block["COLUMNS"]
        found = backend.planned(wires, batch, -(-n // columns), columns, block.get("WIRES"))
    scratch = 4 * found.programs * sum(found.rows) * columns
    return found, scratch, 4 * batch * found.shares * wires.size


@pytest.mark.rotating(4, group="sorting")
def test_a_deep_network_has_as_many_programs_as_blocks_of_columns():
    found, scratch, gates = plan("odd_even", 1024)
    assert (found.shares, found.programs) == (128, 128)
    assert found.segments > 1
    assert scratch <= 1 << 28
    assert gates <= 1 << 29
    found, scratch, _ = plan("bitonic", 1024)
    assert (found.shares, found.programs, found.segments) == (128, 128, 1)
    assert scratch <= 1 << 28


# -- the permutahedron


def projected(backend, x, weights, steepness, regularization, face):
    """Values or ranks, and the gradients of x and of the steepness, which one is asked for."""
    found = []
    for learnt in (False, True):
        leaf = x.to("cpu" if backend == "cpu" else DEVICE, copy=True).requires_grad_()
        steep = torch.tensor(steepness, dtype=leaf.dtype, device=leaf.device, requires_grad=learnt)
        sort = FastSort(steep if learnt else steepness, regularization, backend)
        result = getattr(sort, face)(leaf)
        wanted = (leaf, steep) if learnt else (leaf,)
        grads = torch.autograd.grad(result, wanted, weights.to(leaf))
        found += [result.detach().cpu(), *(grad.cpu() for grad in grads)]
    return found


@for_each(
    n=[1, 2, 3, 7, 13, 19],
    steepness=[0.05, 1.5, 1e3],
    regularization=["l2", "entropic"],
    face=["ranks", "values"],
    rotating=72,
)
def test_the_projection_is_that_of_the_cpu(n, steepness, regularization, face, monkeypatch):
    """Of lists that are in no block, in many and in one; with ties, far apart, and one with NaN."""
    monkeypatch.setattr(isotonic, "LANES", 8)
    x = torch.randn(4, n, dtype=torch.float64)
    x[1], x[2] = x[1].round(), 1e20 * x[2]
    x[3, n // 2] = torch.nan
    weights = torch.randn(4, n)
    weights[3] = 0
    for keys, rtol in ((x, 1e-9), (x.float(), 2e-6)):
        case = keys, weights, steepness, regularization, face
        got, want = (projected(name, *case) for name in ("triton", "cpu"))
        atol = rtol * max(1.0, steepness)
        for place, (a, b) in enumerate(zip(got, want, strict=True)):
            # The gradient of a list with NaN is nothing.
            rows = ... if place in (0, 2) or a.ndim == 0 else slice(3)
            torch.testing.assert_close(a[rows], b[rows], rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.rotating(4, group="sorting")
def test_isotonic_regression_is_that_of_the_cpu(monkeypatch):
    monkeypatch.setattr(isotonic, "LANES", 8)
    kernels = backend.KERNELS[ISOTONIC.name], cpu_backend.KERNELS[ISOTONIC.name]
    x = torch.randn(3, 37, dtype=torch.float64)
    x[1], x[2] = x[1].sort()[0], -x[2].sort()[0]  # every position for itself, and all in one block
    weights, found = torch.randn_like(x), []
    for each, device in zip(kernels, (DEVICE, "cpu"), strict=True):
        leaf = x.to(device, copy=True).requires_grad_()
        result = ISOTONIC(each, None, leaf)
        found.append((result.cpu(), torch.autograd.grad(result, leaf, weights.to(device))[0].cpu()))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
    assert torch.equal(found[0][0][1], x[1])


# -- choice


def test_float64_is_for_the_reference():
    x = torch.zeros(1, 4, dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match=r"'triton' does not serve tensors on .* of float64"):
        backends.choose("triton", x)
    assert backends.choose("triton", x.float()) is backend


# -- ahead of time

# In a process of its own: this one may interpret kernels, and then Triton cannot compile.
SCRIPT = """
import torch
from gendr import topk
from gendr.distributions import get
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.backends.triton import backend, isotonic
from gendr.sorting.networks import network
from support.ahead_of_time import compile_launches

cases = compile_launches()
for law, (name, n, *k), width in cases:
    if name == "permutahedron":
        x, entropic = torch.zeros(2, n), law == "entropic"
        for kernels in (isotonic.Ranks, isotonic.Values):
            (y,), saved = kernels.forward(entropic, x, 1.0, save=True)
            kernels.backward(entropic, (x, 1.0), saved, (y,), (True, False))
        if not entropic:
            x = x.double()
            _, saved = isotonic.Isotonic.forward(None, x, save=True)
            isotonic.Isotonic.backward(None, (x,), saved, (x,), (True,))
        continue
    wires = topk.network(name, n, *k) if k else network(name, n)
    comparators, x = Comparators(wires, get(law)), torch.zeros(2, n)
    payload = None if width is None else torch.zeros(2, n, width)
    (_, keep, swap), saved = backend.gates_forward(comparators, x, 1.0, save=True)
    backend.gates_backward(comparators, (x, 1.0), saved, (x, keep, None), (True, False))
    grads, _ = backend.carry_forward(wires, keep, swap, payload, save=True)
    backend.carry_backward(wires, (keep, swap, payload), (), grads, (True, False, True))
"""
# Rows that are aligned and rows that are not; the candidates of a top-k loss.
CASES = [
    ("cauchy", ["bitonic", 1024], None),
    ("logistic.art(0.25)", ["bitonic", 33], 3),
    ("cauchy", ["splitter", 16, 5], 1),
    ("l2", ["permutahedron", 1000], None),
    ("entropic", ["permutahedron", 33], None),
]
COMPILED = [
    *("gates", "gates_gradients", "carry", "carry_gradients"),
    *("gates", "gates_gradients", "carry_lanes", "carry_lanes_gradients") * 2,
    *("project", "project_gradients") * 5,
]

# With 168 registers three programs of four warps share the 65,536 of a multiprocessor. A projection
# of 1,000 values has eight warps: with 129 to 255 registers a multiprocessor works on one row. Two
# rows would need at most 128, and held to those, or to 168, it spills 8 to 536 bytes a thread; of
# twice as many warps one row fits with 128, and it spills still.
# Entropic values spill up to 48 as it is.
MOST = {"project": 255}


@pytest.mark.every
def test_kernels_compile_ahead_of_time_and_spill_nothing():
    found = launches_compiled(SCRIPT, CASES, CAPABILITIES)
    assert [x[:2] for x in found] == [(name, c) for name in COMPILED for c in CAPABILITIES]
    for name, capability, usage in found:
        assert usage.local == 0, (name, capability)
        assert 0 < usage.registers <= MOST.get(name, 168), (name, capability)


# -- what the interpreter hides: races, their order, the arithmetic of a GPU -----------------------

RACED = {
    *("gates", "gates_gradients", "carry", "carry_gradients"),
    *("carry_lanes", "carry_lanes_gradients"),
}
# Every loop turns, every grid has several programs, and these work through several items.
SMALL = {"gates": 4, "pairs": 2, "columns": 2, "held": 16, "held_back": 8, "shares": 6}
SMALL |= {"programs": 2}
# The network, wires in lanes (64) or in memory (0), columns of a payload, and the law.
SCENES = {
    "lanes": (ODD, 64, 3, "cauchy"),
    "memory": (ODD, 0, 3, "logistic.art(0.25)"),
    "matrix in lanes": (network("bitonic", 4), 64, None, "gaussian"),
    "matrix in memory": (network("bitonic", 4), 0, None, "reciprocal"),
}


def sorted_by(module, scene):
    """Values, gates, what is carried, and the gradients of keys, steepness and payload.

    Args:
        module: a backend, None for the definitions.
    """
    wires, lanes, columns, law = SCENES[scene]
    dtype = torch.float32 if module is backend else torch.float64
    generator = torch.Generator().manual_seed(4)

    def leaf(*shape):
        return torch.randn(shape, generator=generator).to(dtype).requires_grad_()

    x, steepness = leaf(3, wires.n), torch.tensor(2.5, dtype=dtype, requires_grad=True)
    payload = None if columns is None else leaf(3, wires.n, columns)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(backend, "LAUNCH", backend.Launch(**SMALL, wires=lanes))
        comparators = Comparators(wires, get(law))
        values, keep, swap = GATES(module and module.Gates, comparators, x, steepness)
        out = CARRY(module and module.Carry, wires, keep, swap, payload)
        weights = torch.linspace(-1, 2, out.numel()).reshape(out.shape).to(out)
        (values.square().sum() + (weights * out).sum()).backward()
    outputs = [t.detach() for t in (values, keep, swap, out)]
    return [*outputs, x.grad, steepness.grad, *([payload.grad] if columns else [])]


def projections():
    """Soft ranks and values of lists that are in a few blocks each, and their gradients."""
    x, found = torch.randn(2, 9, generator=torch.Generator().manual_seed(4)), []
    for regularization, steepness in (("l2", 3.0), ("entropic", 2.0)):
        for face in ("ranks", "values"):
            leaf = x.clone().requires_grad_()
            result = getattr(FastSort(steepness, regularization, "triton"), face)(leaf)
            weights = torch.linspace(-1, 2, x.numel()).reshape(x.shape)
            found += [result.detach(), *torch.autograd.grad(result, leaf, weights)]
    return found


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_projections_have_no_race_either(monkeypatch):
    monkeypatch.setattr(isotonic, "LANES", 4)
    watch, shuffled = in_any_order(projections)
    assert {*watch.kernels} == {"project", "project_gradients"}
    for got, want in zip(shuffled, projections(), strict=True):
        assert torch.equal(got, want)


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits():
    kernels = set()
    for scene in SCENES:
        watch, shuffled = in_any_order(lambda scene=scene: sorted_by(backend, scene))
        assert min(watch.programs) > 1
        for got, want in zip(shuffled, sorted_by(backend, scene), strict=True):
            assert torch.equal(got, want)
        kernels |= {*watch.kernels}
    assert kernels >= RACED


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_the_arithmetic_of_a_gpu_is_accurate_enough(signs):
    for scene in SCENES:
        with pessimistic_arithmetic(signs, fused=True):
            got = sorted_by(backend, scene)
        for index, (a, b) in enumerate(zip(got, sorted_by(None, scene), strict=True)):
            assert relative_l2(a, b) <= TOLERANCE, index
