"""The Triton backend of the sorting networks against the float64 reference.

Interpreted where there is no GPU.
"""

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr import distributions
from gendr.sorting import Network, get, network, permutation, soft_sort
from gendr.sorting.backends.cpu import backend as cpu_backend
from gendr.sorting.backends.triton import backend, isotonic
from gendr.sorting.permutahedron import ISOTONIC
from gendr.topk import soft_topk_mask
from support import relative_l2
from support.arithmetic import pessimistic_arithmetic
from support.cases import for_each
from support.races import checked_launches, in_any_order
from support.triton import DEVICE, needs_the_interpreter

pytestmark = pytest.mark.usefixtures("nan_in_new_tensors")

TOLERANCE = 1e-5
SYMMETRIC = ["heaviside"]
SYMMETRIC += [
    name for name, dist in distributions.standard_distributions().items() if dist.is_symmetric
]
# Comparators that point up and down, idle wires, layers of different sizes.
ODD = Network(5, (((0, 3), (4, 1)), ((2, 0),), ((1, 0), (3, 2)), ((3, 4),)), "odd")
LAUNCHES = {
    "lanes": backend.LAUNCH,
    "memory": backend.Launch(64, 64, 64, 0, shares=1),
    # Every loop turns, every grid has several programs, and these work through several items.
    "small_lanes": backend.Launch(4, 2, 2, 64, 16, 8, 6, 2),
    "small_memory": backend.Launch(4, 2, 2, 0, 16, 8, 6, 2),
}


@pytest.fixture(params=LAUNCHES)
def launch(request, monkeypatch):
    monkeypatch.setattr(backend, "LAUNCH", LAUNCHES[request.param])


def found(by, wires, dist, x, steepness=2.5, width=None):
    """Values, what is carried, and the gradients of keys, steepness and payload.

    Args:
        by: "triton" for float32, "reference" for the same numbers in float64 on the CPU.
        width: of a payload; None for the matrix.
    """
    on, dtype = ("cpu", torch.float64) if by == "reference" else (DEVICE, torch.float32)
    generator = torch.Generator().manual_seed(5)
    given = [x, torch.tensor(steepness)]
    given += [] if width is None else [torch.randn(*x.shape, width, generator=generator)]
    keys, steep, *payload = given = [
        t.detach().to(on, dtype, copy=True).requires_grad_() for t in given
    ]
    sort = get("network", network=wires, steepness=steep, dist=dist, backend=by)
    results = sort.values(keys), sort.carried(keys, *payload) if payload else sort.permutation(keys)
    loss = 0
    for result in results:
        assert result.dtype == dtype
        weight = torch.rand(result.shape, generator=generator, dtype=torch.float64).to(result)
        loss = loss + (weight * result + 0.5 * (weight * result) ** 2).sum()  # which is curved
    return [r.detach() for r in results], torch.autograd.grad(loss, given, materialize_grads=True)


def assert_right(*case, tolerance=TOLERANCE, **options):
    got, want = (found(by, *case, **options) for by in ("triton", "reference"))
    for index, (a, b) in enumerate(zip([*got[0], *got[1]], [*want[0], *want[1]], strict=True)):
        assert a.shape == b.shape
        assert relative_l2(a.cpu(), b) <= tolerance, index


@pytest.mark.rotating(4, group="sorting")
@for_each(dist=SYMMETRIC, art=[0.0, 0.25], rotating=2)
def test_every_distribution(dist, art):
    dist = f"{dist}.art({art})" if art else dist
    dist = "logistic.squared" if dist == "heaviside.art(0.25)" else dist
    # The slope |d|^-art amplifies the rounding of values, 3e-7 here, where they nearly
    # tie: in one layer by art / |d| = 0.25 / 8e-4.
    assert_right(network("bitonic", 6), dist, torch.randn(3, 6), tolerance=1e-4 if art else 1e-5)


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.usefixtures("launch")
def test_every_launch():
    for wires, rows in ((ODD, 7), (network("odd_even", 6), 3)):
        for width in (None, 3):
            assert_right(wires, "cauchy", torch.randn(rows, wires.n), 3.0, width=width)


def test_ties():
    x = torch.tensor([[1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]])
    for dist in ("cauchy", "logistic.art(0.25)", "uniform"):
        assert_right(network("bitonic", 4), dist, x, 4.0)


def test_lists_that_are_not_finite_are_nan():
    keys = [[1.0, bad, 2.0, 0.5] for bad in (torch.nan, torch.inf, -torch.inf)]
    leaf = torch.tensor([*keys, [3.0, 1.0, 2.0, 2.5]], device=DEVICE, requires_grad=True)
    options = {"backend": "triton", "check": False}
    for result, has_gradient in (
        (soft_sort(leaf, "bitonic", **options), True),
        (permutation(leaf, "bitonic", **options), True),
        (soft_topk_mask(leaf, 2, "uniform", **options), True),
        (soft_sort(leaf, "permutahedron", **options), False),
    ):
        (grad,) = torch.autograd.grad(result.square().sum(), leaf)
        assert result[:3].isnan().all()
        assert result[3].isfinite().all()
        assert not has_gradient or grad[:3].isnan().all()
        assert grad[3].isfinite().all()


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.parametrize("launch", ["lanes", "memory"], indirect=True)
@pytest.mark.usefixtures("launch")
def test_many_wires_and_shapes_at_the_edge():
    assert_right(network("bitonic", 33), "cauchy", torch.randn(2, 33), 3.0)
    for rows, n, width in ((0, 4, None), (2, 1, None), (2, 1, 3), (2, 4, 0), (1, 2, None)):
        assert_right(network("odd_even", n), "cauchy", torch.randn(rows, n), 2.0, width=width)


