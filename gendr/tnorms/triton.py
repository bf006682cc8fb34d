"""The generators as functions of float32 blocks for Triton, whose kernels take them as constants.

    generator(a, s, p)            g(a)
    inverse(t, p)                 (A, S) with g(A) = t in [0, inf]
    scaled(a, s, p)               (u, k) with g(a) = k u^|p|, for families that are made of powers
    unscaled(u, t, p)             (A, S) with g(A) = t u^|p|
    weight(a, s, A, S, p)         g'(a) / g'(A)
    weight_p(a, s, A, S, p)       (dg/dp)(a) / g'(A), for families with p

p is a float32 scalar, or a block that broadcasts; families without one ignore it. The edges are
those of `gendr.tnorms.kernel_functions`. "average" has the generator a and takes 1 / count as p.

No factor overflows or vanishes unless the result does, and no difference cancels. A generator
itself may leave the range (s^p, odds^p): then g = inf or 0, and alpha is summed up from `scaled`,
which does not. A power costs its exponent in units of the last place: for |p| <= 4 the relative
error is within 3e-6 where a and s exceed 1e-3, and grows to 2e-5 where one is 1e-30. Without powers
(probabilistic, Einstein, Hamacher, Frank) it is within 1e-6 throughout.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gendr.kernels.triton.functions import compiled
from gendr.tnorms.kernel_functions import Kind, kernel_function


@cache
def function(name: str, kind: Kind) -> Any:
    """The JIT function of a kernel function of a family, for kernels to take as a constexpr.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function.

    Raises:
        ValueError: the family has no such kernel function: "max" has none, and some families have
            no p.
    """
    return compiled(kernel_function(name, kind, float32=True), f"{name}_{kind}")
