"""Selection networks select, by the 0-1 principle and by numbers; their depths are the paper's."""

import pytest
import torch

from gendr.sorting import Network, draw, soft_sort
from gendr.topk import network
from support.cases import for_each
from support.zero_one import every_zero_one_input, sent

NAMES = ("bitonic", "odd_even", "odd_even_merge", "pairwise", "splitter")
# Petersen et al. (ICLR 2022), Table 6: layers for k = 1 .. 8.
SPLITTER = {
    16: [4, 6, 7, 8, 10, 11, 12, 13],
    1024: [10, 14, 16, 18, 22, 25, 27, 29],
    10450: [14, 18, 20, 23, 27, 30, 32, 34],
    65536: [16, 20, 22, 25, 29, 32, 34, 36],
}
MERGING = {
    16: [4, 7, 9, 9, 10, 10, 10, 10],
    1024: [10, 19, 27, 27, 34, 34, 34, 34],
    10450: [14, 27, 39, 39, 50, 50, 50, 50],
    65536: [16, 31, 45, 45, 58, 58, 58, 58],
}


def test_every_zero_one_input_is_selected():
    for name in NAMES:
        for n in range(1, 17):
            wires = every_zero_one_input(n)
            ordered = sent(network("odd_even_merge", n, n), wires.copy())
            assert not (ordered[:-1] & ~ordered[1:]).any()
            for k in range(1, n + 1):
                net = network(name, n, k)
                found = sent(net, wires.copy())
                assert (found[[*net.outputs]] == ordered[n - k :]).all(), k


def test_every_comparator_is_needed_to_reach_an_output():
    for name in NAMES:
        for n, k in ((9, 2), (16, 5), (13, 13)):
            net = network(name, n, k)
            needed = {*net.outputs}
            for comparator in (pair for layer in reversed(net.layers) for pair in layer):
                assert needed & {*comparator}, comparator
                needed |= {*comparator}
            assert len(net.outputs) == k
            assert net.outputs[-1] == n - 1  # the largest value on the last wire


def test_depths_are_those_of_table_6():
    # Of 5,273 comparators with all cascades complete.
    assert [network("splitter", 1024, k).size for k in (1, 5)] == [1023, 3118]
    for n in (16, 1024):
        for name in ("splitter", "bitonic", "odd_even_merge", "pairwise"):
            depths = [network(name, n, k).depth for k in range(1, 9)]
            assert depths == (SPLITTER if name == "splitter" else MERGING)[n]


@pytest.mark.rotating(4, group="long")
@for_each(k=range(1, 9), name=["splitter", "bitonic", "odd_even_merge", "pairwise"], rotating=16)
def test_depths_of_large_networks_are_those_of_table_6(name, k):
    for n in (10450, 65536):
        net = network(name, n, k)
        assert net.depth == (SPLITTER if name == "splitter" else MERGING)[n][k - 1]


def test_one_wire_and_bad_numbers():
    for name in NAMES:
        assert network(name, 1, 1).layers == ()
        assert network(name, 6, 2) is network(name, 6, 2)
        with pytest.raises(
            ValueError, match=r"k must be at most n = 6, the number of values, got 7"
        ):
            network(name, 6, 7)
        with pytest.raises(ValueError, match="k must be >= 1, got 0"):
            network(name, 6, 0)
        with pytest.raises(TypeError, match="k must be an int, got float"):
            network(name, 6, 2.0)


def test_outputs_are_wires():
    for outputs in ((0, 0), (3,), (1.0,)):
        with pytest.raises(ValueError, match=r"outputs of the network custom must be different"):
            Network(3, (((0, 1),),), outputs=outputs)


def test_a_selection_network_does_not_sort():
    with pytest.raises(ValueError, match=r"splitter\(6, 2\) selects 2 of 6 values"):
        soft_sort(torch.zeros(6), "network", network=network("splitter", 6, 2))


def test_the_drawing_numbers_the_largest():
    axes = draw(network("splitter", 8, 3))
    right = axes.child_axes[0]
    places = zip(right.get_yticks(), right.get_yticklabels(), strict=True)
    labels = {round(wire): text.get_text() for wire, text in places}
    assert labels == {7: "1", 6: "2", 5: "3"}
