"""The bodies of a law: the functions in its file, beside the class, that the compilers take.

Where a file holds two laws, each class names its own: `bodies = {"tails": …, "density": …}`.

    tails(z) -> (cdf, sf)
    density(z) -> pdf

The bodies of a law with a shape also take the shape, and a number that depends on the shape alone
and is computed once for many z:

    constant(shape) -> float
    tails(z, shape, constant), density(z, shape, constant)
    slope_constant(shape) -> float
    shape_slope(z, shape, constant, psi) -> dF/dshape, with psi = slope_constant(shape)

One body serves float64 (Numba) and float32 (vectors of Numba, and Triton) if it keeps to
`gendr.kernels.vocabulary`. Where float32 needs other formulas, `<name>_float32` stands beside it.
If that uses Triton's language `tl`, it is for Triton alone, and the CPU computes in float64;
`<name>` is then for float64 alone and may branch and use `math`. Its `constant_float32(shape)` and
`slope_constant_float32(shape)` are PyTorch, for float64 tensors of any shape. mpmath and SciPy are
the oracles of all of them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from gendr._common.tracing import constant
from gendr.distributions.law import Law
from gendr.kernels.bodies import Bodies, KernelNames

Kind: TypeAlias = Literal["tails", "density", "shape_slope", "constant", "slope_constant"]
LawBodies: TypeAlias = Bodies[type[Law]]

_KERNELS = KernelNames("law", Law, get_args(Kind))


@constant
def kernel_name(cls: type[Law]) -> str:
    """The name under which a law's compiled functions are found and kept, by its class and code.

    Raises:
        TypeError: its `bodies` are no mapping from names to functions.
        ValueError: nobody knows which bodies belong to it; see `KernelNames.name`.
    """
    return _KERNELS.known.get(cls) or _KERNELS.name(cls)


def bodies(name: str) -> LawBodies:
    """The bodies of a law.

    Args:
        name: by `kernel_name`, or that of a law of the package.

    Raises:
        ValueError: there is no law of that name.
    """
    return _KERNELS.bodies(name)


def has_shape(of: LawBodies) -> bool:
    """Whether the bodies of a law take a shape."""
    return "shape" in of.cls.__match_args__  # pyright: ignore[reportAttributeAccessIssue]  # laws are dataclasses
