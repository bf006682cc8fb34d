"""How our Python lives with `torch.compile` and `torch.autocast`."""

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

    As `torch.compiler.assume_constant_result`, which would import the compiler, a second's work.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


class lazy(Generic[T]):  # used like property
    """`functools.cached_property` without the lock of Python < 3.12, which it cannot trace."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute the value, and put it where the next look finds it before this descriptor."""
        if instance is None:
            return self
        value = self.function(instance)
        object.__setattr__(instance, self.function.__name__, value)
        return value


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """A @ b in the dtype of both, also under `torch.autocast`: geometry needs all its digits."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b
