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
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

from gendr.distributions.registry import laws

Kind: TypeAlias = Literal["tails", "density", "shape_slope", "constant", "slope_constant"]


@dataclass(frozen=True)
class Bodies:
    """The bodies of one law.

    Attributes:
        law: its name.
        module: its file.
        has_shape: whether the bodies take a shape.
    """

    law: str
    module: ModuleType
    has_shape: bool

    def for_float64(self, kind: Kind) -> Callable[..., Any]:
        """The body for Numba."""
        return self._named(kind)

    def for_float32(self, kind: Kind) -> Callable[..., Any]:
        """The body for Triton."""
        special = getattr(self.module, f"{kind}_float32", None)
        return self._named(kind) if special is None else special

    def _named(self, kind: Kind) -> Callable[..., Any]:
        body = getattr(self.module, kind, None)
        if body is None:
            raise ValueError(
                f"the law {self.law} has no body {kind!r} for compiled kernels; write it beside "
                f"the class in {self.module.__name__}, or use backend='reference'"
            )
        return body


def bodies(name: str) -> Bodies:
    """The bodies of a law.

    Raises:
        ValueError: there is no law of that name.
    """
    cls = laws().get(name)
    if cls is None:
        raise ValueError(f"there is no law {name!r}; there are {', '.join(laws())}")
    return Bodies(name, sys.modules[cls.__module__], "shape" in cls.__match_args__)  # pyright: ignore[reportAttributeAccessIssue]  # laws are dataclasses
