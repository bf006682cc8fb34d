"""Time differentiable sorts, forward + backward, against the papers' formulas in plain PyTorch.

    python benchmarks/sorting.py                              # everything, printed; minutes
    python benchmarks/sorting.py --cases bitonic --repeat 20  # some
    python benchmarks/sorting.py --out docs/results --docs    # what the documentation shows
    python benchmarks/sorting.py --plans                      # programs and memory on a GPU

A case is a method, a batch and n. What is timed is the way from the values to the permutation
matrix (to the ranks for `permutahedron`, which has none) and back to the gradient of the values,
float32, wall clock, the device synchronised before and after. Implementations:

- gendr: the method as users get it, its kernels chosen by the device;
- reference: gendr's `reference` backend of the relaxed networks: PyTorch, layer by layer, indexing;
- paper: the formulas of the papers in PyTorch, written for this file. The networks are products of
  one n x n matrix per layer, (3.9) to (3.11) of the thesis; Sinkhorn's sweeps are unrolled;
- diffsort, torchsort: the published packages, where they can be imported.

Before it is timed, every implementation must give the same result and gradient as gendr. Then they
take turns, so that whatever else the machine does meets all of them, in bursts, because a single
short run would begin with what its predecessor left in the caches. Median and minimum are over all
runs. Memory is the peak beyond the input: of a fresh process's resident set on a CPU, of PyTorch's
allocator on a GPU.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import importlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias
from unittest import mock

import comparison
import speed
import torch
from torch import Tensor

from gendr._runtime.command_line import Parser
from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.networks import network
from gendr.sorting.neuralsort import NeuralSort
from gendr.sorting.permutahedron import FastSort
from gendr.sorting.relaxed import BitonicSort, NetworkSort, OddEvenSort
from gendr.sorting.sinkhorn import SinkhornSort
from gendr.sorting.softsort import SoftSort
from lab.pages import table
from support import relative_l2

Function: TypeAlias = "Callable[[Tensor], Tensor]"

AGREEMENT = 2e-3  # relative, of results and gradients in float32
SWEEPS = 300  # unrolled, of the paper's Sinkhorn sort; its marginals are then 1e-5 off at n = 32
EPSILON = 1e-2  # of the paper's Sinkhorn sort
PACKAGES = ("diffsort", "torchsort")
MARKS = {"cpu": "sorting-speed", "cuda": "sorting-speed-cuda"}  # in docs/sorting.md

METHODS: dict[str, Sort] = {
    "odd_even": OddEvenSort(10.0),
    "bitonic": BitonicSort(10.0),
    "softsort": SoftSort(10.0),
    "neuralsort": NeuralSort(1.0),
    "sinkhorn": SinkhornSort(tolerance=1e-5),  # its steepness depends on n, see `_squashed`
    "permutahedron": FastSort(10.0),
}


@dataclass(frozen=True)
class Case:
    """One method at work; `memory` if its peak is looked at too."""

    method: str
    batch: int
    n: int
    memory: bool = False

    @property
    def name(self) -> str:
        """What --cases matches, such as bitonic/100x128."""
        return f"{self.method}/{self.batch}x{self.n}"

    @classmethod
    def of(cls, name: str) -> Case | None:
        """The case of that name; None if there cannot be one."""
        match = re.fullmatch(r"(\w+)/([1-9]\d*)x([1-9]\d*)", name)
        if not match or match[1] not in METHODS:
            return None
        return cls(match[1], int(match[2]), int(match[3]))

    def values(self, device: str) -> Tensor:
        """What is sorted: [batch, n], normally distributed."""
        generator = torch.Generator().manual_seed(self.n)
        return torch.randn(self.batch, self.n, generator=generator).to(device).requires_grad_()

    def gradient(self, device: str) -> Tensor:
        """What comes back to P or to the ranks: normally distributed."""
        width = () if isinstance(METHODS[self.method], FastSort) else (self.n,)
        generator = torch.Generator().manual_seed(self.n + 1)
        return torch.randn(self.batch, self.n, *width, generator=generator).to(device)


def cases(quick: bool) -> list[Case]:
    """All of them."""
    if quick:
        return [*(Case(method, 3, 8) for method in METHODS), Case("bitonic", 1, 16, memory=True)]
    return [
        *(Case(method, 100, n) for method in ("odd_even", "bitonic") for n in (32, 128)),
        Case("bitonic", 1, 1024, memory=True),
        Case("softsort", 100, 128),
        Case("neuralsort", 100, 128),
        Case("sinkhorn", 100, 32),
        Case("permutahedron", 100, 128),
    ]


# -- gendr, and the formulas of the papers


def _squashed(x: Tensor) -> Tensor:
    """Into [0, 1], as Cuturi, Teboul and Vert do before they sort."""
    mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return torch.sigmoid((x - mean) / deviation)


def ours(method: Sort, n: int) -> Function:
    """Values [B, n] -> P [B, n, n], or ranks [B, n]."""
    if isinstance(method, SinkhornSort):
        sort = replace(method, steepness=1 / (EPSILON * (n - 1)))
        return lambda x: sort.permutation(_squashed(x))
    return method.permutation if isinstance(method, PermutationSort) else method.ranks


@cache
def _layers(name: str, n: int, device: torch.device) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The wires `low` and `high` of each layer, and 1 on the diagonal where no comparator is."""
    layers: list[tuple[Tensor, Tensor, Tensor]] = []
    for comparators in network(name, n).layers:
        low, high = torch.tensor(comparators, device=device).unbind(-1)
        untouched = torch.ones(n, device=device)
        untouched[low] = untouched[high] = 0.0
        layers.append((low, high, untouched.diag()))
    return layers


