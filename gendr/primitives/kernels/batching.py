"""`torch.func.vmap` for operators that have batches of their own: one call after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["one_by_one"]


def one_by_one(operator: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, int]]:
    """The rule of `register_vmap` for an operator that gives one tensor."""

    def rule(info: Any, places: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        def of(row: int) -> Tensor:
            return operator(
                *(
                    arg if place is None else arg.select(place, row)
                    for arg, place in zip(args, places, strict=True)
                )
            )

        return torch.stack([of(row) for row in range(info.batch_size)]), 0

    return rule
