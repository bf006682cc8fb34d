"""The words in which kernel functions are written once, for all compilers.

A kernel function is an undecorated function of numbers. Numba and Triton each take a copy of it in
which these words stand for their own functions (see `kernel_functions`). Here they are plain Python
for one number, which defines what they mean, and PyTorch for tensors: the classes of T-conorms call
their kernel functions so.

Rules for a kernel function: these words, arithmetic and comparisons; no branch on an argument
(`where` takes its place, and evaluates both sides); literals are floats; a constant of the module
stands on the right of what it multiplies; nothing names a precision, for that of Numba is float64
or float32, and that of Triton float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

# A number or a tensor here; a float64 for Numba; a block of float32 for Triton.
Block: TypeAlias = Any


def _word(on_tensors: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A word that does the same to tensors, by another function."""

    def decorate(on_numbers: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(on_numbers)
        def word(first: Any, *others: Any) -> Any:
            return (on_tensors if torch.is_tensor(first) else on_numbers)(first, *others)

        return word

    return decorate


@_word(torch.where)
def where(condition: Block, chosen: Block, other: Block) -> Block:
    """`chosen` where the condition holds, `other` elsewhere."""
    return chosen if condition else other


@_word(torch.abs)
def fabs(x: Block) -> Block:
    """The absolute value."""
    return abs(x)


@_word(torch.sqrt)
def sqrt(x: Block) -> Block:
    """The square root of x >= 0."""
    return math.sqrt(x)


@_word(torch.exp)
def exp(x: Block) -> Block:
    """The exponential e^x; may be 0 where it would be subnormal."""
    return math.exp(x) if x < 709 else math.inf


@_word(lambda x: (torch.exp(x), 0.0 - torch.expm1(x)))  # ONNX has -0, by which `hazard` divides
def exp_and_complement(x: Block) -> tuple[Block, Block]:
    """(y, 1 - y) for y = exp(x), x <= 0, both with all their digits."""
    return math.exp(x), -math.expm1(x)


@_word(torch.expm1)
def expm1(x: Block) -> Block:
    """exp(x) - 1, with all its digits near 0."""
    return math.expm1(x) if x < 709 else math.inf


@_word(torch.log)
def log(x: Block) -> Block:
    """The logarithm of x >= 0."""
    return math.log(x) if x > 0 else -math.inf


@_word(torch.log1p)
def log1p(x: Block) -> Block:
    """The logarithm of 1 + x for x >= 0, with all digits near 0."""
    return math.log1p(x)


@_word(lambda x, y: torch.where(x > -0.5, torch.log1p(x), y.log()))
def log_of_sum(x: Block, y: Block) -> Block:
    """The logarithm of y = 1 + x for x >= -1, from whichever of the two has more digits."""
    return math.log1p(x) if x > -0.5 else log(y)


@_word(lambda a, s: torch.log1p(a / s))
def hazard(a: Block, s: Block) -> Block:
    """-log(s) for s = 1 - a in (0, 1], with all digits for small a too."""
    return -math.log1p(-a) if a < 0.5 else -math.log(s)


@_word(torch.pow)
def power(x: Block, p: Block) -> Block:
    """X to the power of p for x >= 0, 1 for p = 0; 0 and infinity go where the limit is."""
    return math.inf if x == 0 and p < 0 else x**p


@_word(lambda x: torch.atan2(torch.ones_like(x), x))
def arccot(x: Block) -> Block:
    """The angle in [0, pi/2] whose cotangent is x, for x >= 0."""
    return math.atan2(1.0, x)


@_word(torch.clamp_max)
def minimum(x: Block, y: Block) -> Block:
    """The smaller one."""
    return min(x, y)


@_word(torch.zeros_like)
def zeros_like(x: Block) -> Block:
    """Zeros of the shape of x."""
    return 0.0


@_word(torch.lgamma)
def lgamma(x: Block) -> Block:
    """The logarithm of the gamma function of x > 0; of what depends on a shape alone."""
    return math.lgamma(x)


# Words of kernel functions that sum a series. Those that name a precision are the same for float64.


def repeated(times: int) -> range:
    """Some steps in a row, without a look at a condition."""
    return range(times)


def any_of(condition: Block) -> Block:
    """Whether a condition holds anywhere in a block: that of a loop."""
    return condition


def negligible(total: Block) -> Block:
    """What need not be added to a sum any more."""
    return total * 1e-17


def quotient(x: Block, y: Block) -> Block:
    """The quotient x / y, rounded correctly: of numbers that many steps multiply."""
    return x / y


def log_ratio(x: Block, y: Block) -> Block:
    """log(x / y) of numbers of float64, with all its digits where they are near each other."""
    part = (x - y) / y
    return math.log1p(part) if part > -0.5 else math.log(x / y)


def in_double(x: Block) -> Block:
    """A number in float64."""
    return x


def in_single(x: Block) -> Block:
    """A number of float64 in the precision of the kernel function."""
    return x


def exp_of_double(x: Block) -> Block:
    """The exponential of a number of float64 in the precision of the kernel function."""
    return exp(x)


# Words that are made of other words: they are kernel functions themselves.


def clip(z: Block) -> Block:
    """The nearest number in [-1, 1]; NaN stays NaN."""
    return where(z > 1.0, 1.0, where(z < -1.0, -1.0, z))


def two_sided(z: Block, tail: Block) -> tuple[Block, Block]:
    """(cdf, sf) of a symmetric distribution from its tail F(-|z|)."""
    body = 1.0 - tail
    return where(z > 0, body, tail), where(z > 0, tail, body)


def parts_from_hazard(u: Block) -> tuple[Block, Block]:
    """(A, S) with A + S = 1 and S = exp(-u), for u >= 0."""
    rest, total = exp_and_complement(-u)
    return total, rest


def parts_from_odds(r: Block) -> tuple[Block, Block]:
    """(A, S) with A + S = 1 and A / S = r, for r >= 0."""
    rest = 1.0 / (1.0 + r)
    return where(r < 1.0, r * rest, 1.0 / (1.0 + 1.0 / r)), rest
