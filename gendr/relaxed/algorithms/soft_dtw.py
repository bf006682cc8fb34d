"""Soft-DTW under the names of its papers: gamma, bands, the divergence, alignments, barycentres.

    soft_dtw(a, b) = -gamma log sum over alignments of exp(-cost of the alignment / gamma)

It is `dynamic_time_warping` with minimum="log_sum_exp" and steepness 1 / gamma.

Source: Cuturi & Blondel, Soft-DTW, ICML 2017; Blondel, Mensch & Vert, Differentiable Divergences
between Time Series, AISTATS 2021; Sakoe & Chiba, 1978, for the band.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import (
    check_count,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
    check_tensor,
    widened,
)
from gendr._common.tracing import in_single, is_traced
from gendr.relaxed.algorithms.dynamic_time_warping import (
    Cost,
    check_sequences,
    pair_costs,
    warping_of_costs,
)

PairCost: TypeAlias = "Cost | Callable[[Tensor, Tensor], Tensor]"
Lengths: TypeAlias = "tuple[Tensor, Tensor] | None"


@in_single
def soft_dtw(
    a: Tensor,
    b: Tensor,
    gamma: float = 1.0,
    *,
    cost: PairCost = "squared",
    features: bool = False,
    band: int | None = None,
    normalize: bool = False,
    lengths: Lengths = None,
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """The soft distance of two sequences by dynamic time warping; all pairs by broadcasting.

    >>> soft_dtw(a[:, None], b[None], gamma=0.1)     # [A, B], of A sequences and B others

    Args:
        a: [..., n], or [..., n, c] with `features`; n >= 1.
        b: [..., m], or [..., m, c]. Leading dimensions broadcast.
        gamma: >= 0, in units of the cost; 0 gives the hard distance and the gradient of its path.
        cost: of a pair: "squared", "absolute", "euclidean", or a function of a [..., n, c] and
            b [..., m, c] that returns [..., n, m].
        features: the last dimension holds the features of one step.
        band: r >= 0 of Sakoe and Chiba: for n <= m, steps i and j are paired only if
            -r <= j - i <= m - n + r. None for no band.
        normalize: return the divergence, soft_dtw(a, b) - (soft_dtw(a, a) + soft_dtw(b, b)) / 2,
            which is not negative and 0 where a is b.
        lengths: of the sequences, two tensors of integers; what lies beyond does not count, and may
            be NaN.
        check: look for NaN and inf, also among sums of costs.
        backend: "auto", "cpu" or "reference".

    Returns:
        [...]; negative where many alignments are cheap, unless normalized.

    Raises:
        TypeError: tensors or settings of the wrong type.
        ValueError: shapes that do not fit, NaN or inf, settings out of range, or a band together
            with lengths.
    """
    a, b = check_sequences(a, b, features, check, lengths)

    def distance(x: Tensor, y: Tensor, of: Lengths) -> Tensor:
        return _warped(_costs(x, y, cost, band, of, gamma, check), gamma, of, backend)

    if not normalize:
        return distance(a, b, lengths)
    first, second = lengths or (None, None)
    of_a = None if first is None else (first, first)
    of_b = None if second is None else (second, second)
    return distance(a, b, lengths) - (distance(a, a, of_a) + distance(b, b, of_b)) / 2


@in_single
def soft_dtw_alignment(
    a: Tensor,
    b: Tensor,
    gamma: float = 1.0,
    *,
    cost: PairCost = "squared",
    features: bool = False,
    band: int | None = None,
    lengths: Lengths = None,
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """The expected alignment: how likely each pair of steps is on the path.

    It is the gradient of `soft_dtw`, whose arguments these are, by the cost of a pair. For gamma 0
    it is the cheapest path, of zeros and ones; where ways to a step are equal, a mean of them.

    Returns:
        [..., n, m] in [0, 1]; differentiable in a and b for gamma > 0.

    Raises:
        TypeError, ValueError: as `soft_dtw`.
        RuntimeError: `torch.export` traces, which cannot go through a gradient.
    """
    if torch.compiler.is_exporting():
        raise RuntimeError("soft_dtw_alignment has no graph for torch.export; export soft_dtw")
    a, b = check_sequences(a, b, features, check, lengths)
    costs = _costs(a, b, cost, band, lengths, gamma, check)
    if is_traced():
        return torch.func.grad(lambda c: _warped(c, gamma, lengths, backend).sum())(costs)
    graph = torch.is_grad_enabled() and costs.requires_grad and gamma > 0
    with torch.inference_mode(False), torch.enable_grad():
        costs = costs if graph else costs.detach().clone().requires_grad_()
        total = _warped(costs, gamma, lengths, backend).sum()
        (found,) = torch.autograd.grad(total, costs, create_graph=graph)
    return found


@torch.inference_mode(False)
def soft_dtw_barycenter(
    sequences: Sequence[Tensor] | Tensor,
    weights: Tensor | Sequence[float] | None = None,
    gamma: float = 1.0,
    *,
    init: Tensor | None = None,
    cost: PairCost = "squared",
    features: bool = False,
    iterations: int = 50,
    tolerance: float = 1e-6,
) -> Tensor:
    """The sequence with the least weighted mean of soft distances to some: their average in shape.

    Found by L-BFGS from a start.

    Args:
        sequences: each [n_k], or [n_k, c] with `features`; of one length also a tensor of them.
        weights: one for each, >= 0, with a positive sum; equal by default.
        gamma: > 0, of `soft_dtw`; each distance is divided by the length of its sequence.
        init: the start, which has the length of the result; by default the sequence of median
            length.
        cost: of a pair.
        features: sequences have several features.
        iterations: of L-BFGS at most.
        tolerance: ends where no gradient is larger.

    Returns:
        In the shape of `init`.

    Raises:
        TypeError: sequences that are no floating tensors, or of several dtypes.
        ValueError: no sequences, shapes or weights that do not fit, gamma 0, or as `soft_dtw`.
    """
    check_number("gamma", gamma, above=0.0)
    check_count("iterations", iterations)
    if not len(sequences):
        raise ValueError("a barycentre needs at least one sequence, got none")
    first = sequences[0]
    given = [_sequence("a sequence", x, features, first) for x in sequences]
    shares = given[0].new_ones(len(given))
    if weights is not None:
        shares = torch.as_tensor(weights).to(shares)
    if shares.shape != (len(given),) or not bool((shares >= 0).all() & (shares.sum() > 0)):
        raise ValueError(
            f"weights must be {len(given)} numbers >= 0 with a positive sum, got {weights}"
        )
    shares = shares / shares.sum()
    by_length = sorted(given, key=len)
    start = by_length[len(given) // 2] if init is None else _sequence("init", init, features, first)
    z = start.clone().requires_grad_()
    # Sequences of one length are one call.
    groups: dict[int, list[int]] = {}
    for k, x in enumerate(given):
        groups.setdefault(len(x), []).append(k)
    stacks = [(torch.stack([given[k] for k in ks]), shares[ks]) for ks in groups.values()]
    steps = torch.optim.LBFGS(
        [z], max_iter=iterations, tolerance_grad=tolerance, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        steps.zero_grad()
        loss = z.new_zeros(())
        for stack, share in stacks:
            distance = soft_dtw(z, stack, gamma, cost=cost, features=features, check=False)
            loss = loss + (share * distance).sum() / stack.shape[1]
        loss.backward()
        return loss

    with torch.enable_grad():
        steps.step(closure)
    return z.detach().to(first.dtype)


def _sequence(name: str, x: Tensor, features: bool, first: Tensor) -> Tensor:
    """A sequence without a graph, in float32 at least."""
    check_like(name, check_tensor(name, x), "the first", check_tensor("a sequence", first))
    known = {"c": first.shape[-1]} if features and first.ndim == 2 else {}
    check_shape(name, x, "[n, c]" if features else "[n]", **known)
    return check_finite(name, check_float(name, widened(x))).detach()


def _costs(
    a: Tensor, b: Tensor, cost: PairCost, band: int | None, lengths: Lengths, gamma: float,
    check: bool,
) -> Tensor:  # fmt: skip
    """[..., n, m]; outside of a band so large that no path goes there."""
    costs = cost(a, b) if callable(cost) else pair_costs(a, b, cost, check=check)
    n, m = a.shape[-2], b.shape[-2]
    if costs.shape[-2:] != (n, m):
        raise ValueError(
            f"cost must return [..., {n}, {m}] for a {list(a.shape)} and b {list(b.shape)}, got "
            f"{list(costs.shape)}"
        )
    if band is None:
        return costs
    if lengths is not None:
        raise ValueError("band and lengths cannot be given together; call once for each length")
    reach = check_count("band", band, least=0)
    shift = torch.arange(m, device=costs.device) - torch.arange(n, device=costs.device)[:, None]
    low, high = min(0, m - n) - reach, max(0, m - n) + reach
    within = (shift >= low) & (shift <= high)
    # Any path outside costs more than every path inside, by so much that its share is 0.
    most = costs.detach().abs().max() if costs.numel() else 0.0  # ONNX knows no amax of all
    return torch.where(within, costs, (n + m) * (2 * most + 1) + 1000 * gamma)


def _warped(costs: Tensor, gamma: float, lengths: Lengths, backend: str) -> Tensor:
    if check_number("gamma", gamma, least=0.0) == 0:
        return warping_of_costs(
            costs, dist="heaviside", lengths=lengths, check=False, backend=backend
        )
    return warping_of_costs(
        costs, steepness=1 / gamma, minimum="log_sum_exp", lengths=lengths, check=False,
        backend=backend,
    )  # fmt: skip
