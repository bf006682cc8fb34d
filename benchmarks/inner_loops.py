"""The inner loops of silhouettes on the CPU: instructions, and pairs a second beside the limit.

    python benchmarks/inner_loops.py [--docs]

Instructions are counted in the assembly of each loop over pairs (a pixel and a face), compiled for
this machine: those of tiles in float32, which most renderers take, and of rows in float64. The
limit is what they take if each is as fast as the fused multiply-adds of a float64 matrix product,
which are measured in the same run. The steps are those of tiles. All on one thread, in processor
time, the least of many runs. --docs writes the tables into docs/results/speed.md.
"""

# Numba compiles the functions that call intrinsics.
# pyright: reportCallIssue=false
# ruff: noqa: E402  # where kernels are kept is said before they are imported

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Assembly is kept of what this process compiles, not of what it finds on the disk.
FOLDER = tempfile.TemporaryDirectory()
os.environ["NUMBA_CACHE_DIR"] = FOLDER.name

import numpy as np
import torch
from numba import njit
from rows import ROOT, measured_on
from steps import CASES, LARGE

from gendr.distributions import numba as distributions
from gendr.kernels.numba.calls import (
    call_cdf,
    call_cdf_and_pdf,
    call_generator,
    call_weight,
    pointer,
    shifted,
)
from gendr.kernels.numba.vectors import SINGLES
from gendr.rendering.backends.cpu import backend, kernels, tile_kernels
from gendr.tnorms import numba as families
from lab.pages import fill, table

PAIRS, REPEATS = kernels.BLOCK, 64
DIST, FAMILY = "logistic", "probabilistic"
WIDE_CASES = ("24 × 64², 642 vertices, logistic.squared 1e-4", f"{LARGE}, logistic.squared 1e-4")


class Loop(NamedTuple):
    """A loop over pairs.

    Attributes:
        name: what it computes.
        passes: in which it is run: forward, backward.
        outputs: arrays that it fills.
        size: bytes of a number.
        assembly: of what holds it.
        run: does all pairs, many times.
    """

    name: str
    passes: tuple[int, int]
    outputs: int
    size: int
    assembly: str
    run: Callable[[], object]


@njit
def _distances(points: Any, corners: Any) -> None:
    edges = kernels.face_edges(corners, 0, 1.0)
    for _ in range(REPEATS):
        kernels.measure_distances(pointer(points), PAIRS, edges, False, True)


@njit
def _slopes(points: Any, corners: Any) -> None:
    edges = kernels.face_edges(corners, 0, 1.0)
    for _ in range(REPEATS):
        kernels._measure(pointer(points), 0, PAIRS, edges, False, True)


