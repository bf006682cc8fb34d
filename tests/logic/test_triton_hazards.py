"""What Triton's interpreter hides of the kernels of gates: races, their order, GPU arithmetic."""

import functools

import pytest
import torch

from support import relative_l2

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr._runtime.triton.launch import interpreted
from gendr.logic import random_wiring
from gendr.logic.backends.reference import SOFT_GATES
from gendr.logic.backends.triton import backend
from gendr.logic.backends.wires import Wires
from support.arithmetic import pessimistic_arithmetic
from support.races import in_any_order

pytestmark = [
    pytest.mark.skipif(not interpreted(), reason="it hooks the interpreter"),
    pytest.mark.usefixtures("nan_in_new_tensors"),
]

KERNELS = {"gates", "tables_gradients", "features_gradients"}
# Every loop turns, every grid has several programs.
SMALL = backend.GateLaunch(batch=4, held=8, held_tables=16)
# Inputs of a gate, features, gates, rows of the batch.
SCENES = {"one": (1, 5, 7, 9), "two": (2, 6, 11, 9), "six": (6, 7, 5, 6)}
every_scene = pytest.mark.parametrize("scene", SCENES)


def found_by(kernels, scene):
    """Outputs and gradients."""
    fan_in, features, count, batch = SCENES[scene]
    dtype = torch.float32 if kernels is backend else torch.float64
    generator = torch.Generator().manual_seed(4)

    def some(*shape):
        return torch.rand(shape, generator=generator).to(dtype).requires_grad_()

    x, tables, grad = some(features, batch), some(count, 1 << fan_in), some(count, batch)
    wires = Wires(random_wiring(features, count, fan_in, seed=0), features)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(backend, "LAUNCH", SMALL)
        y = SOFT_GATES(kernels, wires, x, tables)
        return [y.detach(), *torch.autograd.grad(y, (x, tables), grad)]


@functools.cache
def watched(scene):
    """What was launched and what it gave, in a random order under the detector."""
    return in_any_order(lambda: found_by(backend, scene))


@every_scene
def test_no_race_nothing_out_of_bounds_and_any_order_gives_the_same_bits(scene):
    watch, shuffled = watched(scene)
    assert set(watch.kernels) == KERNELS
    assert min(watch.programs) > 1
    for got, want in zip(shuffled, found_by(backend, scene), strict=True):
        assert torch.equal(got, want)


@every_scene
def test_the_arithmetic_of_a_gpu_is_accurate_enough(scene, signs):
    with pessimistic_arithmetic(signs, fused=True):
        got = found_by(backend, scene)
    for index, (a, b) in enumerate(zip(got, found_by(None, scene), strict=True)):
        assert relative_l2(a, b) <= 1e-6, index
