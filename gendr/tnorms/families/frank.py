"""The Frank family."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from gendr.kernels.vocabulary import (
    Block,
    exp_and_complement,
    expm1,
    fabs,
    log,
    log1p,
    log_of_sum,
    minimum,
    where,
)
from gendr.tnorms.base import Parametric


@final
@dataclass(frozen=True)
class Frank(Parametric):
    """1 - log_p(1 + (p^(1-a) - 1)(p^(1-b) - 1)/(p-1)); g(a) = -log((p^(1-a) - 1)/(p-1)).

    With L = log p: exp(g) - 1 = -expm1(aL) / expm1(-sL), which never cancels.
    The parameter is p > 0 but 1, whose limit is probabilistic. Source: thesis table B.2.

    Raises:
        ValueError: p <= 0 or p = 1.
    """

    name = "frank"
    formula = "1 - log_p(1 + (p^(1-a) - 1)(p^(1-b) - 1) / (p-1))"
    parameter = "p > 0, p != 1"
    example_p = (2, 0.5, 4, 1.01, 1e-6, 1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value == 1:
            raise ValueError(
                "frank needs p > 0 and p != 1, got p = 1; its limit there is 'probabilistic'"
            )

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """(p^(1-b) - 1) / (p - 1)."""
        log_p = log(self._p)
        return expm1(s * log_p) / expm1(log_p)


def generator(a: Block, s: Block, p: Block) -> Block:
    """Return g(a)."""
    log_p = log(p)
    # |.|: where s log(p) underflows the quotient is a number over a zero of either sign.
    return log1p(fabs(expm1(a * log_p) / expm1(-s * log_p)))


def inverse(t: Block, p: Block) -> tuple[Block, Block]:
    """S = log_p(1 + (p-1) exp(-t)), A = -log_p(1 + (1 - 1/p)(exp(-t) - 1))."""
    log_p = log(p)
    left, gone = exp_and_complement(-t)
    A = -log_of_sum((1.0 - p) / p * gone, left + gone / p) / log_p
    S = log_of_sum((p - 1.0) * left, gone + p * left) / log_p
    # At the ends log(p) / log(p) may round to a neighbour of 1.
    A, S = minimum(A, 1.0), minimum(S, 1.0)
    return where(left > 0.0, A, 1.0), where(gone > 0.0, S, 1.0)


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A) = p^(s-S) (p^S - 1) / (p^s - 1)."""
    log_p = log(p)
    return expm1(-S * log_p) / expm1(-s * log_p)


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A); dg/dp = (s / expm1(-sL) - 1 / expm1(-L)) / p.

    Next to p = 1 the difference cancels: its error is about 1e-16 / |p - 1| of float64.
    """
    log_p = log(p)
    rate = s / expm1(-s * log_p) - 1.0 / expm1(-log_p)
    return -rate * expm1(-S * log_p) / (log_p * p)


def _rate(a: Block, s: Block, log_p: Block) -> Block:
    """The derivative p dg/dp = s / expm1(-sL) - 1 / expm1(-L), L = log p, to relative precision.

    As -(a + s expm1(-aL) / expm1(sL)) / expm1(-L) it keeps its digits for small a and small s
    alike, and cancels for small L only. There the Bernoulli series of L / (1 - exp(-L)) less that
    of sL, with factor 1 - s^2 = a (1 + s) taken out, gives
    a/2 + (1 - s^2) L (1/12 - (1 + s^2) L^2 / 720 + (1 + s^2 + s^4) L^4 / 30240 - ...).
    """
    closed = -(a + s * (expm1(-a * log_p) / expm1(s * log_p))) / expm1(-log_p)
    q, r = log_p * log_p, s * s
    sum2 = 1.0 + r
    sum3 = 1.0 + r * sum2
    sum4 = 1.0 + r * sum3
    tail = 1.0 / 720.0 * sum2 - q * (1.0 / 30240.0 * sum3 - q * (1.0 / 1209600.0 * sum4))
    series = a * (0.5 + (1.0 + s) * (log_p * (1.0 / 12.0 - q * tail)))
    # Up to there the term left out is below 3e-8 of the sum, and the closed form loses a digit.
    return where(fabs(log_p) < 0.75, series, closed)


def weight_p_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    log_p = log(p)
    inverse_slope = -expm1(-S * log_p) / log_p  # 1 / g'(A)
    return _rate(a, s, log_p) / p * inverse_slope
