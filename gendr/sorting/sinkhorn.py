"""Sorting as optimal transport with entropic regularisation."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gendr._common.checks import check_count, check_number
from gendr._common.ranges import saturated, spread
from gendr._common.tracing import (
    applied,
    is_traced,
    matmul,
    refuse_batched,
    refuse_onnx,
)
from gendr.distributions.decisions import Number
from gendr.kernels.through_cpu import with_doubles
from gendr.sorting.base import PermutationSort, check_matrices, of_rows

# Masses of about exp(-FAR) = 2e-28 and below count as 0. They are far below the rounding of others,
# and products of such numbers would soon be subnormal, which slows the arithmetic down.
_FAR = 64.0
# Newton steps where nobody may look whether they have converged: in a graph.
_BLIND = 10


@dataclass(frozen=True)
class SinkhornSort(PermutationSort):
    """The entropic transport plan from the values to the ranks.

    P minimises sum_ji P_ji (x_i - j)^2 - (1 / steepness) entropy(P) over all matrices whose rows
    and columns sum to 1, with ranks j = 1 .. n. Only the products x_i j of the cost count, so P
    does not change if x is shifted, nor if x is scaled and the steepness by the inverse. For two
    values P is the relaxed swap of the logistic distribution, sigmoid(steepness (x_2 - x_1)). For
    any two of more values and two neighbouring ranks the odds ratio of P is what it is for two
    values alone, exp(2 steepness (x_2 - x_1)).

    The paper squashes x into [0, 1] by a sigmoid after standardising it, and takes anchors in
    [0, 1]. Here x is taken as it is, so that the steepness means the same as elsewhere and no
    gradient is lost in the squashing. `carried(squashed, x)` with a steepness of
    1 / (epsilon (n - 1)) is the paper's.

    P is found by scaling rows and columns in turn (Sinkhorn's sweeps). The start are the potentials
    of the hard sort, half way between neighbours, which are exact for two values and in the limits.
    Sweeps converge slowly if the steepness is high: thousands do not suffice if neighbours differ
    by more than a few 1 / steepness. So every sweep is followed by a Newton step on the concave
    dual, and 1 to 7 of them converge, also with ties, clusters and outliers. The gradient is that
    of the solution, from the conditions on the marginals: one linear system of n equations per row
    of the batch, after one of the two potentials is eliminated. A step and a gradient take O(n^3)
    time and O(n^2) memory per row. Derivatives of any order are right up to the tolerance.

    All is computed in float64. If the marginals are not within the tolerance after all iterations,
    a RuntimeWarning says how far off they are.

    Args:
        steepness: 1 / epsilon, the weight of the entropy.
        iterations: sweeps at most.
        tolerance: the sweeps stop when the sums of all columns are this close to 1; those of rows
            are 1.

    Raises:
        TypeError: for settings of the wrong type.
        ValueError: for settings out of range.

    Source: Cuturi, Teboul, Vert, Differentiable Ranking and Sorting using Optimal Transport, 2019.
    """

    name: ClassVar[str] = "sinkhorn"

    iterations: int = 1000
    tolerance: float = 1e-8

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("iterations", self.iterations)
        check_number("tolerance", self.tolerance, above=0.0)

    @override
    @with_doubles
    def permutation(self, x: Tensor) -> Tensor:
        refuse_onnx("the sort 'sinkhorn'", "export 'softsort', 'neuralsort' or a network")
        if x.is_meta:
            return x[..., None].expand(*x.shape, x.shape[-1]).clone()
        check_matrices(self.name, x, x.shape[-1])
        keys, steepness, _ = of_rows(x.double(), self.steepness)
        if isinstance(steepness, Tensor):
            steepness = saturated(steepness)
        z = 2 * steepness * saturated(_centred(keys, steepness))
        p = _plan(z, self.iterations, self.tolerance)
        return spread(x[..., None, :], saturated(p.to(x.dtype)))


def _centred(x: Tensor, steepness: Number) -> Tensor:
    """Shift x [..., n] so that the middle of its range is 0, and shorten its wide gaps.

    P does not depend on shifts, but without this one derivatives with respect to the steepness
    would cancel. Gaps that `_kernel` would cut are shortened here already, so that no product with
    the steepness overflows; the parts on either side are independent, so that each may be shifted.
    """
    keys, order = x.detach().sort(dim=-1)
    number = torch.as_tensor(steepness, dtype=x.dtype, device=x.device).detach()
    widest = (4 * _FAR / number).clamp(max=sys.float_info.max)
    gaps = keys.diff(dim=-1)
    if is_traced() or bool((gaps > widest).any()):
        keys = _running_sum(gaps.clamp(max=widest))
        keys = keys.gather(-1, order.argsort(dim=-1))
        x = keys + (x - x.detach())
    lowest, highest = x.detach().aminmax(dim=-1, keepdim=True)
    return x - (lowest / 2 + highest / 2)


def _kernel(z: Tensor) -> tuple[Tensor, Tensor]:
    """K [..., rank, position] that scales to the plan, and the inverse of the order of z [..., n].

    It is exp(z_i j) times factors of rows and columns that make the diagonal 1, the largest of its
    row and column: K_ji = exp(-sum_k |m_k - z_i|), over the midpoints m_k of neighbours that lie
    between the positions i and j. Wide gaps are cut: the parts on either side are independent.
    """
    z, order = z.sort(dim=-1, stable=True)
    gaps = z.diff(dim=-1).clamp(max=4 * _FAR)
    z = _running_sum(gaps)
    midpoints = _running_sum((z[..., 1:] + z[..., :-1]) / 2)
    ranks = torch.arange(z.shape[-1], dtype=z.dtype, device=z.device)
    log_k = torch.addcmul(
        midpoints[..., None, :] - midpoints[..., :, None],
        z[..., None, :],
        ranks[:, None] - ranks,
    )
    k = torch.nn.functional.threshold(log_k.exp_(), math.exp(-_FAR), 0.0)
    return k, order.argsort(dim=-1)


def _running_sum(x: Tensor) -> Tensor:
    """The sums 0, x_1, x_1 + x_2, .. [..., n] of x [..., n - 1]."""
    return torch.nn.functional.pad(x.cumsum(-1), (1, 0))


def _column_sums(k: Tensor, scaling: Tensor) -> Tensor:
    """Sums of the columns of K, after its rows were scaled so that K @ scaling is 1."""
    rows = 1 / matmul(k, scaling[..., None])
    return matmul(k.mT, rows)[..., 0]


def _scaled(k: Tensor, scaling: Tensor) -> Tensor:
    """K with its columns scaled, and then its rows to sum 1."""
    p = k * scaling[..., None, :]
    return p / p.sum(-1, keepdim=True)


def _error(columns: Tensor) -> float:
    """The largest distance of the sums from 1."""
    return (columns.detach() - 1).abs().max().item() if columns.numel() else 0.0


def _finish(
    k: Tensor, scaling: Tensor, inverse: Tensor, iterations: int, tolerance: float
) -> Tensor:
    """The plan [..., rank, input]; warns if the sums of its columns are off."""
    p = _scaled(k, scaling)
    # Graphs may have a symbol for the tolerance, which a second call does not find.
    if not is_traced() and (error := _error(p.sum(-2))) > tolerance:
        # The error is rounded so that Python shows the warning once, not for every batch.
        warnings.warn(
            f"SinkhornSort stopped after {iterations} iterations with sums of columns about "
            f"{error:.0e} off 1, above the tolerance {tolerance:g}; raise one of the two",
            RuntimeWarning,
            stacklevel=4,
        )
    return p.gather(-1, inverse[..., None, :].expand_as(p))


class _Plan(torch.autograd.Function):
    """The plan of z = 2 steepness x, differentiated as the solution of its equations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        z: Tensor, iterations: int, tolerance: float
    ) -> Tensor:
        k, inverse = _kernel(z)
        scaling = torch.ones_like(z)
        for _ in range(min(iterations, _BLIND) if is_traced() else iterations):
            sums = _column_sums(k, scaling)
            # Ends for NaN too, if x was not checked.
            if not is_traced() and not _error(scaling * sums) > tolerance:
                break
            p = _scaled(k, 1 / sums)
            scaling = _solve(p, 1 - p.sum(-2)).exp() / sums
        return _finish(k, scaling, inverse, iterations, tolerance)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        refuse_batched(grad_outputs)
        # Written in terms of P, the output of this function, so that it can be differentiated
        # again.
        (p,), (grad,) = ctx.saved_tensors, grad_outputs
        # Scaled to size 1, because the solution below may be far larger than its right-hand side.
        # Each list by itself: others have nothing to do with its NaN.
        size = grad.detach().abs().amax(-1, keepdim=True).amax(-2, keepdim=True).clamp(min=1.0)
        grad = grad / size
        # P = exp(log K + a_j + b_i), with a and b such that the sums of dP vanish. The same is true
        # of the gradient to log K, P (grad + a_j + b_i): the projection is its own adjoint.
        grad = grad - (p * grad).sum(-1, keepdim=True)
        b = -_solve(p, (p * grad).sum(-2))[..., None, :]
        to_log_k = p * (grad + b - (p * b).sum(-1, keepdim=True))
        n = p.shape[-1]
        ranks = torch.arange(n, dtype=p.dtype, device=p.device) - (n - 1) / 2
        return size[..., 0] * matmul(ranks, to_log_k), None, None


_plan = applied(_Plan)


def _solve(p: Tensor, right: Tensor) -> Tensor:
    """The y [..., n] of mean 0 with (diag(columns of P) - P^T P) y = right, which sums to 0.

    The matrix is the Laplacian of a graph with the weights P^T P. Built from its off-diagonal
    entries alone it does not suffer from cancellation if P is nearly hard. In that case weights
    vanish and the graph falls apart; a small number is added to the diagonal, as large as the
    rounding errors of the elimination, to keep the system solvable.
    """
    n = p.shape[-1]
    matrix = matmul(p.mT, p)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    degrees = matrix.sum(-1)
    matrix = matrix.neg_().add_(1 / n)  # the constant only fixes the mean
    matrix.diagonal(dim1=-2, dim2=-1).add_(degrees + 4 * n * torch.finfo(p.dtype).eps)
    y = torch.linalg.solve(matrix, right)
    return y - y.mean(-1, keepdim=True)