def network_products(method: NetworkSort, x: Tensor) -> Tensor:
    """P = P_L .. P_1, thesis (3.9) to (3.11), with the Cauchy distribution of (3.23)."""
    b, n = x.shape
    p = torch.eye(n, device=x.device).expand(b, n, n)
    for low, high, untouched in _layers(method.name, n, x.device):
        keep = torch.atan(method.steepness * (x[:, high] - x[:, low])) / math.pi + 0.5
        layer = untouched.repeat(b, 1, 1)
        layer[:, low, low] = layer[:, high, high] = keep
        layer[:, low, high] = layer[:, high, low] = 1 - keep
        x = (layer @ x[..., None])[..., 0]
        p = layer @ p
    return p


def softsort_formula(method: SoftSort, x: Tensor) -> Tensor:
    """Prillo and Eisenschlos, (4), as in the code of their Figure 2; then ascending."""
    ordered = x.sort(descending=True).values
    p = (-(ordered[..., :, None] - x[..., None, :]).abs() * method.steepness).softmax(-1)
    return p.flip(-2)


def neuralsort_formula(method: NeuralSort, x: Tensor) -> Tensor:
    """Grover et al., (5): softmax(((n + 1 - 2 i) x - A 1) / tau); then ascending."""
    n = x.shape[-1]
    distances = (x[..., :, None] - x[..., None, :]).abs()
    factors = n + 1 - 2 * torch.arange(1, n + 1, device=x.device)
    arguments = factors[:, None] * x[..., None, :] - distances.sum(-1)[..., None, :]
    return (arguments * method.steepness).softmax(-1).flip(-2)


def sinkhorn_formula(method: SinkhornSort, x: Tensor) -> Tensor:
    """Cuturi, Teboul and Vert, Algorithm 1 on logarithms, with all of its sweeps unrolled."""
    n = x.shape[-1]
    anchors = torch.linspace(0, 1, n, device=x.device)
    log_k = -(anchors[:, None] - _squashed(x)[..., None, :]).square() / EPSILON
    columns = torch.zeros_like(x)
    for _ in range(SWEEPS):
        rows = -(log_k + columns[..., None, :]).logsumexp(-1)
        columns = -(log_k + rows[..., :, None]).logsumexp(-2)
    return (log_k + rows[..., :, None] + columns[..., None, :]).exp()


def rank_formula(method: FastSort, x: Tensor) -> Tensor:
    """Blondel et al., Propositions 3 and 4: z - v, v the isotonic regression of sorted z - rho.

    By the formula v_i = min over j <= i of max over k >= i of the mean of j .. k.
    """
    n = x.shape[-1]
    z = method.steepness * x
    s, order = z.sort(descending=True)
    total = torch.nn.functional.pad(
        (s - torch.arange(n, 0, -1, device=x.device)).cumsum(-1), (1, 0)
    )
    index = torch.arange(n, device=x.device)
    ordered = index[:, None] <= index
    lengths = (index - index[:, None] + 1).clamp(min=1)
    means = (total[..., None, 1:] - total[..., :-1, None]) / lengths
    largest = means.masked_fill(~ordered, -math.inf).flip(-1).cummax(-1).values.flip(-1)
    v = largest.masked_fill(~ordered, math.inf).min(-2).values
    return z - v.gather(-1, order.argsort(-1))


