"""Time top-k selection, masks and losses, forward + backward, against plain PyTorch.

    python benchmarks/topk.py                              # everything, printed; a minute
    python benchmarks/topk.py --cases loss --repeat 20     # some
    python benchmarks/topk.py --out docs/results --docs    # what the documentation shows

What is timed is the way from the values to the result and back to the gradient of the values,
float32, wall clock, the device synchronised before and after. Cases:

- loss: `TopKCrossEntropy`, 100 rows of 1000 classes, m = 16, P_K uniform on 1 .. 5, beside the
  formulas of the papers in PyTorch, written for this file: relaxed networks as products of one
  matrix per layer, the rows of NeuralSort and SoftSort, and the plain cross-entropy;
- mask: `soft_topk_mask`, k = 1000 of a million, beside `torch.sort` of the same vector (without a
  gradient) and the formula of LapSum in PyTorch;
- selection: `soft_topk`, k = 5 of 10,450, one row, beside the same network layer by layer in
  PyTorch, with the pass back of the paper's section 3.1.

Before it is timed, every implementation of the same thing must give the same result and gradient.
Then they take turns. Memory is the peak beyond the input, of a fresh process.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import comparison
import speed
import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from gendr.topk import NetworkSelection, TopKCrossEntropy, network, soft_topk, soft_topk_mask
from lab.pages import table
from support import relative_l2

Function: TypeAlias = "Callable[[Tensor], Tensor]"

P_K = (0.2,) * 5
NEURALSORT = 0.1  # its steepness; its arguments grow with m
AGREEMENT = 2e-3  # relative, of results and gradients in float32
MARKS = {"cpu": "topk-speed", "cuda": "topk-speed-cuda"}  # in docs/topk.md


class Sizes(NamedTuple):
    """How large the cases are."""

    rows: int = 100
    classes: int = 1000
    million: int = 1_000_000
    selected: int = 1000
    wires: int = 10_450


QUICK = Sizes(5, 30, 10_000, 50, 40)


# -- the formulas of the papers


def candidates(logits: Tensor, labels: Tensor, m: int) -> Tensor:
    """The score of the true class, and the m - 1 largest others, ascending."""
    truth = logits.gather(-1, labels[:, None])
    others = logits.scatter(-1, labels[:, None], -math.inf).topk(m - 1, dim=-1).values
    return torch.cat([truth, others.flip(-1)], -1)


def loss_of(rows: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """(4.4) from the first rows of P [B, k, m], and the softmax for k = 1."""
    p_k = torch.tensor(P_K, device=logits.device)
    inside = rows[..., 0].cumsum(-1)
    among = (p_k[1:] * inside[:, 1:]).sum(-1)
    plain = functional.cross_entropy(logits, labels)
    return p_k[0] * plain - (1 - p_k[0]) * among.log().mean()


@cache
def layers(name: str, n: int, k: int, device: torch.device) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The wires `low` and `high` of each layer, and 1 on the diagonal where no comparator is."""
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for comparators in network(name, n, k).layers:
        low, high = torch.tensor(comparators, device=device).unbind(-1)
        untouched = torch.ones(n, device=device)
        untouched[low] = untouched[high] = 0.0
        found.append((low, high, untouched))
    return found


def network_rows(name: str, k: int, scores: Tensor) -> Tensor:
    """The first k rows of P = P_L .. P_1, thesis (3.9) to (3.11), with the Cauchy law."""
    x = scores
    b, n = x.shape
    p = torch.eye(n, device=x.device).expand(b, n, n)
    for low, high, untouched in layers(name, n, k, x.device):
        keep = torch.atan(x[:, high] - x[:, low]) / math.pi + 0.5
        layer = untouched.diag().repeat(b, 1, 1)
        layer[:, low, low] = layer[:, high, high] = keep
        layer[:, low, high] = layer[:, high, low] = 1 - keep
        x = (layer @ x[..., None])[..., 0]
        p = layer @ p
    return p[:, [*reversed(network(name, n, k).outputs)]]


def neuralsort_rows(k: int, scores: Tensor) -> Tensor:
    """Grover et al. (5), the first k rows."""
    n = scores.shape[-1]
    distances = (scores[..., :, None] - scores[..., None, :]).abs().sum(-1)
    factors = n + 1 - 2 * torch.arange(1, k + 1, device=scores.device)
    arguments = factors[:, None] * scores[..., None, :] - distances[..., None, :]
    return (NEURALSORT * arguments).softmax(-1)


def softsort_rows(k: int, scores: Tensor) -> Tensor:
    """Prillo and Eisenschlos (4), the first k rows."""
    ordered = scores.sort(descending=True).values[..., :k]
    return (-(ordered[..., :, None] - scores[..., None, :]).abs()).softmax(-1)


