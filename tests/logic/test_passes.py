"""The intermediate representation and its passes: the function stays, gates go."""

import itertools

import numpy as np
import pytest

from gendr.logic import GATES
from gendr.logic.circuit.netlist import Netlist, netlist
from gendr.logic.circuit.passes import PASSES, fold, prune, share, simplify, stimuli
from support.cases import for_each


def random_netlist(seed, inputs=None, gates=None):
    generator = np.random.default_rng(seed)
    inputs = inputs or int(generator.integers(1, 9))
    gates = int(generator.integers(0, 60)) if gates is None else gates
    below = inputs + np.arange(gates)
    a, b = (generator.integers(0, below).tolist() for _ in range(2))
    outputs = generator.integers(0, inputs + gates, generator.integers(1, 9)).tolist()
    return netlist(inputs, generator.integers(0, 16, gates).tolist(), a, b, outputs)


def by_hand(circuit, row):
    """The outputs of one row of bits, gate by gate."""
    signals = list(row)
    for gate, a, b in zip(circuit.ids, circuit.a, circuit.b, strict=True):
        signals.append(GATES[gate].table[2 * signals[a] + signals[b]])
    return [signals[k] for k in circuit.outputs]


@for_each(seed=range(6))
def test_evaluation_is_that_of_the_truth_tables(seed):
    circuit = random_netlist(seed, inputs=4)
    rows = list(itertools.product((0, 1), repeat=4))
    columns = np.ascontiguousarray(np.array(rows + [rows[0]] * 48).T)
    words = np.packbits(columns, axis=1, bitorder="little")
    found = circuit.evaluate(words.view(np.uint64))
    bits = np.unpackbits(found.view(np.uint8), axis=1, bitorder="little").T[:16]
    assert bits.tolist() == [by_hand(circuit, row) for row in rows]


@for_each(each=PASSES)
def test_passes_keep_the_function(each, seed):
    for k in range(150):
        circuit = random_netlist(1000 * seed + k)
        found = each(circuit)
        found.check()
        rows = stimuli(circuit.inputs)
        assert np.array_equal(circuit.evaluate(rows), found.evaluate(rows))


def test_simplified_circuits_have_nothing_left_to_fold(seed):
    for k in range(100):
        circuit = simplify(random_netlist(1000 * seed + k))
        assert len(simplify(circuit)) == len(circuit)
        used = set(circuit.a) | set(circuit.b) | set(circuit.outputs)
        assert all(circuit.inputs + k in used for k in range(len(circuit)))
        constant = np.isin(circuit.ids, (0, 15))
        inverter = np.isin(circuit.ids, (3, 5, 10, 12))
        assert (circuit.a != circuit.b)[~constant & ~inverter].all()
        # Inverters are of inputs that are outputs, and nobody else reads them or a constant.
        assert (circuit.a[inverter] < circuit.inputs).all()
        read = np.concatenate([circuit.a[~constant], circuit.b[~constant]])
        assert not np.isin(read, circuit.inputs + np.flatnonzero(inverter | constant)).any()


def test_constants_buffers_and_inverters_are_folded():
    # not a, then nand(not a, true), and(that, b), xor(b, b)
    circuit = netlist(2, [12, 15, 14, 1, 6], [0, 0, 2, 4, 1], [0, 0, 3, 1, 1], [5, 6])
    found = prune(fold(circuit))
    assert str(found) == "inputs %0 .. %1\n%2 = and %0 %1\n%3 = false\noutputs %2 %3"
    # An inverted output is the complement of the gate, not an inverter behind it.
    inverted = netlist(2, [1, 12], [0, 2], [1, 2], [3])
    assert str(simplify(inverted)) == "inputs %0 .. %1\n%2 = nand %0 %1\noutputs %2"


def test_equal_gates_and_complements_are_shared():
    # a and b, b and a, nand(a, b), (a and b) xor nand(b, a) = 1
    circuit = netlist(2, [1, 1, 14, 6], [0, 1, 0, 2], [1, 0, 1, 4], [2, 3, 4, 5])
    assert len(prune(fold(circuit))) == 4
    found = prune(share(circuit))
    assert found.histogram() == {"and": 1, "nand": 1, "true": 1}
    assert found.outputs[0] == found.outputs[1]


def test_a_pass_that_changes_the_function_is_caught():
    def wrong(circuit):
        return Netlist(circuit.inputs, circuit.ids ^ 1, circuit.a, circuit.b, circuit.outputs)

    for inputs in (3, 40):
        circuit = netlist(inputs, [1], [0], [1], [inputs])
        with pytest.raises(RuntimeError, match="'wrong' has changed the function"):
            simplify(circuit, [wrong])
        assert len(simplify(circuit, [wrong], check=False)) == 1


def test_stimuli():
    few = np.unpackbits(stimuli(7).view(np.uint8), axis=1, bitorder="little").T
    assert len({tuple(row) for row in few}) == 128
    assert stimuli(3).shape == (3, 1)
    many = np.unpackbits(stimuli(40).view(np.uint8), axis=1)
    assert many.shape == (40, 2048)
    shares = many.reshape(40, 4, 512).mean((0, 2))
    np.testing.assert_allclose(shares, [0.5, 0.5, 0.125, 0.875], atol=0.02)


def test_levels():
    circuit = netlist(2, [1, 0, 7, 6], [0, 0, 2, 4], [1, 0, 3, 1], [5])
    assert circuit.levels().tolist() == [0, 0, 1, 1, 2, 3]


@for_each(
    "circuit, match",
    [
        (netlist(0, [], [], [], [0]), "must have an input"),
        (netlist(2, [16], [0], [1], [2]), r"must be 0 \.\. 15, got 16"),
        (netlist(2, [1], [2], [1], [2]), "%2 reads %2"),
        (netlist(2, [1], [0], [-1], [2]), "%2 reads %-1"),
        (netlist(2, [1], [0], [1, 0], [2]), "equally many, got 1, 1 and 2"),
        (netlist(2, [1], [0], [1], []), "must have an output"),
        (netlist(2, [1], [0], [1], [3]), r"must be signals 0 \.\. 2"),
    ],
)
def test_what_is_no_circuit(circuit, match):
    with pytest.raises(ValueError, match=match):
        circuit.check()
