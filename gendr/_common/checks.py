"""Checks of arguments; each raises an error of one line: what came, and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from numbers import Integral, Real
from typing import Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from gendr._common.memory import physical_memory
from gendr._common.names import unknown
from gendr._common.readback import earlier
from gendr._common.tracing import PLAIN, constant, is_traced, is_transformed

FLOATS = (torch.float32, torch.float64)
Reduction: TypeAlias = Literal["none", "mean", "sum"]
_SMALL = 10_000  # what BLAS sums on one thread
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def shape_text(shape: Iterable[int]) -> str:
    """`[2, 3]` for any iterable of sizes."""
    return "[" + ", ".join(str(n) for n in shape) + "]"


def check_tensor(name: str, value: object, *, meta: bool = False) -> Tensor:
    """Return `value` if it is a dense tensor with values.

    Args:
        name: of the tensor in the message.
        value: what is given.
        meta: whether a tensor on the device meta, which has a shape only, will do.

    Raises:
        TypeError: if it is anything else, also a sparse, nested or meta tensor.
    """
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}; "
            "convert it with torch.as_tensor"
        )
    if value.is_meta and not meta:
        raise TypeError(f"{name} must have values, got a tensor on the device meta, which has none")
    if value.is_nested:
        raise TypeError(f"{name} must be dense, got a nested tensor; use .to_padded_tensor(0)")
    if value.layout is not torch.strided:
        kind = str(value.layout).removeprefix("torch.")
        raise TypeError(f"{name} must be dense, got the layout {kind}; use .to_dense()")
    return value


def check_float(name: str, value: object) -> Tensor:
    """Return `value` if it is a float32 or float64 tensor.

    Raises:
        TypeError: if it is no tensor or has another dtype.
    """
    tensor = check_tensor(name, value)
    if tensor.dtype not in FLOATS:
        raise TypeError(
            f"{name} must be float32 or float64, got {dtype_name(tensor.dtype)}; "
            "convert it with .float()"
        )
    return tensor


def widened(x: Tensor) -> Tensor:
    """Convert half precision to float32, in which is computed; keep other dtypes."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def check_integer(name: str, value: object) -> Tensor:
    """Return `value` as int64 if it is a tensor of integers.

    Raises:
        TypeError: if it is no tensor or has another dtype.
    """
    tensor = check_tensor(name, value)
    if tensor.dtype not in INTEGERS:
        raise TypeError(
            f"{name} must hold integers, got {dtype_name(tensor.dtype)}; convert it with .long()"
        )
    return tensor.long()


# Of each alternative of a pattern, whether it begins with dots, and its numbers and letters.
_Alternatives: TypeAlias = "list[tuple[bool, tuple[str | int, ...]]]"
_PATTERNS: dict[str, _Alternatives] = {}


@constant
def _alternatives(pattern: str) -> _Alternatives:
    found: _Alternatives = []
    for alternative in pattern.split(" or "):
        parts = [part.strip() for part in alternative.strip().strip("[]").split(",")]
        sizes = [int(part) if part.isdigit() else part for part in parts if part]
        dots = sizes[:1] == ["..."]
        found.append((dots, tuple(sizes[dots:])))
    if not is_traced():  # a graph is made for what it finds here, which may not change meanwhile
        _PATTERNS[pattern] = found
    return found


def check_shape(name: str, tensor: Tensor, pattern: str, **known: int) -> dict[str, int]:
    """Compare a shape with a pattern and return the sizes of its letters.

    Args:
        name: What the tensor is called in the message.
        tensor: Any tensor.
        pattern: Such as `"[B, F, 3, 3]"`, `"[..., 3]"` or `"[V, 3] or [B, V, 3]"`. Numbers must
            match, equal letters must be equal, leading dots stand for any number of dimensions.
        **known: Sizes of letters that are known beforehand.

    Raises:
        ValueError: if no alternative fits.
    """
    shape = tensor.shape
    for dots, parts in _PATTERNS.get(pattern) or _alternatives(pattern):
        missing = len(shape) - len(parts)
        if missing < 0 or (missing and not dots):
            continue
        sizes = dict(known)
        for part, n in zip(parts, shape[missing:], strict=True):
            if n != (part if isinstance(part, int) else sizes.setdefault(part, n)):
                break
        else:
            return sizes
    where = ", ".join(f"{k} = {v}" for k, v in known.items() if k in pattern)
    where = f" with {where}" if where else ""
    raise ValueError(f"{name} must have shape {pattern}{where}, got {shape_text(tensor.shape)}")


