"""Sorting networks and top-k losses beside the published packages, diffsort and difftopk.

    python -m venv peers && peers/bin/pip install . numba tqdm diffsort==0.2.0 difftopk==0.2.0
    PYTHONPATH=. peers/bin/python benchmarks/peers/networks.py --out docs/results --docs

Runs from a clone. Both are pure PyTorch, the code of the papers' authors. What is compared is the
same function with the same settings, forward and backward on one thread, processor time by turns;
results and gradients must be the same. difftopk's selection networks want torch-sparse, which needs
a compiler, and its loss bounds logarithms at 1e-7, so that its NeuralSort and SoftSort are compared
at a steepness at which no probability is so small. difflogic needs a CUDA compiler to install.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).parents[1]))

import comparison
import torch
from comparison import Case, Comparison, drawn
from torch import Tensor

import gendr
from gendr.sorting import permutation
from gendr.topk import TopKCrossEntropy

AGREEMENT = 1e-4
SHARES, STEEPNESS = [0.2] * 5, 0.02


def networks(method: str, batch: int, n: int) -> comparison.Groups:
    """Permutation matrices of a sorting network."""
    from diffsort import DiffSortNet  # pyright: ignore[reportMissingImports]

    net = DiffSortNet(method, n, steepness=10.0, distribution="cauchy")
    functions: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gendr": partial(permutation, method=method, dist="cauchy", steepness=10.0),
        "diffsort": lambda x: net(x)[1].mT,
    }
    x = drawn(batch, n, seed=n).requires_grad_()
    return [comparison.outcomes(functions, [x], drawn(batch, n, n, seed=n + 1))]


def losses(method: str, batch: int, n: int) -> comparison.Groups:
    """Top-k cross-entropy of some logits."""
    from difftopk import TopKCrossEntropyLoss  # pyright: ignore[reportMissingImports]

    labels = torch.randint(0, n, (batch,), generator=torch.Generator().manual_seed(n))
    theirs: Any = TopKCrossEntropyLoss(method, STEEPNESS, SHARES, n, top1_mode="sort")
    ours = TopKCrossEntropy(SHARES, method, m=None, top1="network", steepness=STEEPNESS)  # pyright: ignore[reportArgumentType]
    functions: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gendr": lambda x: ours(x, labels),
        "difftopk": lambda x: theirs(x, labels),
    }
    x = drawn(batch, n, seed=n).requires_grad_()
    return [comparison.outcomes(functions, [x], torch.tensor(1.0))]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    plan = [
        (networks, method, batch, n)
        for method in ("odd_even", "bitonic")
        for batch, n in (((3, 8),) if quick else ((100, 16), (100, 32), (100, 128)))
    ] + [
        (losses, method, batch, n)
        for method in ("neuralsort", "softsort")
        for batch, n in (((3, 8),) if quick else ((100, 16), (100, 32)))
    ]
    return [
        Case(f"{make.__name__}, {method}/{batch}x{n}", partial(make, method, batch, n),
             small=partial(make, method, 2, n))
        for make, method, batch, n in plan
    ]  # fmt: skip


main = Comparison(
    "sorting-packages", __doc__, cases, agreement=AGREEMENT, page="results/sorting",
    mark="sorting-packages", threads=1, processor=True, file=Path(__file__),
).main  # fmt: skip

if __name__ == "__main__":
    gendr.set_num_threads(1)
    main()
