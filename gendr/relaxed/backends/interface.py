"""What a backend of the ready-made algorithms offers: kernels, forward and backward.

The truth is the torch code of each file in `gendr.relaxed.algorithms`; it runs on every device, and
wherever a backend has no kernel. Kernels are plain functions of detached tensors, with batches
flattened to one dimension; `differentiable` makes them differentiable.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from gendr.relaxed.backends.laws import Law


class Kernel(Protocol):
    """One algorithm, forward and backward.

    `tensors` are its differentiable inputs, float64 and contiguous; `settings` whatever else it
    needs, as the algorithm's file says.
    """

    def forward(
        self, tensors: tuple[Tensor, ...], law: Law, settings: Any, *, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The results, and what `backward` wants to keep; nothing is kept without `save`."""
        ...

    def backward(
        self,
        tensors: tuple[Tensor, ...],
        law: Law,
        settings: Any,
        saved: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The gradient of the steepness, in parts that add up to it, and those of the tensors."""
        ...


class Backend(Protocol):
    """A backend is a module with these functions; a kernel that it does not have is None."""

    shortest_path: Kernel | None
    shortest_path_graph: Kernel | None
    alignment: Kernel | None
    bubble_sort: Kernel | None

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works on the device, and with the dtype, of this tensor."""
        ...
