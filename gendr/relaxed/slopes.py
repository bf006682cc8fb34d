"""Slopes of decisions: bounded, or shown line by line.

A decision with scale s has a slope of up to 1 / (4 s) (logistic), times what its branches differ
by. In a chain of decisions slopes multiply, and at a small scale they explode.
"""

from __future__ import annotations

import linecache
import math
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from gendr._common.ranges import limited

# Code of rewritten programs, by id, kept alive with it; its lines are those of the user's file.
CODE: dict[int, Any] = {}


def clipped(x: Tensor, bound: float) -> Tensor:
    """The same numbers, whose gradient is cut to [-bound, bound]."""
    if bound == math.inf:
        return x.view_as(x)
    return limited(x, bound)


@dataclass(eq=False)
class Watched:
    """The gradients of a decision: what came to its result, and what it passed back.

    Attributes:
        file: where it stands.
        line: there.
        received: the largest gradient of its probability, as an absolute number.
        passed: of what is compared.
    """

    file: str
    line: int
    received: float = 0.0
    passed: float = 0.0


class Slope(NamedTuple):
    """What the decisions of a line do to gradients; `Program.slopes` finds it.

    Attributes:
        file: of the program.
        line: in it.
        text: of the line.
        decisions: how often it decided.
        slope: the largest factor by which a decision here made a gradient longer.
        gradient: the largest gradient that left it, before `clip`.
    """

    file: str
    line: int
    text: str
    decisions: int
    slope: float
    gradient: float


class Slopes(tuple[Slope, ...]):
    """The lines of a program that decide, the steepest first; printed, a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = ["    slope  gradient  decisions  line"]
        rows += [
            f"{x.slope:9.2g} {x.gradient:9.2g} {x.decisions:10d}  {x.line}: {x.text}" for x in self
        ]
        return "\n".join(rows)


def watched(notes: list[Watched], inside: Tensor, p: Tensor) -> Tensor:
    """P, whose gradient is noted, and that of what is compared."""
    if not (inside.requires_grad and p.requires_grad):
        return p
    file, line = _place()
    note = Watched(file, line)
    notes.append(note)

    def received(grad: Tensor) -> None:
        note.received = _largest(grad)

    def passed(grad: Tensor) -> None:
        note.passed = _largest(grad)

    p = p.view_as(p)
    p.register_hook(received)
    inside.register_hook(passed)
    return p


def _largest(grad: Tensor) -> float:
    return float(grad.detach().abs().max()) if grad.numel() else 0.0


def _place() -> tuple[str, int]:
    """The line of the user's text that runs."""
    frame = sys._getframe(1)
    while frame is not None:
        if id(frame.f_code) in CODE:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def by_line(notes: list[Watched]) -> Slopes:
    """What was noted, line by line."""
    lines: dict[tuple[str, int], list[Watched]] = {}
    for note in notes:
        lines.setdefault((note.file, note.line), []).append(note)
    found = [
        Slope(
            file, line, linecache.getline(file, line).strip(), len(own),
            max(x.passed / x.received if x.received else 0.0 for x in own),
            max(x.passed for x in own),
        )
        for (file, line), own in lines.items()
    ]  # fmt: skip
    return Slopes(sorted(found, key=lambda x: -x.slope))
