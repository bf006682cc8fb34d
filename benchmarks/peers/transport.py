"""Entropic transport and barycentres, beside POT, OTT and the linear programme.

    python3.12 -m venv peers
    peers/bin/pip install . tqdm POT==0.9.7.post1 ott-jax==0.6.0
    PYTHONPATH=. peers/bin/python benchmarks/peers/transport.py --docs

Two clouds of 100 points, costs from 0 to 1, float64, one thread, each program once; to 1e-6 in the
sums, or 20,000 iterations. OTT's function is compiled before. Barycentres are of three histograms
at 100 places, of equal weights; each is compared with ours to 1e-12.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
sys.path.insert(1, str(Path(__file__).parents[1]))

import comparison  # which makes the clone importable
import jax  # pyright: ignore[reportMissingImports]
import numpy as np
import ot  # pyright: ignore[reportMissingImports]
import speed
import torch
from numpy.typing import NDArray
from ott.geometry.geometry import Geometry  # pyright: ignore[reportMissingImports]
from ott.solvers import linear  # pyright: ignore[reportMissingImports]

from gendr.transport import sinkhorn, sinkhorn_barycenter
from lab.pages import fill, table

N, ITERATIONS, TOLERANCE = 100, 20_000, 1e-6


def main() -> None:
    """Print the table, and write it into the page with --docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true")
    docs = parser.parse_args().docs
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    x, y = (comparison.drawn(N, 2, seed=seed).double() for seed in (0, 1))
    costs = torch.cdist(x, y).square()
    costs = costs / costs.max()
    array, weights = costs.numpy(), np.full(N, 1 / N)
    exact = float((ot.emd(weights, weights, array) * array).sum())

    def ours(epsilon: float) -> NDArray[Any]:
        return sinkhorn(costs, epsilon=epsilon, tolerance=TOLERANCE).plan.numpy()

    def pot(epsilon: float) -> NDArray[Any]:
        return ot.sinkhorn(
            weights, weights, array, epsilon, method="sinkhorn_log", stopThr=TOLERANCE,
            numItermax=ITERATIONS,
        )  # fmt: skip

    def ott(epsilon: float) -> NDArray[Any]:
        return np.asarray(solved(array, epsilon))

    @jax.jit
    def solved(costs: Any, epsilon: Any) -> Any:
        geometry = Geometry(costs, epsilon=epsilon)
        return linear.solve(geometry, threshold=TOLERANCE, max_iterations=ITERATIONS).matrix

    programs: dict[str, Callable[[float], NDArray[Any]]] = {"gendr": ours, "POT": pot, "OTT": ott}
    rows: list[list[str]] = []
    for run in programs.values():
        run(0.1)
    for epsilon in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        for name, run in programs.items():
            plan, took = timed(run, epsilon)
            off = max(float(np.abs(plan.sum(k) - weights).max()) for k in (0, 1))
            apart = f"{float((plan * array).sum()) / exact - 1:+.2e}"
            rows.append([f"{epsilon:g}", name, f"{took:.3f}", f"{off:.0e}", apart])
    head = ["epsilon", "program", "seconds", "sums off by", "cost less the exact, relative"]
    source = f"Measured on {date.today()} at commit {speed.commit()}."
    tables = {"transport-peers": table(head, rows, 2), "barycentre-peers": barycentres()}
    for name, found in tables.items():
        lines = [source, "", *found]
        print("\n".join(lines))
        if docs:
            fill(Path(__file__).parents[2] / "docs/results/sorting.md", name, lines)


def timed(run: Callable[[float], NDArray[Any]], epsilon: float) -> tuple[NDArray[Any], float]:
    """What a program gives, and the seconds of processor that it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        found = run(epsilon)
        return found, time.process_time() - begin


def barycentres() -> list[str]:
    """The table of barycentres."""
    places = torch.linspace(0, 1, N, dtype=torch.float64)[:, None]
    costs = torch.cdist(places, places).square()
    middles = torch.tensor([[0.2], [0.5], [0.8]], dtype=torch.float64)
    a = torch.exp(-(((places.T - middles) / 0.05) ** 2)) + 1e-3
    a = a / a.sum(1, keepdim=True)

    def ours(epsilon: float, tolerance: float = TOLERANCE) -> NDArray[Any]:
        return sinkhorn_barycenter(costs, a, epsilon=epsilon, tolerance=tolerance).numpy()

    def pot(method: str) -> Callable[[float], NDArray[Any]]:
        def run(epsilon: float) -> NDArray[Any]:
            return ot.bregman.barycenter(
                a.numpy().T, costs.numpy(), epsilon, method=method, stopThr=TOLERANCE,
                numItermax=ITERATIONS,
            )  # fmt: skip

        return run

    programs: dict[str, Callable[[float], NDArray[Any]]] = {
        "gendr": ours, "POT, sinkhorn": pot("sinkhorn"), "POT, sinkhorn_log": pot("sinkhorn_log"),
    }  # fmt: skip
    rows: list[list[str]] = []
    for run in programs.values():
        run(0.1)
    for epsilon in (1e-1, 1e-2, 1e-3, 1e-4):
        exact = ours(epsilon, 1e-12)
        for name, run in programs.items():
            found, took = timed(run, epsilon)
            off = float(np.abs(found - exact).sum())
            rows.append([f"{epsilon:g}", name, f"{took:.4f}", f"{off:.0e}"])
    return table(["epsilon", "program", "seconds", "off by, summed"], rows, 2)


if __name__ == "__main__":
    main()
