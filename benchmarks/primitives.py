"""Time the primitives: rasterize, interpolate, antialias, forward + backward.

    python benchmarks/primitives.py                               # everything, printed
    python benchmarks/primitives.py --cases 512 --repeat 9        # some
    python benchmarks/primitives.py --out docs/results --docs     # what the documentation shows

A ball with dents, a mask and three colours of vertices, gradients of positions and colours. All
three of them are the first row, then each by itself, with the gradients of its own inputs; the
topology of the mesh is known, as in every step of a fit but the first. Beside them the same in
float64.
"""

from __future__ import annotations

from functools import partial

import torch
from _inputs import ball
from comparison import Case, Comparison, Groups, Run, drawn, outcome
from torch import Tensor

from gendr import primitives

# Faces, the side of the picture, and the target.
SIZES = ((40_000, 512, "25 ms"), (1_000_000, 1024, "250 ms"))


def all_three(side: int, tri: Tensor, pos: Tensor, colors: Tensor) -> Tensor:
    """What is timed first."""
    rast, _ = primitives.rasterize(None, pos, tri, (side, side))
    color, _ = primitives.interpolate(colors, rast, tri)
    color = torch.cat([color, (rast[..., 3:] > 0).to(color.dtype)], -1)
    return primitives.antialias(color, rast, pos, tri)


def groups(count: int, side: int) -> Groups:
    """The implementations."""
    pos, colors, tri = ball(count)
    found: list[dict[str, Run]] = []
    for dtype in (torch.float32, torch.float64):
        p, c = (x.to(dtype).requires_grad_() for x in (pos, colors))
        grad = drawn(1, side, side, 4, seed=1).to(dtype)
        run = partial(outcome, partial(all_three, side, tri), (p, c), grad)
        found.append({"all" if dtype == torch.float32 else "all, float64": run})
    found = [{**found[0], **found[1]}]
    p, c = (x.requires_grad_() for x in (pos, colors))
    rast = primitives.rasterize(None, p.detach(), tri, (side, side))[0].requires_grad_()
    color = drawn(1, side, side, 4, seed=2).requires_grad_()
    grad = drawn(1, side, side, 4, seed=1)
    runs = {
        "rasterize": partial(
            outcome, lambda x: primitives.rasterize(None, x, tri, (side, side))[0], (p,), grad
        ),
        "interpolate": partial(
            outcome, lambda x, r: primitives.interpolate(x, r, tri)[0], (c, rast), grad[..., :3]
        ),
        "antialias": partial(
            outcome, lambda x, y: primitives.antialias(x, rast, y, tri), (color, p), grad
        ),
    }
    return [*found, *({name: run} for name, run in runs.items())]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    sizes = ((400, 32, "25 ms"),) if quick else SIZES
    return [
        Case(
            f"{side}x{side}/{count}", partial(groups, count, side), {"all": target},
            memory=("all",), small=partial(groups, 400, 32),
        )
        for count, side, target in sizes
    ]  # fmt: skip


main = Comparison("primitives", __doc__, cases, page="results/primitives").main

if __name__ == "__main__":
    main()
