"""CUDA graphs on a CPU: a function is run anew at every replay.

Its results are written where those of the capture lie, which is what a graph does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from gendr.rendering import compiled

Run = Callable[[], "tuple[Tensor, ...]"]


class Graph:
    """What is replayed in the place of a CUDA graph."""

    captures = 0

    def __init__(self, run: Run) -> None:
        self.run, self.found = run, run()
        self.replays, self.grad = 0, torch.is_grad_enabled()
        Graph.captures += 1

    def replay(self) -> None:
        """Run it again, as a graph does in the memory of the capture."""
        self.replays += 1
        with torch.set_grad_enabled(self.grad):
            found = self.run()
        for old, new in zip(self.found, found, strict=True):
            old.copy_(new)

    def pool(self) -> Graph:
        """What stands for its memory."""
        return self


def capture(run: Run, pool: object) -> tuple[tuple[Tensor, ...], Graph]:
    """In the place of a capture."""
    graph = Graph(run)
    assert pool is None or isinstance(pool, Graph)
    return graph.found, graph


def graphs_on_the_cpu(patch: pytest.MonkeyPatch) -> type[Graph]:
    """`Renderer.compiled` with such graphs; what is asked of CUDA besides is left out."""
    Graph.captures = 0
    patch.setattr(compiled, "capture", capture)
    patch.setattr(compiled, "warm", lambda run, device: run())
    patch.setattr(compiled.CompiledRenderer, "why_not", lambda *_: None)
    patch.setattr(torch.cuda, "current_stream", lambda device: 0)
    patch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return Graph


def marked(tensors: Iterable[Tensor], mark: str) -> list[Any]:
    """What AccumulateGrad of leaves was marked with so far; nobody keeps it alive."""
    nodes = [x.view_as(x).grad_fn.next_functions[0][0] for x in tensors if x.requires_grad]
    found = [node.metadata.get("stream") for node in nodes]
    for node in nodes:
        node.metadata["stream"] = mark
    return found


def streams_of_leaves(patch: pytest.MonkeyPatch) -> list[list[Any]]:
    """A list that gets, with every capture, the marks of the streams that have seen its leaves."""
    inputs: list[Any] = []
    make, seen = compiled.Inputs, []

    def noted(run: Run, pool: object) -> Any:
        found = capture(run, pool)
        seen.append(marked(inputs[0].tensors, "capture"))
        return found

    def warm(run: Run, _: object) -> None:
        run()
        marked(inputs[0].tensors, "beside")

    patch.setattr(compiled, "Inputs", lambda *x: inputs.append(make(*x)) or inputs[-1])
    patch.setattr(compiled, "capture", noted)
    patch.setattr(compiled, "warm", warm)
    return seen