def look_by(kernel: Callable[[int, int, bool], bool]) -> None:
    """Let a compiled function look for NaN and inf in small tensors, which NumPy takes longer for.

    Args:
        kernel: (address, count, whether float64) -> whether all values are finite.
    """
    global _look
    _look = kernel


_look: Callable[[int, int, bool], bool] | None = None  # what has loaded a kernel gives it


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """Return `tensor` if it holds neither NaN nor inf.

    Tensors that `torch.compile` or `torch.func` traces have no values yet: they are not checked.

    Raises:
        TypeError: if it is sparse, nested, or has no values.
        ValueError: that names the tensor, how many values are wrong, and where the first is.
    """
    check_tensor(name, tensor)
    if is_traced():
        return tensor
    # A tensor that outlived a transform has no storage of its own. `detach` finds that of
    # gradients; after `functionalize` the address is 0.
    values = tensor.detach()
    is_double = values.dtype is torch.float64
    is_small = values.is_cpu and values.numel() <= _SMALL
    is_small = is_small and (is_double or values.dtype is torch.float32)
    if is_small and _look is not None and type(tensor) in PLAIN and values.is_contiguous():
        address = values.data_ptr()
        if address and _look(address, values.numel(), is_double):
            return tensor
    # If the sum is finite, all values are. If it is not, it may also have overflowed: look again.
    # Of few values it is that of their squares, by BLAS, which is sooner done than by torch;
    # `vdot`, other than `dot`, warns of no overflow.
    if is_small and type(values) is Tensor and not values.is_neg():
        flat = values.numpy()
        total = np.vdot(flat, flat)
    else:
        total = float(values.sum())
    if math.isfinite(total):
        return tensor
    good = torch.isfinite(values)
    if not bool(good.all()):
        bad = (~good).nonzero()
        first = bad[0].tolist()
        value = values[tuple(first)].item()
        at = f" at index {shape_text(first)}" if first else ""
        raise ValueError(
            f"{name} must be finite, got {len(bad)} NaN or inf values, the first ({value}){at}"
        )
    return tensor


def check_finite_late(name: str, tensor: Tensor, owner: Hashable) -> Tensor:
    """`check_finite`; on a GPU without waiting: a later call raises for the tensor of this one.

    Args:
        name: of the tensor in the message.
        tensor: of floats.
        owner: whose later call; see `earlier`.

    Raises:
        ValueError: that names the tensor; on a GPU it says that it was that of an earlier call.
    """
    if not tensor.is_cuda:
        return check_finite(name, tensor)
    if is_traced() or not tensor.numel():
        return tensor
    # The largest magnitude: other than a sum it does not overflow.
    largest = torch.linalg.vector_norm(tensor.detach(), torch.inf)
    found = earlier(owner, name, largest.reshape(1))
    if found is not None and not math.isfinite(found[0]):
        raise ValueError(
            f"{name} must be finite, got NaN or inf in an earlier call on {tensor.device}"
        )
    return tensor


def check_index(name: str, tensor: Tensor, size: int, what: str) -> Tensor:
    """Return `tensor`, which holds indices, if all of them lie in 0 .. size - 1.

    Args:
        name: What the indices are called in the message.
        tensor: Integers of any shape.
        size: The number of things that they index.
        what: What these things are called, in the plural.

    Raises:
        ValueError: if an index is negative or too large.
    """
    if tensor.numel() and not is_transformed():
        low, high = torch.stack(torch.aminmax(tensor)).tolist()  # a GPU is waited for once
        if low < 0 or high >= size:
            worst = low if low < 0 else high
            hint = "; indices count from 0" if high == size and low >= 1 else ""
            allowed = f"0 .. {size - 1}" if size else "nothing"
            raise ValueError(
                f"{name} must index the {size} {what} ({allowed}), got the index {worst}{hint}"
            )
    return tensor


def check_classes(target: Tensor, size: int) -> Tensor:
    """`check_index` of classes; tensors that are traced are not checked.

    Raises:
        ValueError: if a class is negative or too large.
    """
    return target if is_traced() else check_index("target", target, size, "classes")


