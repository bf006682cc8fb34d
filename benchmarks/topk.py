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
- few: `soft_topk` by NeuralSort and SoftSort, k = 10 of 100 rows of 128, beside their formulas;
- selection: `soft_topk`, k = 5 of 10,450, one row, beside the same network layer by layer in
  PyTorch, with the pass back of the paper's section 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import torch
from comparison import Case, Comparison, Groups, drawn, outcomes
from torch import Tensor
from torch.nn import functional

from gendr.topk import TopKCrossEntropy, network, soft_topk, soft_topk_mask

Function: TypeAlias = "Callable[[Tensor], Tensor]"

P_K = (0.2,) * 5
NEURALSORT = 0.1  # its steepness; its arguments grow with m


class Sizes(NamedTuple):
    """How large the cases are."""

    rows: int = 100
    classes: int = 1000
    million: int = 1_000_000
    selected: int = 1000
    wires: int = 10_450
    few: int = 128


QUICK = Sizes(5, 30, 10_000, 50, 40, 20)


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
    """The first k rows of P = P_L .. P_1, thesis (3.9) to (3.11), with the Cauchy distribution."""
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
    sums = torch.arange(1, len(s) + 1, device=s.device) + 0.5 * (below.exp() - above.exp())
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


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    s = QUICK if quick else Sizes()
    return [
        Case(f"loss/{s.rows}x{s.classes}", partial(losses, s, device)),
        Case(f"mask/{s.million}", partial(masks, s, device)),
        Case(f"few/{s.rows}x{s.few}", partial(few_rows, s, device)),
        Case(
            f"selection/{s.wires}", partial(selections, s.wires, device),
            memory=("gendr, splitter", "formula, splitter"),
            small=partial(selections, QUICK.wires, device),
        ),
    ]  # fmt: skip


def losses(sizes: Sizes, device: str) -> Groups:
    """The loss."""
    x = 2 * drawn(sizes.rows, sizes.classes, device=device)
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(sizes.classes, (sizes.rows,), generator=generator).to(device)
    m, k = 16, len(P_K)

    def formula(rows: Callable[[int, Tensor], Tensor], logits: Tensor) -> Tensor:
        return loss_of(rows(k, candidates(logits, labels, m)), logits, labels)

    def ours(method: str) -> Function:
        steepness = NEURALSORT if method == "neuralsort" else 1.0
        loss = TopKCrossEntropy(P_K, method, m, steepness=steepness).to(device)
        return lambda logits: loss(logits, labels)

    papers: dict[str, Callable[[int, Tensor], Tensor]] = {
        "splitter": partial(network_rows, "splitter"),
        "bitonic": partial(network_rows, "bitonic"),
        "neuralsort": neuralsort_rows,
        "softsort": softsort_rows,
    }
    groups: list[dict[str, Function]] = [
        {f"gendr, {name}": ours(name), f"formula, {name}": partial(formula, rows)}
        for name, rows in papers.items()
    ]
    groups.append({"plain cross-entropy": lambda logits: functional.cross_entropy(logits, labels)})
    x, one = x.requires_grad_(), torch.ones((), device=device)
    return [outcomes(group, [x], one) for group in groups]


def masks(sizes: Sizes, device: str) -> Groups:
    """The mask."""
    k, scale = sizes.selected, 0.1
    dists = ("laplace", "logistic", "gaussian", "cauchy")
    groups: list[dict[str, Function]] = [
        {f"gendr, {dist}": partial(soft_topk_mask, k=k, dist=dist, scale=scale)} for dist in dists
    ]
    groups[0]["LapSum in PyTorch"] = partial(lapsum_formula, k, scale)
    groups.append({"torch.sort": lambda x: torch.sort(x.detach()).values})
    x = drawn(sizes.million, device=device).requires_grad_()
    grad = drawn(sizes.million, device=device, seed=1)
    return [outcomes(group, [x], grad) for group in groups]


def few_rows(sizes: Sizes, device: str) -> Groups:
    """The largest values by the first rows of a row sort."""
    x = drawn(sizes.rows, sizes.few, device=device).requires_grad_()
    grad = drawn(sizes.rows, 10, device=device, seed=1)
    papers = ("neuralsort", NEURALSORT, neuralsort_rows), ("softsort", 1.0, softsort_rows)
    groups: list[dict[str, Function]] = [
        {
            f"gendr, {name}": partial(_values, name, steepness),
            f"formula, {name}": partial(_moved, rows),
        }
        for name, steepness, rows in papers
    ]
    return [outcomes(group, [x], grad) for group in groups]


def _values(name: str, steepness: float, x: Tensor) -> Tensor:
    return soft_topk(x, 10, name, steepness=steepness).values


def _moved(rows: Callable[[int, Tensor], Tensor], x: Tensor) -> Tensor:
    return (rows(10, x) @ x[..., None])[..., 0]


def selections(wires: int, device: str) -> Groups:
    """Full selection by a network."""

    def ours(name: str) -> dict[str, Function]:
        return {f"gendr, {name}": lambda x: soft_topk(x, 5, name).attribution}

    paper: dict[str, Function] = {"formula, splitter": partial(selection_formula, 5)}
    x = drawn(1, wires, device=device).requires_grad_()
    grad = drawn(1, 5, wires, device=device, seed=1)
    groups = [ours("splitter") | paper, ours("pairwise"), ours("bitonic")]
    return [outcomes(group, [x], grad) for group in groups]


main = Comparison("topk", __doc__, cases, page="results/topk").main

if __name__ == "__main__":
    main()
