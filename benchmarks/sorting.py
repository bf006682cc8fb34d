"""Time differentiable sorts, forward + backward, against the papers' formulas in plain PyTorch.

    python benchmarks/sorting.py                              # everything, printed; minutes
    python benchmarks/sorting.py --cases bitonic --repeat 20  # some
    python benchmarks/sorting.py --out docs/results --docs    # what the documentation shows

A case is a method, a batch and n. What is timed is the way from the values to the permutation
matrix (to the ranks for `permutahedron`, which has none) and back to the gradient of the values,
float32, wall clock, the device synchronised before and after. Implementations:

- gendr: the method as users get it, its kernels chosen by the device;
- reference: gendr's `reference` backend of the relaxed networks: PyTorch, layer by layer, indexing;
- formula: those of the papers in PyTorch, written for this file. The networks are products of one
  n x n matrix per layer, (3.9) to (3.11) of the thesis; Sinkhorn's sweeps are unrolled;
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

import comparison
import torch
from comparison import Case, Comparison, drawn
from torch import Tensor

from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.networks import network
from gendr.sorting.neuralsort import NeuralSort
from gendr.sorting.permutahedron import FastSort
from gendr.sorting.relaxed import BitonicSort, NetworkSort, OddEvenSort
from gendr.sorting.sinkhorn import SinkhornSort
from gendr.sorting.softsort import SoftSort

Function: TypeAlias = "Callable[[Tensor], Tensor]"

SWEEPS = 300  # unrolled, of the paper's Sinkhorn sort; its marginals are then 1e-5 off at n = 32
EPSILON = 1e-2  # of the paper's Sinkhorn sort

METHODS: dict[str, Sort] = {
    "odd_even": OddEvenSort(10.0),
    "bitonic": BitonicSort(10.0),
    "softsort": SoftSort(10.0),
    "neuralsort": NeuralSort(1.0),
    "sinkhorn": SinkhornSort(tolerance=1e-5),  # its steepness depends on n, see `_squashed`
    "permutahedron": FastSort(10.0),
}


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    if quick:
        sizes = [*((method, 3, 8) for method in METHODS), ("bitonic", 1, 16)]
    else:
        sizes = [
            *((method, 100, n) for method in ("odd_even", "bitonic") for n in (32, 128)),
            ("bitonic", 1, 1024), ("softsort", 100, 128), ("neuralsort", 100, 128),
            ("sinkhorn", 100, 32), ("permutahedron", 100, 128),
        ]  # fmt: skip
    return [_case(*x, device) for x in sizes]


def _case(name: str, batch: int, n: int, device: str) -> Case:
    memory = ("gendr", "reference", "formula") if batch == 1 else ()
    return Case(
        f"{name}/{batch}x{n}", partial(groups, name, batch, n, device), memory=memory,
        small=partial(groups, name, 2, 8, device),
    )  # fmt: skip


def groups(name: str, batch: int, n: int, device: str) -> comparison.Groups:
    """What is compared, gendr first."""
    method = METHODS[name]
    found = {"gendr": ours(method, n)}
    if isinstance(method, NetworkSort):
        found["reference"] = ours(replace(method, backend="reference"), n)
    found["formula"] = partial(FORMULAS[name], method)
    width = () if isinstance(method, FastSort) else (n,)
    grad = drawn(batch, n, *width, device=device, seed=n + 1)
    values = drawn(batch, n, device=device, seed=n).requires_grad_()
    return [comparison.outcomes(found, [values], grad)]


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


main = Comparison("sorting", __doc__, cases, page="results/sorting").main

if __name__ == "__main__":
    main()
