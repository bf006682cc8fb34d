"""The arithmetic of a GPU at its worst, in Triton's interpreter.

The interpreter computes with NumPy, which rounds nearly everything correctly. What Triton compiles
for an NVIDIA GPU does not. In the code that Triton 3.9 gives for sm_90,

- `/` is div.full.f32, `tl.exp2` ex2.approx.ftz.f32, `tl.sqrt` sqrt.approx.ftz.f32, `tl.rsqrt`
  rsqrt.approx.ftz.f32, and `tl.log`, `tl.log2`, `tl.erf`, `tl.sin` and `tl.cos` are those of
  libdevice: all are within 2 units of the last place (ulp), and nobody promises more;
- `tl.exp(x)` rounds x log2(e), and then takes ex2.approx.f32: 2 + 0.6 |x| ulp;
- those in .ftz take numbers below 2^-126 for 0, and give 0 instead of them;
- a product that is added to something is fused with the sum, `enable_fp_fusion` allowing;
- `+`, `*`, `tl.fma`, `tl.div_rn` and `tl.sqrt_rn` are rounded correctly, and float64 is, but for
  its exp and log, within 1 ulp.

`pessimistic_arithmetic` computes so, with each of those errors as large as it may be, up or down
by chance. It is a function of the operands, as on a GPU: the same operation on the same numbers
gives the same bits, in the forward and in the backward kernel.

Exact are only exp and exp2 of 0, as PTX says, and results that are 0, infinite or NaN.

Sources: NVIDIA, CUDA C++ Programming Guide, appendix on mathematical functions; NVIDIA, Parallel
Thread Execution ISA, floating-point instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

ULP = 2  # the largest error of what is not rounded correctly, in float32

_LEAST = float(np.finfo(np.float32).tiny)
_LOG2_E = np.float32(1 / math.log(2))
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
Floats = npt.NDArray[Any]


@contextmanager
def pessimistic_arithmetic(seed: int = 0, *, fused: bool = False) -> Generator[None]:
    """Kernels that are interpreted inside compute as badly as a GPU may.

    Sums and products flush numbers below 2^-126 too. They do not where Triton compiles as it does
    today; a kernel that passes does not count on them.

    Args:
        seed: of the signs of the errors.
        fused: whether a product that is added to something is not rounded. Not for kernels that
            are compiled without, because they compare what two of them have computed.
    """
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    handle: Any = interpreter.TensorHandle

    def result(data: Floats, like: Any) -> Any:
        return handle(data, like.dtype.scalar)

    def approximate(name: str, function: Callable[..., Floats]) -> Callable[..., Any]:
        """An operation with an error."""

        def operation(self: Any, *operands: Any) -> Any:
            arrays = [x.data for x in operands]
            if arrays[0].dtype != np.float32:
                return result(_worst64(seed, name, function, arrays), operands[0])
            return result(_worst32(seed, name, function, arrays), operands[0])

        return operation

    def exact(name: str) -> Callable[..., Any]:
        """An operation that is rounded correctly, but for what is flushed."""
        original = getattr(builder, name)

        def operation(self: Any, *operands: Any) -> Any:
            if operands[0].data.dtype != np.float32:
                return original(self, *operands)
            out = original(self, *(result(_flushed(x.data), x) for x in operands))
            return result(_flushed(out.data), out)

        return operation

    def exp(self: Any, x: Any) -> Any:
        if x.data.dtype != np.float32:
            return result(_worst64(seed, "exp", np.exp, [x.data]), x)
        with np.errstate(all="ignore"):
            power = x.data * _LOG2_E
        return result(_worst32(seed, "exp2", np.exp2, [power]), x)

    def product(self: Any, a: Any, b: Any) -> Any:
        out = multiplied(self, a, b)
        if out.data.dtype == np.float32:
            with np.errstate(all="ignore"):
                out.unrounded = a.data.astype(np.float64) * b.data
        return out

    def added(sign: float, name: str) -> Callable[..., Any]:
        original = hooks[name]

        def operation(self: Any, a: Any, b: Any) -> Any:
            first, second = (getattr(x, "unrounded", None) for x in (a, b))
            if first is None and second is None:
                return original(self, a, b)
            if first is not None and second is not None:  # only one of two can be
                first, second = (first, None) if seed % 2 else (None, second)
            with np.errstate(all="ignore"):
                x = a.data.astype(np.float64) if first is None else first
                y = b.data.astype(np.float64) if second is None else second
                out = (x + sign * y).astype(np.float32)
            return result(_flushed(out), a)

        return operation

    def moved(name: str) -> Callable[..., Any]:
        """An operation behind which a product is one still."""
        original = getattr(builder, name)

        def operation(self: Any, *operands: Any) -> Any:
            out = original(self, *operands)
            for k, x in enumerate(operands):
                if hasattr(x, "unrounded"):
                    # The name of the type does not matter: none of them looks at it.
                    wide = handle(x.unrounded, interpreter.tl.float64)
                    out.unrounded = original(self, *operands[:k], wide, *operands[k + 1 :]).data
            return out

        return operation

    hooks: dict[str, Callable[..., Any]] = {"create_exp": exp}
    for name, function in _APPROXIMATE.items():
        if hasattr(builder, f"create_{name}"):
            hooks[f"create_{name}"] = approximate(name, function)
    hooks |= {name: exact(name) for name in _EXACT}
    if fused:
        multiplied = hooks["create_fmul"]
        hooks["create_fmul"] = product
        hooks["create_fadd"] = added(1.0, "create_fadd")
        hooks["create_fsub"] = added(-1.0, "create_fsub")
        hooks |= {name: moved(name) for name in _MOVING if hasattr(builder, name)}
    with ExitStack() as stack:
        for name, hook in hooks.items():
            stack.enter_context(patch.object(builder, name, hook))
        yield


def _erf(x: Floats) -> Floats:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


_APPROXIMATE: dict[str, Callable[..., Floats]] = {
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "erf": _erf,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fdiv": np.divide,
    "approx_divf": np.divide,
}
_CORRECT_IN_FLOAT64 = {"sqrt", "fdiv", "approx_divf"}
_ONE_AT_ZERO = {"exp2"}
_KEEPING_SMALL = {"fdiv"}  # div.full.f32 knows subnormal numbers
_EXACT = ("create_fadd", "create_fsub", "create_fmul", "create_fma", "create_precise_divf")
_MOVING = ("create_broadcast", "create_expand_dims", "create_splat", "create_fneg")


def _flushed(x: Floats) -> Floats:
    """Zeros of the same sign for numbers below the least normal one."""
    small = np.abs(x) < _LEAST
    return np.where(small, np.copysign(np.float32(0), x), x) if small.any() else x


def _signs(seed: int, name: str, operands: list[Floats]) -> Floats:
    """1 or -1, by chance, but the same for the same operands."""
    state = np.array([seed * 1000 + sum(map(ord, name))], np.uint64)
    for x in operands:
        bits = x.view(np.uint32 if x.dtype == np.float32 else np.uint64).astype(np.uint64)
        state = (state ^ bits) * _SPREAD
        state = (state ^ (state >> np.uint64(29))) * _SPREAD
    return np.where(state >> np.uint64(63), 1.0, -1.0)


def _worst32(seed: int, name: str, function: Any, operands: list[Floats]) -> Floats:
    """The result in float32, wrong by ULP units."""
    if name not in _KEEPING_SMALL:
        operands = [_flushed(x) for x in operands]
    with np.errstate(all="ignore"):
        exact = function(*(x.astype(np.float64) for x in operands))
        rounded = exact.astype(np.float32)
        # Half a unit is what rounding adds.
        error = (ULP - 0.5) * np.spacing(np.abs(rounded)).astype(np.float64)
        wrong = (exact + _signs(seed, name, operands) * error).astype(np.float32)
    keep = (rounded == 0) | ~np.isfinite(rounded)
    if name in _ONE_AT_ZERO:
        keep |= operands[0] == 0
    out = np.where(keep, rounded, wrong)
    return out if name in _KEEPING_SMALL else _flushed(out)


def _worst64(seed: int, name: str, function: Any, operands: list[Floats]) -> Floats:
    """The result in float64, wrong by a unit, unless hardware rounds it correctly."""
    with np.errstate(all="ignore"):
        exact = function(*operands)
        if name in _CORRECT_IN_FLOAT64:
            return exact
        wrong = exact + _signs(seed, name, operands) * np.spacing(np.abs(exact))
    return np.where((exact == 0) | ~np.isfinite(exact), exact, wrong)