FORMULAS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "odd_even": network_products,
    "bitonic": network_products,
    "softsort": softsort_formula,
    "neuralsort": neuralsort_formula,
    "sinkhorn": sinkhorn_formula,
    "permutahedron": rank_formula,
}


# -- the published packages


@cache
def missing(package: str) -> str | None:
    """None if it can be imported, else the reason."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        return str(error)
    return None


def diffsort(method: NetworkSort, n: int, device: str) -> Function:
    """The P of diffsort, whose columns are ranks, as a function of the keys."""
    package = importlib.import_module("diffsort")
    sorter = package.DiffSortNet(
        method.name, n, device=device, steepness=method.steepness, distribution="cauchy"
    )
    return lambda x: sorter(x)[1].mT


def torchsort(method: FastSort) -> Function:
    """The soft ranks of torchsort, as a function of the keys."""
    package = importlib.import_module("torchsort")
    return partial(package.soft_rank, regularization_strength=1 / method.steepness)


def implementations(case: Case, device: str) -> dict[str, Function]:
    """What is compared, gendr first."""
    method = METHODS[case.method]
    found = {"gendr": ours(method, case.n)}
    if isinstance(method, NetworkSort):
        found["reference"] = ours(replace(method, backend="reference"), case.n)
    found["paper"] = partial(FORMULAS[case.method], method)
    if isinstance(method, NetworkSort) and missing("diffsort") is None:
        found["diffsort"] = diffsort(method, case.n, device)
    if isinstance(method, FastSort) and missing("torchsort") is None:
        found["torchsort"] = torchsort(method)
    return found


# -- the measurements


def outcome(run: Function, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Result and gradient."""
    result = run(x)
    return result, torch.autograd.grad(result, x, gradient)[0]


def measure(case: Case, device: str, repeat: int) -> list[dict[str, Any]]:
    """One row for every implementation."""
    x, gradient = case.values(device), case.gradient(device)
    found = implementations(case, device)
    expected = outcome(found["gendr"], x, gradient)
    apart: dict[str, float] = {}
    for name, run in found.items():
        apart[name] = max(map(relative_l2, outcome(run, x, gradient), expected))
        if not apart[name] <= AGREEMENT:
            raise SystemExit(f"{case.name}: {name} is {apart[name]:.1e} off gendr")
    runs = {name: partial(outcome, run, x, gradient) for name, run in found.items()}
    times = comparison.take_turns(runs, repeat, device)
    return [
        {
            "name": case.name,
            **asdict(case),
            "implementation": name,
            "difference": apart[name],
            "median_s": statistics.median(seconds),
            "min_s": min(seconds),
            "runs": len(seconds),
            "memory_bytes": peak_memory(case, name, device) if case.memory else None,
        }
        for name, seconds in times.items()
    ]


