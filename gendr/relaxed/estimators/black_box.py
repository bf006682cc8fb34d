"""Black-box differentiation: one solver call at costs moved along the gradient.

Source: Vlastelica et al., Differentiation of Blackbox Combinatorial Solvers, 2020; thesis (2.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from gendr._common.words import worded
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.implicit_mle import ImplicitMLE


@worded()
@final
@dataclass(frozen=True)
class BlackBox(ImplicitMLE):
    """The gradient (g(x + step dL/dg) - g(x)) / step of a solver g of a linear problem.

    It is `ImplicitMLE` without noise, and the gradient of a piecewise linear function that agrees
    with the loss at x. For a solver that maximises it is (g(x) - g(x - step dL/dg)) / step.

    Args:
        step: lambda of the paper, > 0. The larger, the smoother.
        minimize: whether g minimises <x, g(x)>; else it maximises.

    Raises:
        ValueError: no `minimize`. The backward pass: results that move against it.
    """

    name: ClassVar[str] = "black_box"

    samples: int = field(default=1, init=False, repr=False)
    scale: float = field(default=0.0, init=False, repr=False)
    dist: DistributionLike = field(default="gumbel_max", init=False, repr=False)
    step: float = 10.0
    two_sided: bool = field(default=False, init=False, repr=False)
