"""Small programs as a new user writes them: each hard, relaxed, and with its gradient.

The oracle of each is other code: the standard library, or a formula.
"""

import bisect
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import gendr
from gendr.relaxed import Categories, smooth, zeros
from support.cases import for_each

CASES: list[Any] = []  # `Case`s


@dataclass
class Case:
    """A program, what it is tried on, and what it must give.

    Attributes:
        program: it.
        inputs: from a generator to its arguments, tensors [8, ...] and plain values.
        oracle: from one item, in plain Python, to the result.
        soft: the scale at which the gradient is checked.
        hard: the scale that must give the hard result.
    """

    program: Any
    inputs: Callable[[torch.Generator], tuple[Any, ...]]
    oracle: Callable[..., Any]
    soft: float = 0.5
    hard: float = 1e-4


def case(inputs, oracle, **more):
    """Add a program to the cases."""

    def add(program):
        program = gendr.relax(program)
        CASES.append(Case(program, inputs, oracle, **more))
        return program

    return add


def reals(*shape, low=-1.0, high=1.0):
    def draw(generator):
        x = torch.rand(8, *shape, generator=generator, dtype=torch.float64)
        return x * (high - low) + low

    return draw


def whole(*shape, low=1, high=10):
    """Integers as floating numbers, a little off: halves stay apart."""

    def draw(generator):
        return torch.randint(low, high, (8, *shape), generator=generator).double()

    return draw


def arguments(*draws):
    return lambda generator: tuple(d(generator) if callable(d) else d for d in draws)


# -- the programs


@case(arguments(whole(), whole()), lambda a, b: math.gcd(int(a), int(b)), soft=0.3, hard=1e-3)
def greatest_common_divisor(a, b):
    while a != b:
        if a > b:
            a = a - b
        else:
            b = b - a
    return a


def sorted_rows(generator):
    x = torch.rand(8, 8, generator=generator, dtype=torch.float64).sort(-1).values
    return x, torch.rand(8, generator=generator, dtype=torch.float64)


@case(sorted_rows, lambda x, key: max(bisect.bisect_right(list(x), key) - 1, 0), hard=1e-6)
def binary_search(x, key):
    """The last place whose value is at most the key."""
    place = 0
    step = len(x) // 2
    while step > 0:
        if smooth("value", x[smooth("place", place + step)] <= key):
            place = place + step
        step = step // 2
    return place


def words(generator):
    letters = torch.randint(0, 2, (8, 4), generator=generator)
    letters[:3] = torch.tensor([0, 1, 0, 1])
    return (torch.nn.functional.one_hot(letters, 2).double(),)


@case(words, lambda word: float(list(word) == [0, 1, 0, 1]), hard=1e-3, soft=0.4)
def automaton(word: Categories):
    """Whether a word over a = 0 and b = 1 is one of (ab)*."""
    state = 0
    for letter in word:
        if state == 0 and letter == 0:
            state = 1
        elif state == 1 and letter == 1:
            state = 0
        else:
            state = 2
    return state == 0


def formulas(generator):
    values = torch.rand(8, 5, generator=generator, dtype=torch.float64) + 0.5
    codes = torch.tensor([[0, 0, 1, 0, 2], [0, 0, 0, 2, 1]] * 4).double()
    return codes, values


def reverse_polish(codes, values):
    stack = []
    for code, value in zip(codes, values, strict=True):
        if code == 0:
            stack.append(value)
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(left + right if code == 1 else left * right)
    return stack[0]


@case(formulas, reverse_polish, soft=0.3, hard=1e-3)
def stack_machine(codes, values):
    stack = zeros(len(codes))
    top = 0
    for code, value in zip(codes, values, strict=True):
        if code == 0:
            stack[top] = value
            top = top + 1
        else:
            left, right = stack[top - 2], stack[top - 1]
            stack[top - 2] = left + right if code == 1 else left * right
            top = top - 1
    return stack[0]


def votes(generator):
    return (torch.randint(0, 2, (8, 5), generator=generator).double(),)


@case(votes, statistics.mode, soft=0.3, hard=1e-2)
def majority(x):
    """The vote of Boyer and Moore."""
    candidate, count = x[0], 0
    for vote in x:
        if count == 0:
            candidate, count = vote, 1
        elif vote == candidate:
            count += 1
        else:
            count -= 1
    return candidate


@case(
    arguments(reals(4), 2, True),
    lambda x, *_: max(min(x[0], x[1]), min(x[2], x[3])),
)
def game_tree(leaves, depth, mine):
    """Minimax over a tree of depth 2: a program that calls itself, on parts of its argument."""
    if depth == 0:
        return leaves[0]
    half = len(leaves) // 2
    left = game_tree(leaves[:half], depth - 1, not mine)
    right = game_tree(leaves[half:], depth - 1, not mine)
    return max(left, right) if mine else min(left, right)


# -- what is asked of each


def plain(case, inputs):
    """The oracle on each item of the batch."""
    forms = list(case.program.forms.values())
    results = []
    for k in range(8):
        item = []
        for x, form in zip(inputs, forms, strict=True):
            if isinstance(x, torch.Tensor):
                x = x[k].argmax(-1).tolist() if form == "Categories" else x[k].tolist()
            item.append(x)
        results.append(case.oracle(*item))
    return torch.tensor(results, dtype=torch.float64)


def joined(result):
    """The results of a program in one tensor."""
    return torch.stack(list(result), -1) if isinstance(result, tuple) else result


@for_each(case=CASES)
def test_hard_and_at_a_small_scale(case):
    inputs = case.inputs(torch.Generator().manual_seed(1))
    want = plain(case, inputs)
    torch.testing.assert_close(joined(case.program.hard(*inputs)), want)
    torch.testing.assert_close(joined(case.program(*inputs, dist="heaviside")), want)
    got = joined(case.program(*inputs, scale=case.hard))
    torch.testing.assert_close(got, want, atol=2e-3, rtol=1e-3)


@for_each(case=CASES)
def test_gradient(case):
    inputs = case.inputs(torch.Generator().manual_seed(3))
    if case.program.__name__ == "automaton":  # sure letters are at the peak of equality
        inputs = (inputs[0] * 0.7 + 0.15,)
    inputs = [x[:2].clone().requires_grad_() if torch.is_tensor(x) else x for x in inputs]
    leaves = [x for x in inputs if torch.is_tensor(x)]

    def run(*args):
        return case.program(*args, scale=case.soft, max_iterations=12, tolerance=0.0)

    slopes = torch.autograd.grad(joined(run(*inputs)).sum(), leaves)
    assert all(slope.isfinite().all() for slope in slopes)
    assert any(slope.abs().max() > 1e-4 for slope in slopes)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
