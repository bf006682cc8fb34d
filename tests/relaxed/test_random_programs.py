"""Programs made up at random: under heaviside they do what Python does with the same text.

What the rewriting has to find out, such as which variables a block changes and which are needed
behind it, differs from program to program; here it is tried on many shapes of nesting.
"""

import importlib.util
import random

import torch

import gendr
from support.cases import for_each

VARIABLES = ["a", "b", "c", "d"]


class Writer:
    """A random program, whose loops end and whose variables have values."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0
        self.names = 0

    def number(self):
        return f"{self.random.uniform(-2, 2):.3f}"

    def atom(self, known):
        return self.random.choice(
            [
                self.random.choice(known),
                self.random.choice(known),
                self.number(),
                "x[0]",
                "x[-1]",
                "x[k]",
            ]
        )

    def value(self, known, depth=2):
        if depth == 0 or self.random.random() < 0.3:
            return self.atom(known)
        one, two = self.value(known, depth - 1), self.value(known, depth - 1)
        kind = self.random.randrange(8)
        if kind < 3:
            return f"0.5 * ({one} {self.random.choice('+-')} {two})"
        if kind == 3:
            return f"min({one}, {two}, {self.number()})"
        if kind == 4:
            return f"max({one}, {two})"
        if kind == 5:
            return f"abs({one})"
        if kind == 6:
            return f"({one} if {self.test(known, 1)} else {two})"
        return f"twice({one})"

    def test(self, known, depth=2):
        kind = self.random.randrange(6 if depth else 2)
        if kind < 2:
            sign = self.random.choice(["<", "<=", ">", ">="])
            return f"{self.atom(known)} {sign} {self.atom(known)}"
        one, two = self.test(known, depth - 1), self.test(known, depth - 1)
        if kind == 2:
            return f"({one} and {two})"
        if kind == 3:
            return f"({one} or {two})"
        if kind == 4:
            return f"not ({one})"
        return f"{self.number()} < {self.atom(known)} <= {self.atom(known)}"

    def line(self, indent, text):
        self.lines.append("    " * indent + text)

    def block(self, known, indent, depth, returns):
        """Statements; `known` grows by the variables that surely have a value."""
        for _ in range(self.random.randint(1, 3)):
            self.statement(known, indent, depth, returns)

    def statement(self, known, indent, depth, returns):
        kind = self.random.randrange(10 if depth else 5)
        if kind == 0 and self.random.random() < 0.3:
            self.line(indent, f"k = 0 if {self.test(known)} else 1")
        elif kind < 2:
            name = self.random.choice(VARIABLES)
            self.line(indent, f"{name} = {self.value(known)}")
            known.append(name)
        elif kind == 2:
            name = self.random.choice([k for k in known if k in VARIABLES])
            self.line(indent, f"{name} += {self.value(known, 1)}")
        elif kind == 3:
            place = self.random.choice(["0", "1", "-1", f"0 if {self.test(known, 1)} else 2"])
            self.line(indent, f"x[{place}] = {self.value(known)}")
        elif kind == 4:
            one, two = self.random.sample(["p", *VARIABLES], 2)
            self.line(indent, f"{one}, {two} = {self.value(known)}, {self.value(known)}")
            known += [one, two]
        elif kind < 8:
            self.line(indent, f"if {self.test(known)}:")
            first, second = list(known), list(known)
            self.block(first, indent + 1, depth - 1, returns)
            if returns and self.random.random() < 0.3:
                self.line(indent + 1, f"return {self.value(first)}, x")
                first = list(second)
            if self.random.random() < 0.6:
                self.line(indent, "else:")
                self.block(second, indent + 1, depth - 1, returns)
                known += [k for k in first if k in second]
        elif kind == 8:
            self.names += 1
            self.line(indent, f"for i{self.names} in range({self.random.randint(1, 3)}):")
            self.block([*known, f"i{self.names}"], indent + 1, depth - 1, False)
        else:
            self.loops += 1
            counter = f"n{self.loops}"
            self.line(indent, f"{counter} = 0")
            self.line(indent, f"while {counter} < 3 and {self.test(known, 1)}:")
            self.block([*known, counter], indent + 1, depth - 1, False)
            self.line(indent + 1, f"{counter} = {counter} + 1")
            known.append(counter)

    def program(self):
        known = ["p", "a"]
        self.line(0, "def twice(v):")
        self.line(1, "return v + v if v < 1.0 else v")
        self.line(0, "")
        self.line(0, "def program(p, x):")
        self.line(1, "a = 0.5")
        self.line(1, "k = 1 if p < x[1] else 2")
        for _ in range(4):
            self.statement(known, 1, 3, True)
        self.line(1, f"return {self.value(known)}, x")
        return "\n".join(self.lines) + "\n"


def load(text, path):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("random_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return gendr.relaxed.Program(module.program)


@for_each(seed=range(6), rotating=2)
def test_a_random_program(seed, tmp_path):
    text = Writer(seed).program()
    program = load(text, tmp_path / "random_program.py")
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(6, generator=generator, dtype=torch.float64)
    x = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    hard = program.hard(p, x)
    soft = program(p, x, dist="heaviside")
    for a, b in zip(hard, soft, strict=True):
        torch.testing.assert_close(a, b, msg=lambda m: f"{m}\n{text}\n{program.source}")
    value, cells = program(p.requires_grad_(), x, scale=0.5)
    assert value.isfinite().all()
    assert cells.isfinite().all()
