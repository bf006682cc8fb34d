"""Costs that were drawn in similar situations, for losses that one bad draw does not mislead."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_finite, check_float, check_number, shape_text
from gendr._common.tracing import in_single
from gendr.kernels.through_cpu import with_doubles


@with_doubles
@in_single
def knn_costs(features: Tensor, costs: Tensor, k: int = 10, weight: float = 0.5) -> Tensor:
    """For each instance, k costs between its own and those of its nearest neighbours.

    The kNN-robust loss is any loss L with a mean over them, 1/k sum over j of L(x_i, c_ij), where
    c_ij = weight c_i + (1 - weight) c_j:

    >>> robust = knn_costs(features, costs, k=10)                        # [N, 10, *event]
    >>> many = predicted.repeat_interleave(10, 0)
    >>> SPOPlusLoss(solver, minimize=True)(many, robust.flatten(0, 1))

    Args:
        features: [N, ...]; distances are Euclidean, so bring them to one scale before.
        costs: the true ones, [N, *event].
        k: how many neighbours, 1 .. N - 1; an instance is none of its own.
        weight: of its own costs, in [0, 1]; 1 is no robustness.

    Returns:
        [N, k, *event], the nearest neighbour first; of equally near ones the first in the data.

    Raises:
        TypeError: no floating tensors.
        ValueError: other numbers of instances, NaN or inf, or k or weight out of range.

    Source: Schutte, Postek and Yorke-Smith, Robust Losses for Decision-Focused Learning,
        2024. PyEPO's `optDatasetKNN` gives their mean, and the mean of their solutions.
    """
    features = check_finite("features", check_float("features", features))
    costs = check_finite("costs", check_float("costs", costs))
    if not features.ndim or not costs.ndim or len(features) != len(costs):
        raise ValueError(
            "features [N, ...] and costs [N, *event] must be of the same instances, got "
            f"{shape_text(features.shape)} and {shape_text(costs.shape)}"
        )
    if check_count("k", k) >= len(costs):
        raise ValueError(f"k must be less than the {len(costs)} instances, got {k}")
    if check_number("weight", weight, least=0) > 1:
        raise ValueError(f"weight must be in [0, 1], got {weight}")
    rows = features.flatten(1).double() if features.ndim > 1 else features[:, None].double()
    near: list[Tensor] = []
    for start in range(0, len(rows), 1024):  # N^2 distances would fill the memory
        # Of differences: by products, near neighbours would lose their digits.
        apart = torch.cdist(
            rows[start : start + 1024], rows, compute_mode="donot_use_mm_for_euclid_dist"
        )
        own = torch.arange(len(apart), device=rows.device)
        apart[own, own + start] = torch.inf
        near.append(apart.sort(dim=1, stable=True).indices[:, :k])
    return weight * costs[:, None] + (1 - weight) * costs[torch.cat(near)]
