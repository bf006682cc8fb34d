"""Losses and metrics of rankings, quantiles, alignments and transport beside the packages for them.

    python3.12 -m venv peers
    peers/bin/pip install . numba tqdm scikit-learn allRank==1.4.3 torchmetrics==1.9.0 \
        softtorch==0.1.1 tslearn==0.10.0 POT==0.9.7.post1 ott-jax==0.6.0
    PYTHONPATH=. peers/bin/python benchmarks/peers/ranking.py --out docs/results --docs

Runs from a clone. What is compared is the same function with the same settings: results, and
gradients where there are some, must agree. Losses are those of lists of 1 to 120 entries, padded,
forward and backward; metrics those of flat lists of 100 queries, as both take them. Times are of
one thread, by turns. OTT's function is compiled before; its gradient is not asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
sys.path.insert(1, str(Path(__file__).parents[1]))

import comparison
import torch
from comparison import Case, Comparison, drawn
from torch import Tensor

import gendr
from gendr import sorting
from gendr.relaxed import soft_dtw, soft_dtw_alignment
from gendr.sorting import metrics
from gendr.transport import sinkhorn

Functions = Mapping[str, Callable[..., Tensor]]
BATCH, LONGEST, QUERIES = 32, 120, 100


def losses(name: str, quick: bool) -> comparison.Groups:
    """A loss of padded lists; those of allRank mark absent entries by a target of -1."""
    # Its readers of data sets and files want torchvision and gcsfs; losses want a number of them.
    sys.modules["allrank.data.dataset_loading"] = MagicMock(PADDED_Y_VALUE=-1)
    sys.modules["allrank.utils.file_utils"] = MagicMock()
    import allrank.models.losses as theirs  # pyright: ignore[reportMissingImports]

    n = 8 if quick else LONGEST
    generator = torch.Generator().manual_seed(0)
    grades = torch.randint(5, (BATCH, n), generator=generator).float()
    mask = torch.arange(n) < torch.randint(2, n + 1, (BATCH, 1), generator=generator)
    if name == "OrdinalLoss":  # with padding theirs ends in an error of torch 2.13
        mask = torch.ones_like(mask)
    x, padded = drawn(BATCH, n), grades.masked_fill(~mask, -1.0)
    pairs: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
        "ListNet": (sorting.ListNet(), lambda x: theirs.listNet(x, padded)),
        "RankNet": (_WeighedByPairs(), lambda x: theirs.rankNet(x, padded)),
        "ApproxNDCG": (
            sorting.ApproxNDCG(steepness=1.0), lambda x: 1 + theirs.approxNDCGLoss(x, padded)
        ),
        "LambdaLoss": (
            sorting.LambdaLoss(reduction="sum"),
            lambda x: theirs.lambdaLoss(x, padded, weighing_scheme="ndcgLoss2PP_scheme", mu=10.0),
        ),
        "OrdinalLoss": (
            _OfEntries(), lambda x: theirs.ordinal(x.sigmoid(), padded, 4),
        ),
    }  # fmt: skip
    ours, other = pairs[name]
    x = (drawn(BATCH, n, 4) if name == "OrdinalLoss" else x).requires_grad_()
    functions: Functions = {"gendr": lambda x: ours(x, grades, mask), "allRank": other}
    return [comparison.outcomes(functions, [x], torch.ones(()))]


class _WeighedByPairs(sorting.RankNet):  # pyright: ignore[reportGeneralTypeIssues]
    """The mean over the pairs of all lists together, as allRank has it."""

    def forward(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        pairs = (target[..., :, None] > target[..., None, :]) & mask[..., None] & mask[..., None, :]
        counts = pairs.sum((-2, -1))
        self.reduction = "none"
        return (super().forward(scores, target, mask) * counts).sum() / counts.sum()


class _OfEntries(sorting.OrdinalLoss):  # pyright: ignore[reportGeneralTypeIssues]
    """The mean over the entries of all lists together."""

    def forward(self, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.reduction = "none"
        return (super().forward(scores, target, mask) * mask.sum(-1)).sum() / mask.sum()


def reported(name: str, quick: bool) -> comparison.Groups:
    """A metric of flat lists; the mean over queries."""
    import torchmetrics.retrieval as theirs  # pyright: ignore[reportMissingImports]

    generator = torch.Generator().manual_seed(0)
    count = QUERIES * (4 if quick else 30)
    queries = torch.randint(QUERIES, (count,), generator=generator)
    scores, relevant = drawn(count).sigmoid(), torch.randint(2, (count,), generator=generator)
    known: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "ndcg at 10": (metrics.ndcg, theirs.RetrievalNormalizedDCG, {"k": 10, "gain": "linear"}),
        "average precision": (metrics.average_precision, theirs.RetrievalMAP, {}),
        "reciprocal rank": (metrics.reciprocal_rank, theirs.RetrievalMRR, {}),
        "precision at 5": (metrics.precision, theirs.RetrievalPrecision, {"k": 5}),
        "recall at 5": (metrics.recall, theirs.RetrievalRecall, {"k": 5}),
    }
    ours, kind, more = known[name]
    other = kind(top_k=more.get("k"))

    def torchmetrics(scores: Tensor) -> Tensor:
        other.reset()
        other.update(scores, relevant, queries)
        return other.compute()

    functions: Functions = {
        "gendr": lambda x: ours(x, relevant, indexes=queries, **more).mean(),
        "torchmetrics": torchmetrics,
    }
    return [comparison.outcomes(functions, [scores], torch.ones(()))]


def correlations(name: str, n: int, quick: bool) -> comparison.Groups:
    """A rank correlation of one list."""
    import torchmetrics.functional as theirs  # pyright: ignore[reportMissingImports]

    x, y = drawn(n), drawn(n, seed=1).mul(4).round()
    other = {"kendall": theirs.kendall_rank_corrcoef, "spearman": theirs.spearman_corrcoef}[name]
    functions: Functions = {
        "gendr": lambda x, y: getattr(metrics, name)(x, y), "torchmetrics": other
    }  # fmt: skip
    return [comparison.outcomes(functions, [x, y], torch.ones(()))]


def quantiles(name: str, quick: bool) -> comparison.Groups:
    """Medians of 100 lists of 129, and where they stand, by SoftSort."""
    import softtorch  # pyright: ignore[reportMissingImports]

    x = drawn(100, 9 if quick else 129).requires_grad_()
    ours = sorting.soft_quantile if name == "median" else sorting.soft_argquantile
    theirs = softtorch.quantile if name == "median" else softtorch.argquantile
    functions: Functions = {
        "gendr": lambda x: ours(x, 0.5, "softsort", steepness=10.0),
        "softtorch": lambda x: theirs(
            x, 0.5, dim=-1, method="softsort", softness=0.1, standardize=False
        ),
    }
    return [comparison.outcomes(functions, [x], drawn(*functions["gendr"](x).shape, seed=1))]


def alignments(name: str, quick: bool) -> comparison.Groups:
    """A pair of 100 and 200 steps, in float64."""
    import tslearn.metrics as theirs  # pyright: ignore[reportMissingImports]

    a, b = (drawn(n, seed=n).double().cumsum(0) for n in ((9, 12) if quick else (100, 200)))
    pair = a.numpy()[:, None], b.numpy()[:, None]
    functions: Functions = {
        "soft-DTW": {
            "gendr": soft_dtw,
            "tslearn": lambda a, b: torch.tensor(theirs.soft_dtw(*pair, gamma=1.0)),
        },
        "its alignment": {
            "gendr": soft_dtw_alignment,
            "tslearn": lambda a, b: torch.as_tensor(theirs.soft_dtw_alignment(*pair, gamma=1.0)[0]),
        },
    }[name]
    return [comparison.outcomes(functions, [a, b], torch.ones(()))]


def transport(epsilon: float, quick: bool) -> comparison.Groups:
    """The plan of two clouds of 200 and 250 points, in float64."""
    import jax  # pyright: ignore[reportMissingImports]
    import ot  # pyright: ignore[reportMissingImports]
    from ott.geometry.geometry import Geometry  # pyright: ignore[reportMissingImports]
    from ott.solvers import linear  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_enable_x64", True)
    n, m = (8, 9) if quick else (200, 250)
    costs = torch.cdist(drawn(n, 2), drawn(m, 2, seed=1)).double().square()
    costs = costs / costs.max()
    a, b = costs.new_full((n,), 1 / n).numpy(), costs.new_full((m,), 1 / m).numpy()

    @jax.jit
    def solved(costs: Any) -> Any:
        geometry = Geometry(costs, epsilon=epsilon)
        return linear.solve(geometry, threshold=1e-6, max_iterations=100_000).matrix

    functions: Functions = {
        "gendr": lambda costs: sinkhorn(costs, epsilon=epsilon).plan,
        "POT": lambda costs: torch.tensor(
            ot.sinkhorn(
                a, b, costs.numpy(), epsilon, method="sinkhorn_log", stopThr=1e-6,
                numItermax=100_000,
            )
        ),
        "OTT": lambda costs: torch.tensor(jax.device_get(solved(costs.numpy()))),
    }  # fmt: skip
    return [comparison.outcomes(functions, [costs], torch.ones(()))]


@cache
def names(quick: bool) -> dict[str, Callable[[bool], comparison.Groups]]:
    """All cases by their names."""
    return {
        **{
            f"{name}/{BATCH}x{LONGEST}": partial(losses, name)
            for name in ("ListNet", "RankNet", "ApproxNDCG", "LambdaLoss", "OrdinalLoss")
        },
        **{
            f"{name}/{QUERIES} queries": partial(reported, name)
            for name in (
                "ndcg at 10", "average precision", "reciprocal rank", "precision at 5",
                "recall at 5",
            )
        },
        **{
            f"{name}/{n}": partial(correlations, name, n)
            for name in ("kendall", "spearman") for n in ((50,) if quick else (100, 10_000))
        },
        **{f"{name}/100x129": partial(quantiles, name) for name in ("median", "argmedian")},
        **{f"{name}/100x200": partial(alignments, name) for name in ("soft-DTW", "its alignment")},
        **{f"transport, {e:g}/200x250": partial(transport, e) for e in (0.1, 0.01)},
    }  # fmt: skip


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    return [Case(name, partial(make, quick)) for name, make in names(quick).items()]


main = Comparison(
    "ranking-peers", __doc__, cases, agreement=2e-3, page="results/sorting",
    mark="ranking-peers", threads=1, processor=True, file=Path(__file__),
).main  # fmt: skip

if __name__ == "__main__":
    gendr.set_num_threads(1)
    main()
