"""The bodies of a law: the functions in its file, beside the class, that the compilers take.

    tails(z) -> (cdf, sf)
    density(z) -> pdf

The bodies of a law with a shape also take the shape, and a number that depends on the shape alone
and is computed once for many z:

    constant(shape) -> float
    tails(z, shape, constant), density(z, shape, constant)
    slope_constant(shape) -> float
    shape_slope(z, shape, constant, psi) -> dF/dshape, with psi = slope_constant(shape)

One body serves float64 (Numba) and float32 (Triton) if it keeps to `gendr._runtime.vocabulary`.
Where float32 needs other formulas, `<name>_float32` stands beside it: that one is for Triton alone
and may use its language `tl`, and `<name>` is for Numba alone and may branch and use `math`. Its
`constant_float32(shape)` is plain Python. The class is the oracle of all of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gendr._runtime.bodies import Bodies
from gendr.distributions.registry import laws

Kind: TypeAlias = Literal["tails", "density", "shape_slope", "constant", "slope_constant"]


@dataclass(frozen=True)
class LawBodies(Bodies):
    """The bodies of one law.

    Attributes:
        has_shape: whether they take a shape.
    """

    has_shape: bool


def bodies(name: str) -> LawBodies:
    """The bodies of a law.

    Raises:
        ValueError: there is no law of that name.
    """
    cls = laws().get(name)
    if cls is None:
        raise ValueError(f"there is no law {name!r}; there are {', '.join(laws())}")
    has_shape = "shape" in cls.__match_args__  # pyright: ignore[reportAttributeAccessIssue]  # laws are dataclasses
    return LawBodies(f"the law {name}", sys.modules[cls.__module__], has_shape)
