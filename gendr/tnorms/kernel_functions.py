"""What the file of a family holds beside its class: the kernel functions that the compilers take.

    generator(a, s, p) -> g(a)
    inverse(t, p) -> (A, S) with g(A) = t in [0, inf]
    weight(a, s, A, S, p) -> g'(a) / g'(A)
    weight_p(a, s, A, S, p) -> (dg/dp)(a) / g'(A), for families with p
    scaled(a, s, p) -> (u, k) with g(a) = k u^q and 0 <= k <= 1 wherever u^q may leave float32
    unscaled(u, t, p) -> (A, S) with g(A) = t u^q, u the greatest measure of all

The last two are for families whose g grows as a power q = |p|, and for Triton alone. Where a file
holds two families, each class names its own: `kernel_functions = {"generator": …, …}`.

p comes last, and a kernel function that does not need it leaves it out. What happens on the edges
is one rule for all, see `kernel_function`; kernel functions only matter where a, s, A and S are
positive. A family of norms gives `measure(a, s)` and `unmeasure(u)` in the place of the first two
and of the last. Numba takes `inverse` where faces are joined in order: else a pixel has but one,
and the class gives it.

One kernel function serves the class (tensors), Numba (float64, float32) and Triton (float32) if it
keeps to `gendr.kernels.vocabulary`; a class may also have a method in place of a kernel function,
for itself alone. Where float32 needs another form, because a factor would overflow or vanish
although the result does not, or because a difference would cancel, `<name>_float32` stands beside
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

from gendr._common.tracing import constant
from gendr.kernels.functions import KernelFunctions, KernelNames, moved, rebound
from gendr.kernels.vocabulary import Block, fabs, power, where
from gendr.tnorms.base import Norm, TConorm, argument_count

Kind: TypeAlias = Literal[
    "generator", "inverse", "measure", "unmeasure", "weight", "weight_p", "scaled", "unscaled"
]

_KERNELS = KernelNames("T-conorm", TConorm, get_args(Kind))
_INFINITY = float("inf")

# What every family binds to its own. Its value comes before the conditions of the edges, which
# would otherwise occupy registers of the GPU meanwhile.
FUNCTION: Any = None


def _generator(a: Block, s: Block, p: Block) -> Block:
    g = FUNCTION(a, s, p)
    return where(s > 0.0, g, _INFINITY)


def _scaled(a: Block, s: Block, p: Block) -> tuple[Block, Block]:
    u, k = FUNCTION(a, s, p)
    return where(s > 0.0, u, _INFINITY), where(s > 0.0, k, 1.0)


def _weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    if (a > 0.0) & (s > 0.0) & (A > 0.0) & (S > 0.0):
        w = FUNCTION(a, s, A, S, p)
        return w if fabs(w) < _INFINITY else 0.0
    return 0.0


def _weight_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    w = FUNCTION(a, s, A, S, p)
    w = where((a > 0.0) & (s > 0.0) & (A > 0.0) & (S > 0.0), w, 0.0)
    return where(fabs(w) < _INFINITY, w, 0.0)


# Outside [0, 1] there is only s <= 0 to think of; the mean is linear, and saturation nothing to it.
_EDGES: dict[str, tuple[Any, Any]] = {  # for Numba, for Triton
    "generator": (_generator, _generator),
    "measure": (_generator, _generator),
    "scaled": (_scaled, _scaled),
    "weight": (_weight, _weight_float32),
    "weight_p": (_weight, _weight_float32),
}


def _generator_without_p(a: Block, s: Block, p: Block) -> Block:
    return FUNCTION(a, s)


def _inverse_without_p(t: Block, p: Block) -> tuple[Block, Block]:
    return FUNCTION(t)


def _weight_without_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    return FUNCTION(a, s, A, S)


# What takes p, which comes last, to a kernel function without it; a scaled one has a power.
_WITHOUT_P: dict[Kind, Any] = {
    "generator": _generator_without_p,
    "measure": _generator_without_p,
    "inverse": _inverse_without_p,
    "unmeasure": _inverse_without_p,
    "weight": _weight_without_p,
    "weight_p": _weight_without_p,
}


def of_norm(u: Block, p: Block) -> Block:
    """The generator of a family of norms from its measure."""
    return power(u, p)


def _generator_of_norm(a: Block, s: Block, p: Block) -> Block:
    return of_norm(FUNCTION(a, s, p), p)


def _inverse_of_norm(t: Block, p: Block) -> tuple[Block, Block]:
    return FUNCTION(power(t, 1.0 / p), p)


def _scaled_of_norm(a: Block, s: Block, p: Block) -> tuple[Block, Block]:
    return FUNCTION(a, s, p), s * 0.0 + 1.0


def _unscaled_of_norm(u: Block, t: Block, p: Block) -> tuple[Block, Block]:
    return FUNCTION(u * power(t, 1.0 / p), p)


# What a family of norms may leave out, what it is made from, and how.
_OF_NORMS: dict[str, tuple[Kind, Any]] = {
    "generator": ("measure", _generator_of_norm),
    "inverse": ("unmeasure", _inverse_of_norm),
    "scaled": ("measure", _scaled_of_norm),
    "unscaled": ("unmeasure", _unscaled_of_norm),
}


@constant
def kernel_name(cls: type[TConorm]) -> str:
    """The name under which a family's compiled functions are found and kept.

    Raises:
        TypeError: its `kernel_functions` are no mapping from names to functions.
        ValueError: nobody knows which kernel functions belong to it; see `KernelNames.name`.
    """
    return _KERNELS.known.get(cls) or _KERNELS.name(cls)


def kernel_functions(name: str) -> KernelFunctions[type[TConorm]]:
    """The class of a family and its kernel functions.

    Args:
        name: by `kernel_name`, or that of a family of the package.

    Raises:
        ValueError: there is no family of that name.
    """
    return _KERNELS.kernel_functions(name)


@cache
def kernel_function(name: str, kind: Kind, *, float32: bool = False) -> Callable[..., Any]:
    """A kernel function of a family for a compiler, with p and with its edges.

    The edges follow the renderer's rules: g = inf where s <= 0, but for the mean, and both weights
    are 0 where a, s, A or S is not positive, or where one would not be finite.

    Args:
        name: of the family, by `kernel_name`.
        kind: which of its kernel functions.
        float32: whether it is for Triton.

    Raises:
        ValueError: there is no such family, or it has no such kernel function.
    """
    whole = _with_p(name, kind, float32)
    linear = kernel_functions(name).cls.kind == "mean" and kind == "generator"
    if linear or kind not in _EDGES:
        return whole
    return _around(_EDGES[kind][float32], whole, name, kind)


def _with_p(name: str, kind: Kind, float32: bool) -> Callable[..., Any]:
    """A kernel function with p, without its edges."""
    of = kernel_functions(name)
    if derives(name, kind, float32=float32):
        source, wrapper = _OF_NORMS[kind]
        return _around(wrapper, _with_p(name, source, float32), name, kind)
    own = of.for_float32(kind) if float32 else of.for_float64(kind)
    wrapper = _WITHOUT_P.get(kind)
    if wrapper is None or argument_count(own) == argument_count(wrapper):
        return own
    return _around(wrapper, own, name, kind)


def _around(wrapper: Any, inner: Any, name: str, kind: Kind) -> Callable[..., Any]:
    """The wrapper of one function; Triton tells functions apart by their full names."""
    whole = rebound(wrapper, lambda _, value: value, FUNCTION=inner)
    return moved(whole, inner.__module__, f"{name}_{kind}{wrapper.__name__}")


def is_scaled(name: str) -> bool:
    """Whether a family has the kernel functions `scaled` and `unscaled`.

    Raises:
        ValueError: there is no such family.
    """
    return kernel_functions(name).has("scaled") or derives(name, "scaled")


def derives(name: str, kind: Kind, *, float32: bool = False) -> bool:
    """Whether a family leaves a kernel function out because it is a norm.

    Raises:
        ValueError: there is no such family.
    """
    of = kernel_functions(name)
    has_own = of.has(kind) or (float32 and of.has(f"{kind}_float32"))
    return kind in _OF_NORMS and issubclass(of.cls, Norm) and not has_own
