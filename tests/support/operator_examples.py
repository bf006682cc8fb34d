"""An example of every operator: what the tests of all operators run."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import torch
from torch import Tensor

import gendr
from gendr._runtime.operator import Kernels, Operator

__all__ = ["Example", "example", "operators"]


@dataclass(frozen=True)
class Example:
    """An operator with something to do.

    Attributes:
        kernels: by the name of their backend; that of "cpu" takes float64.
        spec: what is no tensor.
        inputs: float64, those that get gradients require them.
        empty: inputs of an empty batch, if there is such a thing.
        batched: the places of inputs that `vmap` gets two of.
    """

    kernels: dict[str, Kernels]
    spec: Any
    inputs: tuple[Tensor, ...]
    empty: tuple[Tensor, ...] | None = None
    batched: tuple[int, ...] = field(default=(0,))


def operators() -> dict[str, Operator]:
    """Every operator of the package by its name."""
    for module in walk_packages(gendr.__path__, "gendr."):
        if "triton" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    return dict(Operator.known)


def _leaves(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.double().requires_grad_() for t in tensors)


def _gates() -> Example:
    from gendr.logic import random_wiring
    from gendr.logic.backends.cpu import backend
    from gendr.logic.backends.wires import Wires

    wires = Wires(random_wiring(5, 4, 3, seed=1), 5)
    x, tables = torch.rand(5, 6), torch.rand(4, 8)
    return Example({"cpu": backend}, wires, _leaves(x, tables), _leaves(x[:, :0], tables))


def _mixed() -> Example:
    from gendr.logic import mixing, random_wiring
    from gendr.logic.backends.wires import Wires

    wires = Wires(random_wiring(5, 4, 3, seed=1), 5)
    x, shares = torch.rand(5, 6), torch.rand(3, 4)
    return Example({"cpu": mixing._Bags}, wires, _leaves(x, shares), _leaves(x[:, :0], shares))


_EXAMPLES = {"logic.gates": _gates, "logic.mixed": _mixed}


def example(name: str) -> Example:
    """The example of an operator, the same in every call.

    Raises:
        KeyError: it has none; give it one here.
    """
    torch.manual_seed(0)
    return _EXAMPLES[name]()