@njit
def _tile_distances(tiles: Any, faces: Any, columns: Any) -> None:
    for _ in range(REPEATS):
        for k in range(PAIRS // SINGLES):
            tile = shifted(pointer(tiles), tile_kernels.OF_TILE * k)
            face = shifted(pointer(faces), tile_kernels.OF_FACE * k)
            tile_kernels.measure_three(k * SINGLES, tile, face, pointer(columns))


@njit
def _tile_slopes(tiles: Any, faces: Any, columns: Any) -> None:
    for _ in range(REPEATS):
        for k in range(PAIRS // SINGLES):
            tile = shifted(pointer(tiles), tile_kernels.OF_TILE * k)
            face = shifted(pointer(faces), tile_kernels.OF_FACE * k)
            tile_kernels.slopes_three(k * SINGLES, tile, face, pointer(columns))


@njit
def _tails(address: int, z: Any, a: Any, s: Any) -> None:
    for _ in range(REPEATS):
        call_cdf(address, pointer(z), PAIRS, 0.0, pointer(a), pointer(s))


@njit
def _tails_and_density(address: int, z: Any, a: Any, s: Any, pdf: Any) -> None:
    for _ in range(REPEATS):
        call_cdf_and_pdf(address, pointer(z), PAIRS, 0.0, pointer(a), pointer(s), pointer(pdf))


@njit
def _generator(address: int, a: Any, s: Any, g: Any) -> None:
    for _ in range(REPEATS):
        call_generator(address, pointer(a), pointer(s), PAIRS, 0.0, pointer(g))


@njit
def _weight(address: int, a: Any, s: Any, w: Any) -> None:
    for _ in range(REPEATS):
        call_weight(address, pointer(a), pointer(s), pointer(a), pointer(s), PAIRS, 0.0, pointer(w))


def loops(dtype: type[np.floating[Any]]) -> list[Loop]:
    """Those of a distribution and a family that the benchmarks take, and of distances."""
    random, size = np.random.default_rng(0), np.dtype(dtype).itemsize
    z = random.normal(0, 4, PAIRS).astype(dtype)
    a, s, out = (np.zeros(PAIRS, dtype) for _ in range(3))
    if dtype is np.float32:
        tiles = PAIRS // SINGLES
        lengths = tiles * tile_kernels.OF_TILE, tiles * tile_kernels.OF_FACE, tile_kernels.COLUMNS
        given = tuple(random.uniform(-1, 1, n).astype(dtype) for n in lengths)
        distances, of = (_tile_distances, _tile_slopes), "single_loop"
    else:
        points = np.zeros(kernels._POINTS)
        points[: 2 * kernels.STRIDE] = random.uniform(-1, 1, 2 * kernels.STRIDE)
        given = points, random.uniform(-0.5, 0.5, (1, 3, 2))
        distances, of = (_distances, _slopes), "loop"
    found: list[Loop] = []
    for name, passes, outputs, function in (
        ("distance to three edges", (1, 0), 1, distances[0]),
        ("distance, gap, foot and edge", (0, 1), 5, distances[1]),
    ):
        function(*given)
        held = "".join(function.inspect_asm().values())
        found.append(
            Loop(name, passes, outputs, size, held, lambda function=function: function(*given))
        )
    law, family = getattr(distributions, of), getattr(families, of)
    for name, passes, outputs, loop, function, arrays in (
        (f"cdf and 1 - cdf of `{DIST}`", (1, 0), 2, law(DIST, "tails"), _tails, (z, a, s)),
        (f"the same and pdf of `{DIST}`", (0, 1), 3, law(DIST, distributions.BOTH),
         _tails_and_density, (z, a, s, out)),
        (f"generator of `{FAMILY}`", (1, 0), 1, family(FAMILY, "generator"), _generator,
         (a, s, out)),
        (f"weight of `{FAMILY}`", (0, 1), 1, family(FAMILY, "weight"), _weight, (a, s, out)),
    ):  # fmt: skip
        pair = loop.address, *arrays
        held = loop._library.get_asm_str()
        found.append(
            Loop(name, passes, outputs, size, held, lambda f=function, pair=pair: f(*pair))
        )
    return found


def counted(assembly: str, outputs: int, size: int) -> tuple[int, int, int]:
    """Instructions of a round of the longest loop in vectors, its pairs, and bytes of a vector."""
    best = 0, 1, 32
    for label, body in re.findall(
        r"^(\.LBB\w+):\n((?:(?!\.LBB).*\n)*?)(?=\.LBB|\Z)", assembly, re.M
    ):
        end = re.search(rf"^\tj\w+\t{re.escape(label)}$", body, re.M)
        if end is None:
            continue
        lines = [x for x in body[: end.end()].splitlines() if re.match(r"\t[a-z]", x)]
        stores = [re.match(r"\tvmov[au]p[ds]\t%([xyz])mm\d+, (?!.*%rsp).*\)$", x) for x in lines]
        widths = [{"x": 16, "y": 32, "z": 64}[x[1]] for x in stores if x]
        if len(lines) > best[0] and sum(widths) >= outputs * size:
            best = len(lines), sum(widths) // (outputs * size), max(widths)
    return best


def seconds(run: Callable[[], object], times: int) -> float:
    """The least processor time."""
    run()
    least = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        least = min(least, time.process_time() - start)
    return least


def pairs_of(case: str) -> int:
    """About how many pairs a step has: those in the spans of rows, of which tiles have more."""
    whole, found = backend.tables_of, list[int]()

    def spy(*args: Any) -> Any:
        tables = whole(*args)
        wide = tables._replace(corners=tables.corners.astype(np.float64))
        counts = np.zeros(len(tables.images) * (len(tables.grid[1]) - kernels.LANES), np.int64)
        kernels.count_rows(tuple(wide), counts, 0, len(counts))
        found.append(int(counts.sum()))
        return tables

    backend.tables_of = spy
    try:
        CASES[case]()()
    finally:
        backend.tables_of = whole
    return found[0]


def main() -> None:
    """Count and measure, print, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help="write into docs/results/speed.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    square = torch.rand(768, 768, dtype=torch.float64)
    flops = 2 * 768**3 / seconds(lambda: square @ square, 30)
    rows: list[tuple[str, ...]] = []
    least, reached = [0.0, 0.0], [0.0, 0.0]
    for dtype in (np.float32, np.float64):
        for loop in loops(dtype):
            instructions, pairs, vector = counted(loop.assembly, loop.outputs, loop.size)
            limit = instructions / pairs / (flops / (2 * vector / 8))
            took = seconds(loop.run, 100) / REPEATS / PAIRS
            for k in range(2 if dtype is np.float32 else 0):
                least[k] += loop.passes[k] * limit
                reached[k] += loop.passes[k] * took
            rows.append(
                (f"{np.dtype(dtype).name}: {loop.name}",
                 "forward" if loop.passes[0] else "backward", f"{instructions} / {pairs}",
                 f"{instructions / pairs:.1f}", f"{1e-6 / took:,.0f}", f"{1e-6 / limit:,.0f}",
                 f"{limit / took:.0%}")
            )  # fmt: skip
    steps: list[tuple[str, ...]] = []
    for case in WIDE_CASES:
        pairs, step = pairs_of(case), seconds(CASES[case](), 12)
        steps.append(
            (case, f"{pairs / 1e6:.2f}", f"{1e3 * pairs * sum(least):.0f} ms",
             f"{1e3 * pairs * sum(reached):.0f} ms", f"{1e3 * step:.0f} ms",
             f"{1e-6 * pairs / step:,.0f}")
        )  # fmt: skip
    about = measured_on()
    said = (
        f"Measured on {about['date']} at commit {about['commit']} on one thread of "
        f"{about['machine']}; the limit is {flops / 1e9:.0f} GFLOP/s of a float64 product."
    )
    head = ("loop", "pass", "instructions / pairs of a round", "per pair", "million pairs/s",
            "at the limit", "of the limit")  # fmt: skip
    of_steps = ("step", "million pairs", "its loops at the limit", "its loops as measured",
                "the step", "million pairs/s")  # fmt: skip
    lines = [said, "", *table(head, rows), "", *table(of_steps, steps)]
    print("\n".join(lines))
    if args.docs:
        fill(Path(ROOT) / "docs" / "results" / "speed.md", "inner_loops", lines)


if __name__ == "__main__":
    main()
