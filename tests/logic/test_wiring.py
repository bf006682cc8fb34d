"""Wirings: no gate reads an input twice, no two the same ones, all inputs are read alike."""

import pytest
import torch

from gendr.logic import block_wiring, random_wiring

SIZES = [(2, 1, 2), (2, 9, 2), (5, 10, 2), (5, 25, 2), (17, 24, 2), (784, 8000, 2), (300, 300, 2),
         (6, 3, 6), (7, 50, 6), (40, 200, 4), (3, 8, 1), (1, 1, 1), (60, 40, 3)]  # fmt: skip


@pytest.mark.parametrize(("inputs", "gates", "fan_in"), SIZES)
def test_random_wiring(inputs, gates, fan_in, seed):
    wires = random_wiring(inputs, gates, fan_in, seed=seed)
    assert wires.shape == (fan_in, gates)
    assert wires.dtype == torch.int64
    assert 0 <= int(wires.min()) <= int(wires.max()) < inputs
    sets = [frozenset(column) for column in wires.T.tolist()]
    assert all(len(each) == fan_in for each in sets)
    counts = torch.tensor([sets.count(each) for each in set(sets)])
    possible = torch.combinations(torch.arange(inputs), fan_in) if inputs < 50 else None
    if possible is None or len(possible) >= gates:
        assert counts.tolist() == [1] * gates
    else:
        assert len(counts) == len(possible)
        assert int(counts.max() - counts.min()) <= 1


def test_a_sparse_wiring_reads_all_inputs_alike():
    read = torch.bincount(random_wiring(784, 8000, seed=1).flatten(), minlength=784)
    assert int(read.max() - read.min()) <= 1
    assert torch.bincount(random_wiring(400, 200, seed=2).flatten()).tolist() == [1] * 400


def test_order_of_inputs_is_random():
    """The first input matters: a gate that passes it on is where training starts."""
    first = torch.bincount(random_wiring(6, 15, seed=0)[0], minlength=6)
    assert (first > 0).sum() >= 4
    assert (random_wiring(50, 1000, seed=0).diff(dim=0) > 0).float().mean().item() == pytest.approx(
        0.5, abs=0.1
    )


def test_seeds():
    assert torch.equal(random_wiring(90, 70, seed=5), random_wiring(90, 70, seed=5))
    assert not torch.equal(random_wiring(90, 70, seed=5), random_wiring(90, 70, seed=6))
    torch.manual_seed(3)
    first = random_wiring(90, 70)
    torch.manual_seed(3)
    assert torch.equal(first, random_wiring(90, 70))


@pytest.mark.parametrize(("inputs", "gates", "blocks"), [(17, 23, 4), (64, 64, 8), (8, 4, 4)])
def test_blocks_read_their_own_inputs(inputs, gates, blocks):
    wires = block_wiring(inputs, gates, blocks=blocks, seed=0)
    assert wires.shape == (2, gates)
    assert (wires[0] != wires[1]).all()
    bounds = [inputs * j // blocks for j in range(blocks + 1)]
    for j in range(blocks):
        mine = wires[:, gates * j // blocks : gates * (j + 1) // blocks]
        assert mine.numel()
        assert bounds[j] <= int(mine.min()) <= int(mine.max()) < bounds[j + 1]


def test_bad_sizes():
    with pytest.raises(ValueError, match="in_features must be >= 2, as every gate reads 2"):
        random_wiring(1, 4)
    with pytest.raises(ValueError, match="out_features must be >= 1, got 0"):
        random_wiring(4, 0)
    with pytest.raises(ValueError, match="blocks must be <= 3, so that each has a gate and 2"):
        block_wiring(7, 9, blocks=4)
    with pytest.raises(TypeError, match="blocks must be an int"):
        block_wiring(7, 9, blocks=1.5)