def check_like(name: str, tensor: Tensor, other_name: str, other: Tensor) -> Tensor:
    """Return `tensor` if it has the dtype and device of `other`.

    Raises:
        TypeError: if the dtypes differ.
        ValueError: if the devices differ.
    """
    if tensor.dtype != other.dtype:
        raise TypeError(
            f"{name} must have the dtype of {other_name}, {dtype_name(other.dtype)}, "
            f"got {dtype_name(tensor.dtype)}; convert one of them with .to()"
        )
    if tensor.device != other.device:
        check_device(name, tensor, other_name, other)
    return tensor


def check_device(name: str, tensor: Tensor, other_name: str, other: Tensor) -> Tensor:
    """Return `tensor` if it lives on the device of `other`.

    Raises:
        ValueError: if the devices differ.
    """
    if tensor.device != other.device:
        raise ValueError(
            f"{name} must be on the device of {other_name}, {other.device}, "
            f"got {tensor.device}; move one of them with .to()"
        )
    return tensor


def check_choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the allowed strings.

    Raises:
        ValueError: with the allowed names; with the nearest if they are more than a dozen.
    """
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(unknown(name, value, names))


def check_reduction(reduction: str) -> Reduction:
    """The reduction of a loss over its batch, or a `ValueError`."""
    return cast("Reduction", check_choice("reduction", reduction, ("none", "mean", "sum")))


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    least: float = -math.inf,
) -> float:
    """Return `value` as a float if it is a number with above < value < below and value >= least.

    Numbers of NumPy count; whoever keeps a number keeps what is returned.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is NaN, inf or outside the interval.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    # Symbols of `torch.compile` stay what they are; NaN and inf fail the comparisons.
    number = value if isinstance(value, (int, float)) else float(value)
    if not above < number < below or number < least:
        bounds = [f"> {above:g}"] if above > -math.inf else []
        bounds += [f">= {least:g}"] if least > -math.inf else []
        bounds += [f"< {below:g}"] if below < math.inf else []
        raise ValueError(f"{name} must be {' and '.join(bounds) or 'finite'}, got {value!r}")
    return float(number)


def check_count(name: str, value: object, *, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`.

    Those of NumPy count; whoever keeps a number keeps what is returned. So do sizes under
    `torch.jit.trace`, which are tensors there: it warns that the graph is then for these alone.

    Raises:
        TypeError: if it is no int.
        ValueError: if it is too small.
    """
    if isinstance(value, Tensor) and torch._C._is_tracing():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
    return value if isinstance(value, int) else int(value)


def check_image_size(value: object, name: str = "image_size") -> tuple[int, int]:
    """(H, W) of a number of pixels, which stands for a square, or of a pair (H, W).

    Whole numbers of any type count: 64, np.int64(64), and 64.0, as calibration files have it.

    Args:
        value: A number, or two in a list, a tuple, an array or a tensor.
        name: What it is called in the message.

    Raises:
        TypeError: if it is neither one whole number nor two.
        ValueError: if a side is below 1.
        MemoryError: one image of float32 is larger than the memory.
    """
    if isinstance(value, Tensor):
        value = value.tolist()
    pair = tuple(value) if isinstance(value, Iterable) else (value, value)
    sides: list[int] = []
    for n in pair:
        if isinstance(n, bool):
            continue
        if isinstance(n, int):
            sides.append(n)  # as it is: under `torch.compile` it may be a symbol
        elif isinstance(n, Real) and float(n).is_integer():
            sides.append(int(float(n)))
    if len(pair) != 2 or len(sides) != 2:
        raise TypeError(f"{name} must be an int or (height, width), got {value!r}")
    if min(sides) < 1:
        raise ValueError(f"{name} must be >= 1, got {value!r}")
    if not torch.compiler.is_compiling():
        check_memory(f"an image of {name} {value!r}", 4 * sides[0] * sides[1])
    return sides[0], sides[1]


def check_memory(what: str, size: int, instead: str = "") -> None:
    """Raise for what would not even fit if the machine had nothing else in its memory.

    Args:
        what: is to be made, for the message.
        size: its bytes.
        instead: what to do, if there is something.

    Raises:
        MemoryError: the machine has less, as far as the system tells.
    """
    if size > (memory := physical_memory()):
        advice = f"; {instead}" if instead else ""
        raise MemoryError(
            f"{what} needs {size / 1e9:,.3g} GB, this machine has {memory / 1e9:,.3g} GB{advice}"
        )
