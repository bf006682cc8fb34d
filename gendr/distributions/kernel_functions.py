"""The kernel functions of a distribution, which stand beside its class.

Where a file holds two distributions, each class names its own:
`kernel_functions = {"tails": …, "density": …}`.

    tails(z) -> (cdf, sf)
    density(z) -> pdf

The kernel functions of a distribution with a shape also take the shape, and a number that depends
on the shape alone and is computed once for many z:

    constant(shape) -> float
    tails(z, shape, constant), density(z, shape, constant)
    slope_constant(shape) -> float
    shape_slope(z, shape, constant, psi) -> dF/dshape, with psi = slope_constant(shape)

One kernel function serves float64 (Numba) and float32 (vectors of Numba, and Triton) if it keeps to
`gendr.kernels.vocabulary`. Where float32 needs other formulas, `<name>_float32` stands beside it.
If that uses Triton's language `tl`, it is for Triton alone, and the CPU computes in float64;
`<name>` is then for float64 alone and may branch and use `math`. Its `constant_float32(shape)` and
`slope_constant_float32(shape)` are PyTorch, for float64 tensors of any shape. mpmath and SciPy are
the oracles of all of them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from gendr._common.tracing import constant
from gendr.distributions.standard import StandardDistribution
from gendr.kernels.functions import KernelFunctions, KernelNames

Kind: TypeAlias = Literal["tails", "density", "shape_slope", "constant", "slope_constant"]
DistributionFunctions: TypeAlias = KernelFunctions[type[StandardDistribution]]

_KERNELS = KernelNames("distribution", StandardDistribution, get_args(Kind))


@constant
def kernel_name(cls: type[StandardDistribution]) -> str:
    """The name under which compiled functions are found and kept, by class and code.

    Raises:
        TypeError: its `kernel_functions` are no mapping from names to functions.
        ValueError: nobody knows which kernel functions belong to it; see `KernelNames.name`.
    """
    return _KERNELS.known.get(cls) or _KERNELS.name(cls)


def kernel_functions(name: str) -> DistributionFunctions:
    """The kernel functions of a distribution.

    Args:
        name: by `kernel_name`, or that of a distribution of the package.

    Raises:
        ValueError: there is no distribution of that name.
    """
    return _KERNELS.kernel_functions(name)


def has_shape(of: DistributionFunctions) -> bool:
    """Whether the kernel functions of a distribution take a shape."""
    return "shape" in of.cls.__match_args__  # pyright: ignore[reportAttributeAccessIssue]  # distributions are dataclasses