@needs_the_interpreter
def test_wires_are_in_lanes_or_in_memory():
    for n, names in ((64, {"carry_lanes", "carry_lanes_gradients"}),
                     (65, {"carry", "carry_gradients"})):  # fmt: skip
        with checked_launches() as watch:
            found("triton", Network(n, (((0, n - 1),),)), "cauchy", torch.randn(1, n), width=1)
        assert names == {name for name in watch.kernels if name.startswith("carry")}


def some_gates(rows, wires):
    keep = torch.rand(rows, wires.size, device=DEVICE)
    return keep, 1 - keep


@pytest.mark.rotating(4, group="sorting")
@pytest.mark.parametrize("launch", ["small_lanes", "small_memory"], indirect=True)
@pytest.mark.usefixtures("launch")
def test_scratch_is_bounded_and_not_shared(monkeypatch):
    keep, swap = some_gates(3, ODD)
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
    x = torch.randn(3, 7)
    whole = found("triton", wires, "cauchy", x, width=width)
    segments = -(-7 // span)
    cut = (span, segments, ((segments + 1) * 7, 3 * span))
    monkeypatch.setattr(backend, "cut_layers", lambda network, most: cut)
    parts = found("triton", wires, "cauchy", x, width=width)
    assert all(map(torch.equal, [*parts[0], *parts[1]], [*whole[0], *whole[1]]))


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
        options = {"regularization": regularization, "backend": backend}
        sort = get("permutahedron", steepness=steep if learnt else steepness, **options)
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
    """Of lists in no block, in many and in one; far from 0, with ties, far apart, with NaN."""
    monkeypatch.setattr(isotonic, "LANES", 8)
    x = torch.randn(5, n, dtype=torch.float64)
    x[0], x[1], x[2] = x[0] + 1e3, x[1].round(), 1e20 * x[2]
    x[4, n // 2] = torch.nan
    weights = torch.randn(5, n)
    weights[4] = 0
    for keys, rtol in ((x, 1e-9), (x.float(), 2e-6)):
        case = keys, weights, steepness, regularization, face
        got, want = (projected(name, *case) for name in ("triton", "cpu"))
        atol = rtol * max(1.0, steepness)
        for place, (a, b) in enumerate(zip(got, want, strict=True)):
            # The gradient of a list with NaN is nothing.
            rows = ... if place in (0, 2) or a.ndim == 0 else slice(4)
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


def test_float64_is_for_the_reference():
    x = torch.zeros(1, 4, dtype=torch.float64, device=DEVICE)
    for name in ("bitonic", "odd_even"):
        with pytest.raises(ValueError, match=r"'triton' does not serve tensors on .* of float64"):
            get(name, backend="triton").values(x)


# -- what the interpreter hides: races, their order, the arithmetic of a GPU -----------------------

# The network, how it is launched, columns of a payload, and the distribution.
SCENES = [
    (ODD, "small_lanes", 3, "cauchy"),
    (ODD, "small_memory", 3, "logistic.art(0.25)"),
    (network("bitonic", 4), "small_lanes", None, "gaussian"),
    (network("bitonic", 4), "small_memory", None, "reciprocal"),
]


def projections():
    """Soft ranks and values of lists that are in a few blocks each, and their gradients."""
    x, found = torch.randn(2, 9, generator=torch.Generator().manual_seed(4)), []
    for regularization, steepness in (("l2", 3.0), ("entropic", 2.0)):
        for face in ("ranks", "values"):
            leaf = x.clone().requires_grad_()
            options = {"regularization": regularization, "backend": "triton"}
            result = getattr(get("permutahedron", steepness=steepness, **options), face)(leaf)
            weights = torch.linspace(-1, 2, x.numel()).reshape(x.shape)
            found += [result.detach(), *torch.autograd.grad(result, leaf, weights)]
    return found


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_projections_have_no_race_either(monkeypatch):
    monkeypatch.setattr(isotonic, "LANES", 4)
    assert {*in_any_order(projections).kernels} == {"project", "project_gradients"}


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(monkeypatch):
    kernels = set()
    for wires, launched, width, dist in SCENES:
        monkeypatch.setattr(backend, "LAUNCH", LAUNCHES[launched])
        x = torch.randn(3, wires.n)

        def sorted_(wires=wires, dist=dist, x=x, width=width):
            results, grads = found("triton", wires, dist, x, width=width)
            return [*results, *grads]

        watch = in_any_order(sorted_)
        assert min(watch.programs) > 1
        kernels |= {*watch.kernels}
    assert kernels >= {
        *("gates", "gates_gradients", "carry", "carry_gradients"),
        *("carry_lanes", "carry_lanes_gradients"),
    }  # fmt: skip


@needs_the_interpreter
@pytest.mark.rotating(4, group="sorting")
def test_the_arithmetic_of_a_gpu_is_accurate_enough(signs, monkeypatch):
    for wires, launched, width, dist in SCENES:
        monkeypatch.setattr(backend, "LAUNCH", LAUNCHES[launched])
        x = torch.randn(3, wires.n)
        with pessimistic_arithmetic(signs, fused=True):
            got = found("triton", wires, dist, x, width=width)
        want = found("reference", wires, dist, x, width=width)
        for index, (a, b) in enumerate(zip([*got[0], *got[1]], [*want[0], *want[1]], strict=True)):
            assert relative_l2(a, b) <= TOLERANCE, index
