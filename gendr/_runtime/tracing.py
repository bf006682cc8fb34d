"""Helpers that let our code run under `torch.compile` and `torch.autocast`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import Self

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def constant(function: F) -> F:
    """Let `torch.compile` call this function while it traces, and keep the result.

    Does what `torch.compiler.assume_constant_result` does, but without importing the compiler,
    which takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


class lazy(Generic[T]):  # used like property
    """`functools.cached_property` without its lock (Python < 3.12), which torch cannot trace."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute the value and store it in the instance, where the next access finds it first."""
        if instance is None:
            return self
        value = self.function(instance)
        object.__setattr__(instance, self.function.__name__, value)
        return value


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in the dtype of both, also under `torch.autocast`: geometry needs its digits."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


def is_plain(tensor: Tensor) -> bool:
    """Whether an operator may be called past PyTorch's dispatcher: a tensor of no special kind."""
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()  # those of torch.func
        and torch._C._len_torch_dispatch_stack() == 0  # nobody looks at every operator
    )