def lapsum_formula(k: float, scale: float, x: Tensor) -> Tensor:
    """Struski et al.: sums of exponentials at all sorted values, then a quadratic equation."""
    y = (x / scale).double()
    s = y.sort(descending=True).values
    above = (-s).logcumsumexp(0) + s
    below = torch.cat([s.flip(0).logcumsumexp(0).flip(0)[1:], s.new_full((1,), -math.inf)]) - s
    sums = torch.arange(1, len(s) + 1) + 0.5 * (below.exp() - above.exp())
    j = int(torch.searchsorted(sums.detach(), k))
    c = s[j - 1]
    a, b = (s[j:] - c).exp().sum(), (c - s[:j]).exp().sum()
    root = ((k - j) ** 2 + a * b).sqrt()
    t = a / ((k - j) + root) if k >= j else (root + (j - k)) / b
    z = y - c - t.log()
    tail = 0.5 * (-z.abs()).exp()
    return torch.where(z > 0, 1 - tail, tail).float()


def selection_formula(k: int, x: Tensor) -> Tensor:
    """The network forward, its gates kept; then the k outputs back through them, section 3.1."""
    n, gates = x.shape[-1], list[Tensor]()
    for low, high, _ in layers("splitter", n, k, x.device):
        keep = torch.atan(10 * (x[:, high] - x[:, low])) / math.pi + 0.5
        a, b = x[:, low], x[:, high]
        mixed = torch.cat([keep * a + (1 - keep) * b, (1 - keep) * a + keep * b], -1)
        x = x.index_copy(-1, torch.cat([low, high]), mixed)
        gates.append(keep)
    outputs = [*reversed(network("splitter", n, k).outputs)]
    p = functional.one_hot(torch.tensor(outputs, device=x.device), n).to(x.dtype)[None]
    for keep, (low, high, _) in zip(
        reversed(gates), reversed(layers("splitter", n, k, x.device)), strict=True
    ):
        keep = keep[:, None]
        a, b = p[..., low], p[..., high]
        mixed = torch.cat([keep * a + (1 - keep) * b, (1 - keep) * a + keep * b], -1)
        p = p.index_copy(-1, torch.cat([low, high]), mixed)
    return p


# -- the cases


class Case(NamedTuple):
    """What is compared: the groups of implementations must each agree; the first one is ours."""

    name: str
    x: Tensor
    gradient: Tensor
    groups: list[dict[str, Function]]
    memory: tuple[str, ...] = ()


def cases(sizes: Sizes, device: str) -> dict[str, Callable[[], Case]]:
    """All of them, by name; made when they are needed."""
    return {
        f"loss/{sizes.rows}x{sizes.classes}": partial(loss_case, sizes, device),
        f"mask/{sizes.million}": partial(mask_case, sizes, device),
        f"selection/{sizes.wires}": partial(selection_case, sizes, device),
    }


def drawn(*shape: int, device: str, seed: int = 0) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def loss_case(sizes: Sizes, device: str) -> Case:
    """The loss."""
    x = 2 * drawn(sizes.rows, sizes.classes, device=device)
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(sizes.classes, (sizes.rows,), generator=generator).to(device)
    m, k = 16, len(P_K)

    def formula(rows: Callable[[int, Tensor], Tensor], logits: Tensor) -> Tensor:
        return loss_of(rows(k, candidates(logits, labels, m)), logits, labels)

    def ours(method: str) -> Function:
        steepness = NEURALSORT if method == "neuralsort" else 1.0
        loss = TopKCrossEntropy(P_K, method, m, steepness=steepness)
        return lambda logits: loss(logits, labels)

    networks = [
        {
            f"gendr, {name}": ours(name),
            f"paper, {name}": partial(formula, partial(network_rows, name)),
        }
        for name in ("splitter", "bitonic")
    ]
    rows = [
        {f"gendr, {name}": ours(name), f"paper, {name}": partial(formula, of)}
        for name, of in (("neuralsort", neuralsort_rows), ("softsort", softsort_rows))
    ]
    plain: Function = lambda logits: functional.cross_entropy(logits, labels)  # noqa: E731
    return Case(
        "loss", x.requires_grad_(), torch.ones((), device=device),
        [*networks, *rows, {"plain cross-entropy": plain}],
    )  # fmt: skip


def mask_case(sizes: Sizes, device: str) -> Case:
    """The mask."""
    x, k = drawn(sizes.million, device=device), sizes.selected
    ours = {
        name: partial(soft_topk_mask, k=k, dist=name, scale=0.1)
        for name in ("laplace", "logistic", "gaussian", "cauchy")
    }
    first, *others = ours
    groups: list[dict[str, Function]] = [
        {f"gendr, {first}": ours[first], "LapSum in PyTorch": partial(lapsum_formula, k, 0.1)},
        *({f"gendr, {name}": ours[name]} for name in others),
        {"torch.sort": lambda x: torch.sort(x.detach()).values},
    ]
    gradient = drawn(sizes.million, device=device, seed=1)
    return Case("mask", x.requires_grad_(), gradient, groups)