def peak_memory(case: Case, implementation: str, device: str) -> int | None:
    """Bytes beyond the input, forward + backward; None where a CPU's cannot be read."""
    if device == "cuda":
        return probe(case, implementation, device)
    # In a process of its own, because an allocator keeps what earlier runs gave back.
    command = [sys.executable, __file__, "--device", device]
    command += ["--probe", f"{case.name}/{implementation}"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def probe(case: Case, implementation: str, device: str) -> int | None:
    """`peak_memory` of this very process, which on a CPU must be fresh."""
    small = replace(case, n=8, batch=2)
    for of in (small, case):  # the small one only compiles the kernels, or loads them
        x, gradient = of.values(device), of.gradient(device)
        run = implementations(of, device)[implementation]
        if of is small:
            outcome(run, x, gradient)
    return speed.peak_of(lambda: outcome(run, x, gradient), device)


# -- without a GPU

PLANS = tuple((name, *of) for name in ("odd_even", "bitonic") for of in (
    (100, 32), (100, 128), (8, 256), (1, 512), (1, 1024), (16, 1024), (1, 2048),
))  # fmt: skip


def plans() -> list[str]:
    """How the Triton backend cuts the gradient of P on a GPU, which need not be there."""
    os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton
    from gendr.sorting.backends.triton import backend

    found: list[dict[str, Any]] = []

    def noted(kernel: Any, grid: Any, device: Any, *args: Any, **constants: Any) -> None:
        given = dict(zip(kernel.arg_names, args, strict=False))
        scratch = (given[x].nbytes for x in ("wires", "differences") if x in given)
        row = given | constants | {"programs": grid[0], "scratch": sum(scratch)}
        found.append(row | {"gates": given["grad_keep"].nbytes})

    rows: list[list[str]] = []
    for name, batch, n in PLANS:
        wires = network(name, n)
        keep = torch.empty(batch, wires.size, device="meta")
        with mock.patch.object(backend, "run", noted):
            backend.carry_backward(
                wires, (keep, keep, None), (), (keep.new_empty(batch, n, n),), (True, False, False)
            )
        x = found[-1]
        counts = (x["COLUMNS"], x["shares"], x["programs"], x.get("segments", 1))
        megabytes = (f"{x[key] / 1e6:,.1f}" for key in ("scratch", "gates"))
        rows.append([f"`{name}`", f"{batch} × {n}", *map(str, counts), *megabytes])
    head = ["network", "batch × n", "columns", "shares", "programs", "segments"]
    return table([*head, "scratch, MB", "gradients of gates, MB"], rows)


# -- the report


def about_run(device: str) -> dict[str, Any]:
    """What all comparisons say of a run, and which packages are missing."""
    gone = {package: reason for package in PACKAGES if (reason := missing(package))}
    return {**comparison.about_run(device), "missing": gone}


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    run = report["run"]
    lines = [
        f"{comparison.measured_on(run)}, {comparison.product_time(report)}.",
        "",
        *table(_HEAD, [cells(row, report["rows"]) for row in report["rows"]]),
    ]
    if run["missing"]:
        gone = "; ".join(f"{package}: {why}" for package, why in run["missing"].items())
        lines += ["", f"Not there to compare with: {gone}."]
    return lines


_HEAD = [
    "method", "batch × n", "implementation", "median", "minimum", "memory",
    "median / gendr", "minimum / gendr", "runs",
]  # fmt: skip


def cells(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """A row of the table, with its ratios to our own."""
    (first,) = [r for r in rows if r["name"] == row["name"] and r["implementation"] == "gendr"]
    ratios = [
        "" if row is first else f"{speed.short(row[key] / first[key])}×"
        for key in ("median_s", "min_s")
    ]
    return [
        f"`{row['method']}`" if row is first else "",
        f"{row['batch']} × {row['n']}" if row is first else "",
        row["implementation"],
        speed.milliseconds(row["median_s"]),
        speed.milliseconds(row["min_s"]),
        "" if row["memory_bytes"] is None else speed.megabytes(row["memory_bytes"]),
        *ratios,
        str(row["runs"]),
    ]


# -- the command line


def arguments() -> Parser:
    """All options."""
    parser = comparison.options(__doc__, "sorting")
    parser.add_argument("--plans", action="store_true", help="print them, and measure nothing")
    parser.add_argument(
        "--probe", metavar="CASE/IMPLEMENTATION", help="print its peak memory in bytes"
    )
    return parser


def probed(name: str, device: str, parser: Parser) -> tuple[Case, str]:
    """What --probe names; ends with a line if there is no such case or implementation."""
    case_name, _, implementation = name.rpartition("/")
    case = Case.of(case_name)
    if case is None:
        parser.error(f"there is no case {case_name!r}; one is 'bitonic/1x1024'")
    allowed = implementations(case, device)
    if implementation not in allowed:
        parser.error(f"{case_name} has no implementation {implementation!r}: {', '.join(allowed)}")
    return case, implementation


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = arguments()
    args = parser.parse_args(argv)
    device = comparison.device_of(args, parser)
    if args.plans:
        print("\n".join(plans()))
        return
    if args.probe:
        print(json.dumps(probe(*probed(args.probe, device, parser), device)))
        return
    asked = comparison.chosen(args, parser, cases(args.quick))

    def rows(case: Case) -> list[dict[str, Any]]:
        return measure(case, device, args.repeat)

    report = comparison.measured(about_run(device), asked, rows, device)
    comparison.publish(report, markdown(report), args, "sorting", MARKS[device])


if __name__ == "__main__":
    main()
