"""What is kept, when it is made again, and memory that is used again."""

import copy
import gc
import sys
import weakref
from pathlib import Path

import pytest
import torch

import gendr
from gendr._common import tensor_cache as tensors
from gendr._common.memory import LARGE, Memory, give_back
from gendr._common.registry import memoized

# -------------------------------------------------------------------------------------------------
# What is kept, and when it is made again


def test_settings_are_kept_by_their_types_too():
    calls = []

    @memoized
    def made(*settings):
        calls.append(settings)
        return settings

    for given in ((1,), (1,), (1.0,), (True,), ("a", None), ("a", None)):
        assert made(*given) == given
        assert [*map(type, made(*given))] == [*map(type, given)]
    assert len(calls) == 4
    x = torch.zeros(2)
    assert made(x)[0] is x
    assert len(calls) == 5
    assert made(x)[0] is x  # tensors are not compared
    assert len(calls) == 6
    with pytest.raises(TypeError, match="image_size must be an int"):
        _ = gendr.Renderer(1), gendr.Renderer(True)


def test_what_is_found_of_a_tensor_lives_with_it_until_it_changes():
    x, calls = torch.arange(3.0), []

    def total(x):
        calls.append(1)
        return float(x.sum())

    assert [tensors.cached(x, "sum", total) for _ in range(2)] == [3.0, 3.0]
    x[0] = 4
    assert tensors.cached(x, "sum", total) == 7
    assert tensors.cached(x.clone(), "sum", total) == 7
    assert len(calls) == 3
    dead = weakref.ref(x)
    del x
    gc.collect()
    assert dead() is None


def test_an_owner_keeps_the_last_thing_it_made():
    x, y, owner, calls = torch.ones(2), torch.ones(2), tensors.TensorCache(), []

    def of(x, key=None):
        return owner.of((x,), key, lambda: calls.append(1) or x * 2)

    first = of(x)
    assert of(x) is first
    assert of(y) is not first  # equal, but another
    x.add_(1)
    assert of(x).tolist() == [4, 4]
    assert of(x, "key") is not of(x)
    assert copy.deepcopy(owner).of((x,), None, lambda: None) is None
    with torch.inference_mode():
        z = torch.ones(2)
        assert of(z) is not of(z)  # nobody sees it change
        kept_there = of(x)
    assert not kept_there.is_inference()
    assert torch.func.vmap(lambda v: of(v))(x[None]).tolist() == [[4, 4]]


def test_a_renderer_of_the_same_numbers_follows_what_changes():
    mesh, camera = gendr.mesh.icosphere(0), gendr.look_at(3.0, 20.0, 30.0)

    def alpha(**settings):
        return gendr.Renderer(8, **settings)(mesh, camera).alpha

    with torch.inference_mode():
        before = alpha(scale=0.05).clone()
    mesh.vertices.requires_grad_()
    now = alpha(scale=0.05)
    now.sum().backward()
    assert mesh.vertices.grad.abs().sum() > 0
    assert torch.equal(before, now.detach())
    for other in (
        {"scale": 0.2},
        {"scale": 0.05, "dist": "cauchy"},
        {"scale": 0.05, "tconorm": "max"},
    ):
        assert not torch.equal(alpha(**other).detach(), before)


# -------------------------------------------------------------------------------------------------
# Memory that is used again: only when nobody holds it, and not without end


SIZE = (LARGE // 4,)


def test_memory_is_used_again_when_it_is_free():
    memory = Memory()
    first = memory.empty(SIZE, torch.float32)
    second = memory.empty(SIZE, torch.float32)
    places = {first.data_ptr(), second.data_ptr()}
    assert len(places) == 2
    assert all(place % 64 == 0 for place in places)
    del first, second
    gc.collect()
    assert memory.idle == 2 * LARGE
    again = [memory.empty((LARGE // 8, 1), torch.float64) for _ in range(2)]
    assert {x.data_ptr() for x in again} == places
    assert memory.idle == 0


def test_a_view_keeps_its_memory():
    memory = Memory()
    x = memory.empty(SIZE, torch.float32)
    x.zero_()
    part = x.reshape(2, -1)[1, 3:5].detach()
    del x
    other = memory.empty(SIZE, torch.float32)
    other.fill_(1)
    assert part.tolist() == [0, 0]
    graph = (other.requires_grad_() * 2).sum()
    del other
    memory.empty(SIZE, torch.float32).fill_(7)
    graph.backward()  # what a graph has saved is in use too


def test_small_and_too_many_blocks_are_not_kept():
    memory = Memory(most=LARGE)
    assert memory.empty((0, 5), torch.float32).shape == (0, 5)
    assert memory.empty((3, 2), torch.float64).shape == (3, 2)
    tensors = [memory.empty(SIZE, torch.float32) for _ in range(3)]
    tensors.append(memory.empty((8,), torch.float32))
    del tensors
    gc.collect()
    assert memory.idle == LARGE


def test_what_is_forgotten_is_not_used_again():
    memory = Memory()
    memory.empty(SIZE, torch.float32)
    gc.collect()
    assert memory.idle == LARGE
    memory.forget()
    assert memory.idle == 0
    kept = memory.empty(SIZE, torch.float32)
    assert kept.fill_(1).sum() == SIZE[0]


@pytest.mark.skipif(sys.platform != "linux", reason="by the books of the Linux kernel")
def test_free_memory_below_what_is_in_use_goes_back():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])  # pages

    blocks = [bytearray(b"x" * 50_000) for _ in range(2000)]  # from the heap, 100 MB
    last, before = blocks.pop(), resident()
    blocks.clear()
    give_back()
    assert last[0] == ord("x")
    assert before - resident() > 80e6 / 4096