def selection_case(sizes: Sizes, device: str) -> Case:
    """Full selection by a network."""
    x = drawn(1, sizes.wires, device=device)
    gradient = drawn(1, 5, sizes.wires, device=device, seed=1)
    ours = {
        name: partial(lambda name, x: soft_topk(x, 5, name).attribution, name)
        for name in ("splitter", "pairwise", "bitonic")
    }
    groups: list[dict[str, Function]] = [
        {"gendr, splitter": ours["splitter"], "paper, splitter": partial(selection_formula, 5)},
        {"gendr, pairwise": ours["pairwise"]},
        {"gendr, bitonic": ours["bitonic"]},
    ]
    memory = ("gendr, splitter", "paper, splitter")
    return Case("selection", x.requires_grad_(), gradient, groups, memory)


# -- the measurements


def outcome(run: Function, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Result and gradient; of what has no gradient only the result."""
    result = run(x)
    if not result.requires_grad:
        return result, result
    return result.detach(), torch.autograd.grad(result, x, gradient)[0]


def measure(name: str, case: Case, device: str, repeat: int, quick: bool) -> list[dict[str, Any]]:
    """One row for every implementation."""
    runs: dict[str, Callable[[], object]] = {}
    apart: dict[str, float] = {}
    for group in case.groups:
        expected = None
        for implementation, run in group.items():
            found = outcome(run, case.x, case.gradient)
            expected = expected or found
            apart[implementation] = max(map(relative_l2, found, expected))
            if not apart[implementation] <= AGREEMENT:
                raise SystemExit(f"{name}: {implementation} is {apart[implementation]:.1e} off")
            runs[implementation] = partial(outcome, run, case.x, case.gradient)
    times = comparison.take_turns(runs, repeat, device)
    return [
        {
            "name": name,
            "implementation": implementation,
            "difference": apart[implementation],
            "median_s": statistics.median(seconds),
            "min_s": min(seconds),
            "runs": len(seconds),
            "memory_bytes": peak_memory(name, implementation, device, quick)
            if implementation in case.memory
            else None,
        }
        for implementation, seconds in times.items()
    ]


def peak_memory(name: str, implementation: str, device: str, quick: bool) -> int | None:
    """Bytes beyond the input; None where they cannot be read."""
    if device == "cuda":
        return probe(name, implementation, device, quick)
    command = [sys.executable, __file__, "--device", device, *(["--quick"] if quick else [])]
    run = subprocess.run(
        [*command, "--probe", f"{name}/{implementation}"],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


def probe(name: str, implementation: str, device: str, quick: bool) -> int | None:
    """`peak_memory` of this very process, which on a CPU must be fresh."""
    for sizes in (QUICK, QUICK if quick else Sizes()):  # the first only compiles or loads kernels
        kind = name.split("/")[0]
        case = next(make() for n, make in cases(sizes, device).items() if n.startswith(kind))
        run = next(group[implementation] for group in case.groups if implementation in group)
        if sizes is QUICK:
            outcome(run, case.x, case.gradient)
    if "splitter" in implementation:  # networks and their tables are made once
        n = case.x.shape[-1]
        NetworkSelection().network_of(n, 5)
        layers("splitter", n, 5, case.x.device)
    return speed.peak_of(lambda: outcome(run, case.x, case.gradient), device)


# -- the report


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    run = report["run"]
    return [
        f"{comparison.measured_on(run)}.",
        "",
        *table(
            ["case", "implementation", "median", "minimum", "memory", "minimum / first", "runs"],
            [cells(row, report["rows"]) for row in report["rows"]],
        ),
    ]


def cells(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """A row of the table, with its ratio to the first of its case."""
    first = next(r for r in rows if r["name"] == row["name"])
    return [
        f"`{row['name']}`" if row is first else "",
        row["implementation"],
        speed.milliseconds(row["median_s"]),
        speed.milliseconds(row["min_s"]),
        "" if row["memory_bytes"] is None else speed.megabytes(row["memory_bytes"]),
        "" if row is first else f"{speed.short(row['min_s'] / first['min_s'])}×",
        str(row["runs"]),
    ]


# -- the command line


class Choice(NamedTuple):
    """A case that is not made yet."""

    name: str
    make: Callable[[], Case]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = comparison.options(__doc__, "topk")
    parser.add_argument(
        "--probe", metavar="CASE/IMPLEMENTATION", help="print its peak memory in bytes"
    )
    args = parser.parse_args(argv)
    device = comparison.device_of(args, parser)
    known = cases(QUICK if args.quick else Sizes(), device)
    if args.probe:
        name, _, implementation = args.probe.rpartition("/")
        if name not in known or not any(implementation in g for g in known[name]().groups):
            parser.error(f"there is no {args.probe!r}; cases are {', '.join(known)}")
        print(json.dumps(probe(name, implementation, device, args.quick)))
        return
    asked = comparison.chosen(args, parser, [Choice(*case) for case in known.items()])
    report: dict[str, Any] = {"run": comparison.about_run(device)}
    report["rows"] = [
        row
        for case in tqdm(asked, unit="case", disable=None)
        for row in measure(case.name, case.make(), device, args.repeat, args.quick)
    ]
    comparison.publish(report, markdown(report), args, "topk", MARKS[device])


if __name__ == "__main__":
    main()
