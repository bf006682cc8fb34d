"""The words in which the body of a law is written once, for all compilers.

A body is an undecorated function of numbers. Numba and Triton each take a copy of it in which these
words stand for their own functions (see `bodies`). Here they are plain Python for one number: that
defines what they mean, and lets a body be called by hand.

Rules for a body: these words, arithmetic and comparisons; no branch on an argument (`where` takes
its place, and evaluates both sides); literals are floats; a constant of the module stands on the
right of what it multiplies; nothing names a precision, for Numba's is float64 and Triton's float32.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

# A number here; a float64 for Numba; a block of float32 for Triton.
Block: TypeAlias = Any


def where(condition: Block, chosen: Block, other: Block) -> Block:
    """`chosen` where the condition holds, `other` elsewhere."""
    return chosen if condition else other


def fabs(x: Block) -> Block:
    """The absolute value."""
    return abs(x)


def sqrt(x: Block) -> Block:
    """The square root of x >= 0."""
    return math.sqrt(x)


def exp(x: Block) -> Block:
    """The exponential e^x; may be 0 where it would be subnormal."""
    return math.exp(x) if x < 709 else math.inf


def exp_and_complement(x: Block) -> tuple[Block, Block]:
    """(y, 1 - y) for y = exp(x), x <= 0, both with all their digits."""
    return math.exp(x), -math.expm1(x)


def expm1(x: Block) -> Block:
    """exp(x) - 1, with all its digits near 0."""
    return math.expm1(x) if x < 709 else math.inf


def arccot(x: Block) -> Block:
    """The angle in [0, pi/2] whose cotangent is x, for x >= 0."""
    return math.atan2(1.0, x)


def zeros_like(x: Block) -> Block:
    """Zeros of the shape of x."""
    return 0.0


# Words that are made of other words: they are bodies themselves.


def clip(z: Block) -> Block:
    """The nearest number in [-1, 1]; NaN stays NaN."""
    return where(z > 1.0, 1.0, where(z < -1.0, -1.0, z))


def two_sided(z: Block, tail: Block) -> tuple[Block, Block]:
    """(cdf, sf) of a symmetric law from its tail F(-|z|)."""
    body = 1.0 - tail
    return where(z > 0, body, tail), where(z > 0, tail, body)
