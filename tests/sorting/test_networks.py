"""Networks sort, by the 0-1 principle and by numbers; their shape, messages and drawings."""

import pickle
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from gendr.sorting import Network, bitonic, draw, network, odd_even, permutation
from support.cases import for_each
from support.zero_one import every_zero_one_input
from support.zero_one import sent as run

GENERATORS = ("bitonic", "odd_even", "odd_even_merge")


def test_every_zero_one_input_is_sorted():
    for name in GENERATORS:
        for n in range(1, 21):
            wires = run(network(name, n), every_zero_one_input(n))
            assert not (wires[:-1] & ~wires[1:]).any(), n


def test_states_end_sorted_and_take_one_step_per_layer():
    for name in GENERATORS:
        for n in (1, 2, 7, 22, 42, 128):
            values = np.random.default_rng(n).normal(size=(3, 5, n))
            kept = values.copy()
            net = network(name, n)
            states = list(net.states(values))
            assert len(states) == net.depth + 1
            assert (states[0] == kept).all()
            assert (states[-1] == np.sort(kept, -1)).all()
            assert (values == kept).all()


def test_bitonic_of_a_power_of_two_is_the_classic_loop():
    for n in (2, 4, 8, 16, 64, 256):
        expected = []
        k = 2
        while k <= n:
            j = k // 2
            while j:
                ups = [(i, i + j) for i in range(n) if not i & j]
                expected.append({(a, b) if not a & k else (b, a) for a, b in ups})
                j //= 2
            k *= 2
        assert [set(layer) for layer in bitonic(n).layers] == expected


