"""Memory that is used again: only when nobody holds it, and not without end."""

import gc
import sys
from pathlib import Path

import pytest
import torch

from gendr._common.memory import LARGE, Memory, give_back

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
