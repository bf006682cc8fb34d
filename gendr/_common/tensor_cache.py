"""What is found out about tensors, kept until they change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gendr._common.tracing import is_traced, lasting

T = TypeVar("T")
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
