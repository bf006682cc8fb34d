"""Sorts, ranks, selections and masks beside torchsort, softtorch and LapSum, in one run.

    python3.12 -m venv peers
    peers/bin/pip install torch numba scipy tqdm setuptools softtorch==0.1.1
    PATH=/usr/bin:/bin peers/bin/pip install --no-build-isolation torchsort==0.1.10
    git clone https://github.com/gmum/LapSum peers/LapSum
    PYTHONPATH=. peers/bin/python benchmarks/peers/sorting.py --out docs/results --docs

Runs from a clone, in an environment of its own: softtorch wants Python 3.12, and torchsort builds
for CUDA wherever it finds nvcc, so the third line hides it. LapSum is the PyTorch code of its
notebook, which its authors advise; the kernels need a CUDA compiler.

What is compared is the same function with the same settings, so that values and gradients must
agree: in float64, where two of short lists are refused that do not; in float32 it is told how far
each is from that, in the relative L2 norm. Times are forward and backward of float32, by turns, of
the processor and one thread. softtorch gets its inputs as they are (standardize=False), whose
squashing would make another function. Its NeuralSort smooths distances and its entropic sort is
another; they have no row. LapSum's backward pass changes its input, and gets a copy.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(1, str(Path(__file__).parents[1]))

import comparison
import torch
from comparison import Case, Comparison, drawn
from torch import Tensor

import gendr
from gendr.sorting import soft_rank, soft_sort
from gendr.topk import soft_topk, soft_topk_mask
from lab.pages import table
from support import relative_l2

Function: TypeAlias = "Callable[[Tensor], Tensor]"
LAPSUM = Path(sys.prefix) / "LapSum/notebooks/soft_topk.ipynb"
PEERS = ("gendr", "torchsort", "softtorch", "LapSum")
CHOSEN = 10  # by a selection
SAME = 1e-9  # relative, in float64


@cache
def peers() -> Any:
    """Torchsort, softtorch, and LapSum's function.

    Raises:
        SystemExit: one is not there.
    """
    try:
        import softtorch  # pyright: ignore[reportMissingImports]
        import torchsort  # pyright: ignore[reportMissingImports]

        cells = json.loads(LAPSUM.read_text(encoding="utf-8"))["cells"]
    except (ImportError, OSError) as error:
        raise SystemExit(f"{error}; the docstring says how to install the peers") from error
    names: dict[str, Any] = {"torch": torch}
    sources = ["".join(cell["source"]) for cell in cells]
    exec(next(text for text in sources if "class SoftTopK" in text), names)
    return torchsort, softtorch, names["soft_top_k"]


def ranks(n: int) -> Mapping[str, Function]:
    """Projections onto the permutahedron: ranks of which about a third are pooled."""
    torchsort, softtorch, _ = peers()
    steepness = n / 2
    return {
        "gendr": partial(soft_rank, method="permutahedron", steepness=steepness),
        "torchsort": partial(torchsort.soft_rank, regularization_strength=1 / steepness),
        "softtorch": partial(
            softtorch.rank, dim=-1, descending=False, method="fast_soft_sort", mode="c0",
            softness=(n - 1) / steepness, standardize=False,
        ),
    }  # fmt: skip


def values(n: int) -> Mapping[str, Function]:
    """The same for values."""
    torchsort, softtorch, _ = peers()
    steepness, sort = 2 / n, partial(softtorch.sort, method="fast_soft_sort", mode="c0")
    return {
        "gendr": partial(soft_sort, method="permutahedron", steepness=steepness),
        "torchsort": partial(torchsort.soft_sort, regularization_strength=1 / steepness),
        "softtorch": lambda x: (
            sort(
                x, softness=1 / (steepness * (n - 1)), standardize=False, return_indices=False
            ).values
        ),
    }


def sorted_by(method: str, theirs: str) -> Callable[[int], Mapping[str, Function]]:
    """Values by a permutation matrix."""
    options: dict[str, Any] = {"dist": "logistic"} if method == "bitonic" else {}

    def make(n: int) -> Mapping[str, Function]:
        _, softtorch, _ = peers()
        return {
            "gendr": partial(soft_sort, method=method, steepness=10.0, **options),
            "softtorch": lambda x: (
                softtorch.sort(
                    x, method=theirs, softness=0.1, standardize=False, return_indices=False
                ).values
            ),
        }

    return make


def selected(n: int) -> Mapping[str, Function]:
    """The largest, by SoftSort."""
    _, softtorch, _ = peers()
    return {
        "gendr": lambda x: soft_topk(x, CHOSEN, "softsort", steepness=10.0).values,
        "softtorch": lambda x: (
            softtorch.topk(
                x, CHOSEN, dim=-1, method="softsort", softness=0.1, standardize=False
            ).values
        ),
    }


def mask(n: int) -> Mapping[str, Function]:
    """The mask of a tenth of all, by the Laplace distribution."""
    *_, lapsum = peers()
    k = n // 10
    return {
        "gendr": lambda x: soft_topk_mask(x, k, scale=0.1),
        "LapSum": lambda x: lapsum(x.clone(), x.new_full((len(x),), k), x.new_tensor(0.1)),
    }


LONG = ((100, 128), (1, 10_000), (1, 1_000_000))
CASES: dict[str, tuple[Callable[[int], Mapping[str, Function]], tuple[tuple[int, int], ...]]] = {
    "ranks, permutahedron": (ranks, LONG),
    "values, permutahedron": (values, LONG),
    "mask, a tenth": (mask, LONG),
    f"top {CHOSEN}, softsort": (selected, LONG),
    "values, softsort": (sorted_by("softsort", "softsort"), ((100, 128), (1, 4096))),
    "values, bitonic": (sorted_by("bitonic", "sorting_network"), ((100, 128), (1, 1024))),
}


def groups(
    make: Callable[[int], Mapping[str, Function]], batch: int, n: int, dtype: torch.dtype
) -> comparison.Groups:
    """What is compared, gendr first."""
    functions = make(n)
    x = drawn(batch, n, seed=n).to(dtype).requires_grad_()
    grad = drawn(*functions["gendr"](x).shape, seed=n + 1).to(dtype)
    return [comparison.outcomes(functions, [x], grad)]


def sizes(quick: bool) -> list[tuple[str, Callable[[torch.dtype], comparison.Groups]]]:
    """Names of cases, and what makes their implementations."""
    return [
        (f"{name}/{batch}x{n}", partial(groups, make, batch, n))
        for name, (make, known) in CASES.items()
        for batch, n in (((3, 16),) if quick else known)
    ]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    return [
        Case(
            name, partial(make, torch.float32),
            memory=PEERS if "/1x" in name else (),
            small=partial(groups, CASES[name.split("/")[0]][0], 2, 16, torch.float32),
        )
        for name, make in sizes(quick)
    ]  # fmt: skip


def agreement(quick: bool, repeat: int, device: str) -> tuple[dict[str, Any], list[str]]:
    """How far results and gradients are from ours in float64.

    Raises:
        SystemExit: in float64 two are not the same function.
    """
    found = list[dict[str, Any]]()
    for name, make in sizes(quick):
        (exact,), (rounded,) = make(torch.float64), make(torch.float32)
        truth = exact["gendr"]()
        for peer, run in exact.items():
            off = [relative_l2(*pair) for pair in zip(run(), truth, strict=True)]
            if max(off) > SAME and "/1x" not in name:  # sums over long lists may lose digits
                raise SystemExit(f"{name}: {peer} is {max(off):.1e} off in float64")
            off32 = [
                relative_l2(x.double(), y) for x, y in zip(rounded[peer](), truth, strict=True)
            ]
            found.append({"name": name, "implementation": peer, "float64": off, "float32": off32})
    rows = []
    for name, _ in sizes(quick):
        cells = {x["implementation"]: x["float32"] for x in found if x["name"] == name}
        said = ["{:.0e}, {:.0e}".format(*cells[peer]) if peer in cells else "" for peer in PEERS]
        rows.append([f"`{name}`", *said])
    most = [max(x["float64"]) for x in found]
    text = f"In float64 all agree to {max(x for x in most if x <= SAME):.0e}"
    for x, off in zip(found, most, strict=True):
        if off > SAME:
            text += f", but for {x['implementation']} in `{x['name']}`, {off:.0e}"
    text += ". In float32, values and gradients are off by"
    return {"agreement": found}, ["", text, "", *table(["case", *PEERS], rows)]


main = Comparison(
    "sorting-peers", __doc__, cases, agreement=math.inf, page="results/sorting",
    mark="sorting-peers", threads=1, processor=True, file=Path(__file__), more=agreement,
).main  # fmt: skip

if __name__ == "__main__":
    gendr.set_num_threads(1)
    main()
