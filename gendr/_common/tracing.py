"""Helpers that let our code run under `torch.compile`, `torch.func`, autocast and CUDA graphs.

Caches too, of objects (`once`, `lazy`) and of tensors (`cached`, `TensorCache`): what is made while
somebody traces belongs to the trace, and may not be kept.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.weak import WeakTensorKeyDictionary
from typing_extensions import Self

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_FAKE = torch._C._TorchDispatchModeKey.FAKE
PLAIN = Tensor, torch.nn.Parameter  # tensors of no special kind


def constant(function: F) -> F:
    """Let `torch.compile` call this function while it traces, and keep the result.

    Does what `torch.compiler.assume_constant_result` does, but without importing the compiler,
    which takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def is_traced() -> bool:
    """Whether somebody looks over the shoulder of every operator, so that only PyTorch's may run.

    So it is while `torch.compile`, `torch.export` or `torch.jit.trace` traces, while we do
    (`tracing`), inside the transforms of `torch.func`, in forward mode, and where `FakeTensorMode`
    has shapes without values. Then values of tensors decide nothing, for they may not exist, or be
    those of a whole batch; nothing is kept, and kernels are not called.
    """
    return (
        torch.compiler.is_compiling()
        or _TRACED.get()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._is_tracing()
        or (
            torch._C._len_torch_dispatch_stack() > 0
            and torch._C._get_dispatch_mode(_FAKE) is not None
        )
    )


@constant
def is_for_onnx() -> bool:
    """Whether `torch.onnx.export` traces, which knows fewer operators than PyTorch has."""
    flags = sys.modules.get("torch.onnx._internal.exporter._flags")
    return flags is not None and flags._is_onnx_exporting