def test_depth_and_size():
    for name in GENERATORS:
        for n in (*range(3, 35), 63, 64, 65, 127, 128, 129):
            net = network(name, n)
            k = (n - 1).bit_length()
            if name == "odd_even":
                assert (net.depth, net.size) == (n, n * (n - 1) // 2)
            elif n == 2**k:
                assert net.depth == k * (k + 1) // 2
            else:
                assert net.depth <= k * (k + 1) // 2
                assert net.depth == bitonic(n).depth
        # Knuth, volume 3, section 5.3.4: Batcher's counts.
        sizes = {
            "odd_even": [1, 6, 28, 120, 496],
            "bitonic": [1, 6, 24, 80, 240],
            "odd_even_merge": [1, 5, 19, 63, 191],
        }
        assert [network(name, 2**k).size for k in range(1, 6)] == sizes[name]


def test_a_network_is_made_once():
    for name in GENERATORS:
        net = network(name, 12)
        assert net is network(name, 12)
        again = Network(12, net.layers, net.name)
        assert again == net
        assert hash(again) == hash(net)
        assert net != network(name, 11)
        assert repr(net) == f"Network(n=12, name='{name}(12)')"


def test_n_is_checked_also_where_an_equal_number_is_known():
    with pytest.raises(ValueError, match=r"unknown network 'bitonik'; allowed: bitonic, odd_even"):
        network("bitonik", 8)
    for name in GENERATORS:
        for n, error, message in (
            (0, ValueError, "n must be >= 1, got 0"),
            (-3, ValueError, "n must be >= 1, got -3"),
            (8.0, TypeError, "n must be an int, got float"),
            (True, TypeError, "n must be an int, got bool"),
        ):
            for known in (8, 1):
                network(name, known)
            with pytest.raises(error, match=message):
                network(name, n)


def test_a_bad_network_is_refused():
    for n, layers, error, message in (
        (0, (), ValueError, "n must be >= 1, got 0"),
        (3, (((0, 3),),), ValueError, r"\(0, 3\) of layer 0 of .* two of the wires 0 .. 2"),
        (3, (((0, 1),), ((-1, 1),)), ValueError, r"\(-1, 1\) of layer 1 of the network custom"),
        (3, (((1, 1),),), ValueError, r"\(1, 1\) of layer 0 .* must join two of the wires"),
        (3, (((0, 1), (2, 1)),), ValueError, r"\(2, 1\) .* uses the wire 1, which another one"),
        (3, (((0, 1),), ()), ValueError, "layer 1 of the network custom has no comparator"),
        (3, (((0, 1, 2),),), TypeError, r"\(0, 1, 2\) of layer 0 .* tuple \(low, high\)"),
        (3, (([0, 1],),), TypeError, r"\[0, 1\] of layer 0 .* tuple \(low, high\)"),
        (3, (((0, 1.0),),), TypeError, "tuple .low, high. of two ints"),
    ):
        with pytest.raises(error, match=message):
            Network(n, layers)


# -- drawings


def test_comparators_that_overlap_stand_in_columns_of_their_own():
    for name in GENERATORS:
        columns, count = {}, 0
        for line in draw(network(name, 21)).lines:
            (x, *more), wires = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            if len(more) == 1:  # a comparator; its marks are points
                columns.setdefault(float(x), []).append(sorted(wires))
                count += 1
        assert count == network(name, 21).size
        for spans in columns.values():
            for first, second in pairwise(sorted(spans)):
                assert first[1] < second[0]


def test_a_drawing_has_a_dot_at_the_smaller_value_and_an_arrow_at_the_larger():
    net = bitonic(6)
    marks = {"o": [], "v": [], "^": []}
    for line in draw(net).lines:
        if line.get_marker() in marks:
            marks[line.get_marker()].append(round(line.get_ydata()[0]))
    pairs = net.pairs.tolist()
    assert sorted(marks["o"]) == sorted(low for low, _ in pairs)
    assert sorted(marks["v"]) == sorted(high for low, high in pairs if high > low)
    assert sorted(marks["^"]) == sorted(high for low, high in pairs if high < low)


def test_a_drawing_shows_the_values_before_between_and_after():
    for convert in (list, np.array, torch.tensor):
        ax = draw(odd_even(3), convert([3.0, 1.5, -2.0]))
        shown = [text.get_text() for text in ax.texts]
        assert shown == "3 1.5 -2  1.5 3 -2  1.5 -2 3  -2 1.5 3".split()
        places = [text.get_position()[0] for text in ax.texts[::3]]
        assert places == sorted(places)


def test_a_drawing_refuses_values_that_do_not_fit():
    for values in ([1, 2], [[1, 2, 3]], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="values must be 3 numbers, one for each wire, got"):
            draw(odd_even(3), values)


def test_a_drawing_asks_for_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[docs\]'"):
        draw(odd_even(3))


def of_memory(monkeypatch, size):
    """The machine says that it has so many bytes."""
    monkeypatch.setattr("gendr._common.checks.physical_memory", lambda: size)


def test_a_large_network_says_beforehand_what_it_takes(caplog, monkeypatch):
    monkeypatch.setattr("gendr.sorting.networks.layered", lambda _: ())  # nothing is made
    of_memory(monkeypatch, 10**10)
    bitonic(99_999)
    (line,) = caplog.messages
    assert "bitonic for 99,999 values" in line
    assert "takes about 19 seconds" in line
    assert "permutahedron" in line
    bitonic(10_001)
    assert len(caplog.messages) == 1
    with pytest.raises(MemoryError, match=r"needs 750 GB, .* has 10 GB; .*'permutahedron' takes"):
        odd_even(99_999)


@for_each(name=["bitonic", "neuralsort", "softsort", "sinkhorn"])
def test_matrices_for_which_there_is_no_memory_are_refused(name, monkeypatch):
    of_memory(monkeypatch, 10_000)
    with pytest.raises(MemoryError, match=rf"of '{name}', \[3, 50, 50\], needs .*permutahedron"):
        permutation(torch.zeros(3, 50), name)
    of_memory(monkeypatch, 10**12)
    assert permutation(torch.zeros(3, 50), name).shape == (3, 50, 50)


def test_kernels_take_copies_of_a_network_for_the_same_type():
    """`torch.compile` lets arrays that it reads be written: Numba would compile anew."""
    from numba import typeof

    first = bitonic(4)
    second = pickle.loads(pickle.dumps(first))
    second.pairs.flags.writeable = True
    assert [*map(typeof, second.for_kernels)] == [*map(typeof, first.for_kernels)]
    second = pickle.loads(pickle.dumps(first))  # with what kernels have got
    assert [*map(typeof, second.for_kernels)] == [*map(typeof, first.for_kernels)]
