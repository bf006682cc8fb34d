"""What Triton's interpreter hides of the sorting kernels: races, their order, GPU arithmetic."""

import pytest
import torch

from support import relative_l2

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.distributions import get
from gendr.kernels.triton.launch import interpreted
from gendr.sorting import Network, network
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.backends.reference import CARRY, GATES
from gendr.sorting.backends.triton import backend, isotonic
from gendr.sorting.permutahedron import FastSort
from support.arithmetic import pessimistic_arithmetic
from support.races import in_any_order

pytestmark = [
    pytest.mark.skipif(not interpreted(), reason="it hooks the interpreter"),
    pytest.mark.usefixtures("nan_in_new_tensors"),
]

TOLERANCE = 1e-5
KERNELS = {
    *("gates", "gates_gradients", "carry", "carry_gradients"),
    *("carry_lanes", "carry_lanes_gradients"),
}
# Every loop turns, every grid has several programs, and these work through several items.
SMALL = {"gates": 4, "pairs": 2, "columns": 2, "held": 16, "held_back": 8, "shares": 6}
SMALL |= {"programs": 2}
# Comparators that point up and down, idle wires, layers of different sizes.
ODD = Network(5, (((0, 3), (4, 1)), ((2, 0),), ((1, 0), (3, 2)), ((3, 4),)), "odd")
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


def projected():
    """Soft ranks and values of lists that are in a few blocks each, and their gradients."""
    x, found = torch.randn(2, 9, generator=torch.Generator().manual_seed(4)), []
    for regularization, steepness in (("l2", 3.0), ("entropic", 2.0)):
        for face in ("ranks", "values"):
            leaf = x.clone().requires_grad_()
            result = getattr(FastSort(steepness, regularization, "triton"), face)(leaf)
            weights = torch.linspace(-1, 2, x.numel()).reshape(x.shape)
            found += [result.detach(), *torch.autograd.grad(result, leaf, weights)]
    return found


@pytest.mark.rotating(4, group="sorting")
def test_projections_have_no_race_either(monkeypatch):
    monkeypatch.setattr(isotonic, "LANES", 4)
    watch, shuffled = in_any_order(projected)
    assert {*watch.kernels} == {"project", "project_gradients"}
    for got, want in zip(shuffled, projected(), strict=True):
        assert torch.equal(got, want)


@pytest.mark.rotating(4, group="sorting")
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits():
    kernels = set()
    for scene in SCENES:
        watch, shuffled = in_any_order(lambda scene=scene: sorted_by(backend, scene))
        assert min(watch.programs) > 1
        for got, want in zip(shuffled, sorted_by(backend, scene), strict=True):
            assert torch.equal(got, want)
        kernels |= {*watch.kernels}
    assert kernels >= KERNELS


@pytest.mark.rotating(4, group="sorting")
def test_the_arithmetic_of_a_gpu_is_accurate_enough(signs):
    for scene in SCENES:
        with pessimistic_arithmetic(signs, fused=True):
            got = sorted_by(backend, scene)
        for index, (a, b) in enumerate(zip(got, sorted_by(None, scene), strict=True)):
            assert relative_l2(a, b) <= TOLERANCE, index
