"""Time texture lookups of `gendr.primitives`, forward and backward.

    python benchmarks/textures.py               # printed
    python benchmarks/textures.py --docs        # what docs/results/primitives.md shows

The least of several runs, on the clock and in processor time of all threads: where other programs
run beside, only the second says something.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from _inputs import floor
from torch import Tensor

from gendr.primitives import texture, texture_construct_mip
from lab.pages import fill, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "primitives.md"


def least(function: Callable[[], object], runs: int) -> tuple[str, str]:
    """Milliseconds on the clock and in processor time, each the least of the runs."""
    clock, work = [], []
    for _ in range(runs):
        begin = time.perf_counter(), time.process_time()
        function()
        clock.append(time.perf_counter() - begin[0])
        work.append(time.process_time() - begin[1])
    return f"{1e3 * min(clock):.0f}", f"{1e3 * min(work):.0f}"


def measured(size: int, runs: int) -> list[str]:
    """The lines of the table."""
    torch.manual_seed(0)
    uv, uv_da = floor(size)
    tex, cube = torch.rand(1, size, size, 3), torch.rand(1, 6, size // 4, size // 4, 3)
    ways = torch.nn.functional.normalize(torch.cat([uv - 0.5, uv[..., :1] + 0.1], -1), dim=-1)
    mip = texture_construct_mip(tex)
    leaves = [x.clone().requires_grad_() for x in (tex, uv, uv_da)]
    by_texels = texture(leaves[0], uv, uv_da)
    by_places = texture(tex, leaves[1], leaves[2])
    grad = torch.rand_like(by_texels)

    def back(result: Tensor, *inputs: Tensor) -> Callable[[], object]:
        return lambda: torch.autograd.grad(result, inputs, grad, retain_graph=True)

    cases: dict[str, Callable[[], object]] = {
        "linear": lambda: texture(tex, uv),
        "linear-mipmap-linear, mipmaps given": lambda: texture(tex, uv, uv_da, mip=mip),
        "the mipmaps": lambda: texture_construct_mip(tex),
        "linear on a cube map": lambda: texture(cube, ways, boundary_mode="cube"),
        "gradients of the texture, with mipmaps": back(by_texels, leaves[0]),
        "gradients of uv and uv_da": back(by_places, leaves[1], leaves[2]),
    }
    rows = [(name, *least(case, runs)) for name, case in cases.items()]
    threads = torch.get_num_threads()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = f"; about {load:.0f} other programs ran beside" if load > threads + 1 else ""
    head = ("", f"on the clock, {threads} threads", "processor time")
    return [*table(head, rows, 1), "", f"The least of {runs} runs{busy}."]


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", action="store_true", help="write into docs/results/primitives.md")
    parser.add_argument("--size", type=int, default=1024, help="pixels of a side")
    parser.add_argument("--repeat", type=int, default=15, help="runs")
    args = parser.parse_args()
    lines = measured(args.size, args.repeat)
    print("\n".join(lines))
    if args.docs:
        fill(PAGE, "primitives-texture", lines)


if __name__ == "__main__":
    main()
