"""The table of gates, and the relaxation of a layer beside Table 6.1."""

import itertools

import numpy as np
import pytest

from gendr.logic import LogicLayer, gate

# Table 6.1 of the thesis, typed off: by id, the names and what they are of real numbers.
REAL_VALUED = {
    "false": lambda a, b: 0 * a,
    "and": lambda a, b: a * b,
    "a_and_not_b": lambda a, b: a - a * b,
    "a": lambda a, b: a,
    "not_a_and_b": lambda a, b: b - a * b,
    "b": lambda a, b: b,
    "xor": lambda a, b: a + b - 2 * a * b,
    "or": lambda a, b: a + b - a * b,
    "nor": lambda a, b: 1 - (a + b - a * b),
    "xnor": lambda a, b: 1 - (a + b - 2 * a * b),
    "not_b": lambda a, b: 1 - b,
    "a_or_not_b": lambda a, b: 1 - b + a * b,
    "not_a": lambda a, b: 1 - a,
    "not_a_or_b": lambda a, b: 1 - a + a * b,
    "nand": lambda a, b: 1 - a * b,
    "true": lambda a, b: 1 + 0 * a,
}


def test_gates_are_those_of_the_thesis():
    a, b = np.random.default_rng(0).random((2, 20))
    for number, (name, want) in enumerate(REAL_VALUED.items()):
        which = gate(number)
        table = [want(*corner) for corner in itertools.product((0, 1), repeat=2)]
        assert (which.name, which.id, list(which.table)) == (name, number, table)
        assert number == int("".join(map(str, table)), 2)
        one, ca, cb, cab = which.coefficients
        np.testing.assert_allclose(one + ca * a + cb * b + cab * a * b, want(a, b), atol=1e-15)


def test_gates_by_name():
    assert gate("nand").id == 14
    assert gate(6).formula == "a ⊕ b"
    assert LogicLayer(3, 2, gates=["xor", 1], init="normal").gates == (1, 6)
    for bad in (["xor", 6], [], "and", [16], [True], [-1]):
        with pytest.raises(ValueError, match="gate"):
            LogicLayer(3, 2, gates=bad, init="normal")
    with pytest.raises(ValueError, match="nearest: nand, and"):
        gate("nnand")