def stable_sort(x: Tensor, *, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Values and indices of a stable sort along the last dimension.

    ONNX has no word for it: its `TopK`, as which it takes any sort, always is.
    """
    if is_for_onnx():
        return x.sort(dim=-1, descending=descending)
    return x.sort(dim=-1, descending=descending, stable=True)


def stable_argsort(x: Tensor, *, descending: bool = False) -> Tensor:
    """The indices of `stable_sort`."""
    return stable_sort(x, descending=descending)[1]


def running_max(x: Tensor) -> Tensor:
    """The largest value so far along the last dimension."""
    return _running(x, torch.maximum) if is_for_onnx() else x.cummax(-1).values


def running_log_sum_exp(x: Tensor) -> Tensor:
    """The logarithm of the running sum of exponentials along the last dimension."""
    return _running(x, log_add_exp) if is_for_onnx() else x.logcumsumexp(-1)


def log_add_exp(a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)), which the form that ONNX has by itself makes 0 or infinite."""
    if not is_for_onnx():
        return torch.logaddexp(a, b)
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    return torch.where(low == high, high + math.log(2), high + (low - high).exp().log1p())


def _running(x: Tensor, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Join all so far along the last dimension, of windows twice as wide each time."""
    shift = 1
    while shift < x.shape[-1]:
        wider = join(x[..., shift:], x[..., :-shift])
        x, shift = torch.cat([x[..., :shift], wider], -1), 2 * shift
    return x


def doubled(x: Tensor) -> Tensor:
    """Return x in float64, or in float32 on Apple's mps, which has no float64."""
    return x.float() if x.device.type == "mps" else x.double()


def wide(x: Tensor) -> Tensor:
    """`doubled`, but for ONNX x as it is: its runtime lacks atan and erf of doubles."""
    return x if is_for_onnx() else doubled(x)


def angle(y: Tensor, x: Tensor) -> Tensor:
    """atan2(y, x) for y > 0 and finite x; for ONNX, see `wide`, by a step from that of float32."""
    if not is_for_onnx():
        return torch.atan2(y, x)
    x = torch.where(x == 0, 0.0, x)  # the exporter's form divides by it: -0.0 has the angle -pi / 2
    if x.dtype != torch.float64:
        return torch.atan2(y, x)
    near = torch.atan2(y.float(), x.float()).double()
    sine, cosine = near.sin(), near.cos()
    return near - (x * sine - y * cosine) / (x * cosine + y * sine)  # cubic: 1e-7 becomes 1e-21


def refuse_onnx(what: str, instead: str) -> None:
    """Raise for something that ONNX has no operators for.

    Raises:
        RuntimeError: `torch.onnx.export` traces.
    """
    if is_for_onnx():
        raise RuntimeError(f"{what} has no form in ONNX; {instead}")


def is_transformed() -> bool:
    """Whether a transform of `torch.func` (`grad`, `vmap`, ...) is at work, outside of a graph."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def is_graph_whole() -> bool:
    """Whether `torch.export` or `torch.jit.trace` makes a graph, which no call can break."""
    return torch.compiler.is_exporting() or torch._C._is_tracing()


def number_of(size: int) -> int:
    """A size as a number where graphs may have a symbol for it, or `torch.jit.trace` a tensor."""
    return len(range(size))


def all_hold(conditions: Tensor) -> bool:
    """Whether all conditions hold, as far as anybody may look: while traced, they do."""
    return is_traced() or bool(conditions.all())


def breaking_graphs(function: F, place: int = 0) -> F:
    """Let `torch.compile` break its graph at a call of this function, with an argument at `place`.

    For what leaves tensors, such as the solver of a user.
    """
    name = [*inspect.signature(function).parameters][place]

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = args[place] if place < len(args) else kwargs.get(name)
        if given is not None and torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # pyright: ignore[reportCallIssue]
        return function(*args, **kwargs)

    # Code of its own: the compiler counts compilations by code, up to a limit.
    called.__code__ = called.__code__.replace(co_name=function.__qualname__)  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
    return called  # pyright: ignore[reportReturnType]


def breaking_graphs_for_masks(function: F) -> F:
    """`breaking_graphs` of a call with a mask: how long its lists are decides about shapes."""
    return breaking_graphs(function, [*inspect.signature(function).parameters].index("mask"))


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: then nothing may be read."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def refuse_transforms(what: str) -> None:
    """Raise for something that has no form of which `torch.func` finds derivatives or batches.

    Raises:
        RuntimeError: a transform of `torch.func`, or forward mode, is at work.
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        raise RuntimeError(
            f"{what} is not made for the transforms of torch.func (grad, vmap, ...); use "
            "torch.autograd.grad, and batches of inputs"
        )


def check_reverse_mode() -> None:
    """Refuse what an autograd function of ours, which has a backward pass only, cannot do.

    PyTorch names the function then, or in a compiled transform differentiates its forward pass.
    A value that stops gradients by `detach` or `no_grad` does not stop forward mode, which would
    find other derivatives without a word.

    Raises:
        RuntimeError: forward mode is at work, or `torch.compile` traces into a transform.
    """
    if torch.compiler.is_compiling():
        if torch._C._are_functorch_transforms_active():
            _refuse_graph()
    elif forward_ad._current_level >= 0:
        raise RuntimeError(
            "gendr is not made for forward mode (torch.func.jvp, jacfwd, hessian); use "
            "torch.func.vjp or jacrev"
        )


@constant  # that is, called by the compiler, which would take a traced error for a graph break
def _refuse_graph() -> None:
    raise RuntimeError(
        "gendr is not made for transforms of torch.func inside torch.compile; leave out one of them"
    )


def refuse_batched(grads: Iterable[object]) -> None:
    """Raise for gradients that PyTorch hands over as a batch, of which its rules know few things.

    Raises:
        RuntimeError: one of them is so.
    """
    if torch.compiler.is_compiling():
        return
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    for grad in grads:
        if isinstance(grad, Tensor) and functorch.is_legacy_batchedtensor(grad):
            raise RuntimeError(
                "gendr is not made for batches of gradients (is_grads_batched, or vectorize=True "
                "of torch.autograd.functional); use torch.func.jacrev, or leave the option out"
            )


_NO_VMAP = (
    "is not made for torch.func.vmap, which jacfwd and hessian use too; give it a batch, or take "
    "jacrev of jacrev"
)
KNOWN_DISTRIBUTIONS = "take logistic, laplace or cauchy"  # which are elementary functions


def refuse_batch(what: str, x: Tensor) -> None:
    """Raise for a tensor of `torch.func.vmap` or `torch.export` where its numbers are needed.

    Raises:
        RuntimeError: it is one.
    """
    if torch.compiler.is_exporting():
        raise RuntimeError(f"{what} has no graph for torch.export; {KNOWN_DISTRIBUTIONS}")
    if torch.compiler.is_compiling():
        return
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            raise RuntimeError(f"{what} {_NO_VMAP}")
        x = functorch.get_unwrapped(x)


def refuse_vmap(what: str) -> None:
    """Raise for something with results whose number depends on values, or with its own batches.

    Raises:
        RuntimeError: `torch.func.vmap` is at work.
    """
    if is_transformed():
        functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
        stack = functorch.get_interpreter_stack() or []
        if any(level.key() == functorch.TransformType.Vmap for level in stack):
            raise RuntimeError(f"{what} {_NO_VMAP}")


_TRACED: ContextVar[bool] = ContextVar("gendr.traced", default=False)


@contextmanager
def tracing() -> Generator[None]:
    """`is_traced` holds inside the block, in this thread."""
    token = _TRACED.set(True)
    try:
        yield
    finally:
        _TRACED.reset(token)


@contextmanager
def lasting() -> Generator[None]:
    """Within it, or within a function it decorates, tensors are made that a cache may keep.

    What `torch.inference_mode` makes cannot be used for training later. Here ordinary tensors are
    made in it too; gradients stay as off, or on, as they are.
    """
    graded = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(graded):
        yield


class once(Generic[T]):  # used like property
    """A property that has no gradient, computed at first access and kept.

    `functools.cached_property` without its lock (Python < 3.12), which torch cannot trace.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.place = function, function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute the value and store it in the instance, where the next access finds it first."""
        if instance is None:
            return self
        value = self.found(instance)
        object.__setattr__(instance, self.place, value)
        return value

    def found(self, instance: Any) -> T:
        """The value, made of ordinary tensors."""
        compiling = torch.compiler.is_compiling()  # which cannot trace the next question
        if compiling or not torch.is_inference_mode_enabled() or is_traced():
            return self.function(instance)
        with lasting():
            return self.function(instance)


class lazy(once[T]):
    """`once` for what may have a gradient: it does not matter in which mode it is first read.

    What was computed without gradients serves readers without; for others it is computed again. A
    tensor that was computed with gradients is detached for readers without. An instance that says
    `allows_graph = False` has no gradients in any mode.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.place = f"_cached_{function.__name__}"

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """The value for the mode of the reader, computed if the instance keeps none for it."""
        if instance is None:
            return self
        graded = torch.is_grad_enabled() and getattr(instance, "allows_graph", True)
        cached: tuple[bool, T] | None = getattr(instance, self.place, None)
        if cached is None or (graded and not cached[0]):
            cached = graded, self.found(instance)
            object.__setattr__(instance, self.place, cached)
        value = cached[1]
        if not graded and isinstance(value, Tensor) and value.requires_grad:
            return value.detach()  # pyright: ignore[reportReturnType]
        return value


_known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def cached(tensor: Tensor, key: Hashable, make: Callable[[Tensor], T]) -> T:
    """What `make` gives of the values of a tensor, kept as long as it lives and does not change.

    It may not hold the tensor, which would then live for ever.
    """
    if tensor.is_inference():  # has no version
        return make(tensor)
    values = _known.get(tensor)
    if values is None or values[0] != tensor._version:
        values = _known[tensor] = tensor._version, {}
    if key not in values[1]:
        values[1][key] = make(tensor)  # not if it raises
    return values[1][key]


class TensorCache:
    """The last thing that its owner made of tensors, until others are given or one changes.

    It may hold them, as the owner does. Copies and pickles of it are empty.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[Tensor, ...], Any, Any] | None = None

    def __reduce__(self) -> Any:
        """As a new one."""
        return TensorCache, ()

    def of(self, tensors: tuple[Tensor, ...], key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made again for another key.

        Nothing is kept while somebody traces, nor of tensors whose changes nobody sees.
        """
        if is_traced():
            return make()
        for x in tensors:
            if x.is_meta or x.is_inference():
                return make()
        stamp, last = (key, [x._version for x in tensors]), self._last
        if last is not None and last[1] == stamp:
            for x, before in zip(tensors, last[0], strict=True):
                if x is not before:
                    break
            else:
                return last[2]
        with lasting():
            made = make()
        self._last = tensors, stamp, made
        return made


def applied(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """The `apply` of an autograd function that transforms know, at the cost of one they do not.

    PyTorch binds the arguments of one with `setup_context` to its signature, which takes longer
    than what it computes. It has a backward pass only, see `check_reverse_mode`.
    """
    made: Any = function

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = made.forward(*inputs)
        made.setup_context(ctx, inputs, output)
        return output

    body = {"forward": staticmethod(forward), "backward": staticmethod(made.backward)}
    plain: Any = type(function.__name__, (torch.autograd.Function,), body)

    def apply(*inputs: Any) -> Any:
        if not is_traced():
            return plain.apply(*inputs)
        check_reverse_mode()
        return made.apply(*inputs)

    return apply


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in the dtype of both, also under `torch.autocast`: geometry needs its digits."""
    if a.is_meta:  # which torch.autocast does not know
        return a @ b
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


HALVES = (torch.float16, torch.bfloat16)


def in_single(function: F) -> F:
    """Let a function of tensors compute in float32 at least, also under `torch.autocast`.

    Arguments of half precision come as float32, or as the wider dtype of another one; results then
    have the dtype in which all floating arguments meet, as given.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        floats = [
            x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.is_floating_point()
        ]
        if all(x.dtype not in HALVES for x in floats):
            return function(*args, **kwargs)
        given = functools.reduce(torch.promote_types, (x.dtype for x in floats))
        wide = torch.promote_types(given, torch.float32)

        def widened(x: Any) -> Any:
            return x.to(wide) if isinstance(x, Tensor) and x.dtype in HALVES else x

        with torch.autocast(floats[0].device.type, enabled=False):
            result = function(*map(widened, args), **{k: widened(x) for k, x in kwargs.items()})
        return _in_dtype(result, given)

    return call  # pyright: ignore[reportReturnType]


def _in_dtype(result: Any, dtype: torch.dtype) -> Any:
    """A tensor of floats in this dtype; the members of a tuple, too."""
    if isinstance(result, Tensor):
        return result.to(dtype) if result.is_floating_point() else result
    if isinstance(result, tuple):
        parts = [_in_dtype(x, dtype) for x in result]
        return getattr(type(result), "_make", tuple)(parts)
    return result


def is_plain(*tensors: Tensor) -> bool:
    """Whether operators may be called past PyTorch's dispatcher: tensors of no special kind."""
    for tensor in tensors:
        if type(tensor) not in PLAIN:
            return False
    # Nobody looks at every operator.
    return not is_traced() and torch._C._len_torch_dispatch_stack() == 0
