"""The Frank family."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.tnorms.base import Parametric


@final
@dataclass(frozen=True)
class Frank(Parametric):
    """1 - log_p(1 + (p^(1-a) - 1)(p^(1-b) - 1)/(p-1)); g(a) = -log((p^(1-a) - 1)/(p-1)).

    With L = log p: exp(g) - 1 = -expm1(aL) / expm1(-sL), which never cancels.
    Source: thesis table B.2. The limit p = 1, excluded here, is probabilistic.
    """

    name = "frank"
    formula = "1 - log_p(1 + (p^(1-a) - 1)(p^(1-b) - 1) / (p-1))"
    parameter = "p > 0, p != 1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value == 1:
            raise ValueError(
                "frank needs p > 0 and p != 1, got p = 1; its limit there is 'probabilistic'"
            )

    @property
    def _log(self) -> float | Tensor:
        p = self._p
        return p.log() if isinstance(p, Tensor) else math.log(p)

    def generator(self, a: Tensor, s: Tensor) -> Tensor:
        """log(1 - expm1(aL) / expm1(-sL))."""
        log_p = self._log
        # |.|: at s = 0 the quotient is a number over a zero of either sign.
        return torch.log1p((torch.expm1(a * log_p) / torch.expm1(-s * log_p)).abs())

    def inverse(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """S = log_p(1 + (p-1) exp(-t)), A = -log_p(1 + (1 - 1/p)(exp(-t) - 1))."""
        p = torch.as_tensor(self._p, dtype=t.dtype, device=t.device)
        left, gone = torch.exp(-t), -torch.expm1(-t)
        log_p = p.log()
        S = _log1p(torch.expm1(log_p) * left, gone + p * left) / log_p
        A = -_log1p(torch.expm1(-log_p) * gone, left + gone / p) / log_p
        return torch.where(left > 0, A, 1.0), torch.where(gone > 0, S, 1.0)

    def _weight(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """p^(s-S) (p^S - 1) / (p^s - 1) = expm1(-SL) / expm1(-sL)."""
        log_p = self._log
        return torch.expm1(-S * log_p) / torch.expm1(-s * log_p)

    def _weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """dg/dp = (s / expm1(-sL) - 1 / expm1(-L)) / p, 1/g'(A) = -expm1(-SL) / L.

        Next to p = 1 the difference cancels: its error is about 1e-16 / |p - 1|.
        """
        log_p = torch.as_tensor(self._log, dtype=a.dtype, device=a.device)
        rate = s / torch.expm1(-s * log_p) - 1 / torch.expm1(-log_p)
        return -rate * torch.expm1(-S * log_p) / (log_p * self._p)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """(p^(1-b) - 1) / (p - 1)."""
        log_p = torch.as_tensor(self._log, dtype=b.dtype, device=b.device)
        return torch.expm1(s * log_p) / torch.expm1(log_p)


def _log1p(x: Tensor, y: Tensor) -> Tensor:
    """The logarithm of y = 1 + x, from whichever of the two has more digits."""
    return torch.where(x > -0.5, torch.log1p(x), y.log())
