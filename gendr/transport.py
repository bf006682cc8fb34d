"""Entropic optimal transport between weighted points: plans, distances, divergences, barycentres.

    P = argmin sum_ij P_ij C_ij + epsilon sum_ij P_ij (log(P_ij / (a_i b_j)) - 1)

over all P whose rows sum to a and whose columns sum to b. All is in logarithms, so that no epsilon
is too small for float32. The potentials are found without a graph, by sweeps and then damped steps
of Newton, from large epsilons to small ones. One more step with a graph has the first derivatives
of the solution, as the implicit function theorem gives them, and a second one with the same matrix
the second, also inside `torch.func`.

Source: Cuturi, Sinkhorn Distances, NeurIPS 2013; Feydy et al., Interpolating between Optimal
Transport and MMD using Sinkhorn Divergences, AISTATS 2019, for the divergence; Luise et al.,
Differential Properties of Sinkhorn Approximation, NeurIPS 2018, for the derivatives; Schmitzer,
Stabilized Sparse Scaling Algorithms for Entropy Regularized Transport Problems, SIAM Journal on
Scientific Computing 2019, for falling epsilons; Tang et al., Accelerating Sinkhorn Algorithm with
Sparse Newton Iterations, ICLR 2024, for Newton's steps after sweeps; Benamou et al., Iterative
Bregman Projections for Regularized Transportation Problems, SIAM Journal on Scientific Computing
2015, for barycentres.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_finite, check_float, check_like, check_number
from gendr._common.tracing import constant, in_single, is_for_onnx, is_traced
from gendr.kernels.through_cpu import with_doubles

__all__ = ["Transport", "sinkhorn", "sinkhorn_barycenter", "sinkhorn_divergence"]

T = TypeVar("T")

_SWEEPS, _TESTED = 40, 5  # before steps of Newton, and between tests of the sums
_JOINT_SWEEPS = 400  # before steps of Newton for barycentres, which take as long as so many
_EASY = 50.0  # a range of costs in epsilons for which sweeps converge soon
_LOOSE = 0.03  # of the largest weight: how far the sums of larger epsilons may be off
_DAMPING, _FARTHEST, _SHORTER = 0.01, 20.0, 20  # of steps of Newton; how often they are halved


class Transport(NamedTuple):
    """A plan and what it costs.

    Attributes:
        plan: [..., n, m] >= 0; rows sum to a, columns to b.
        cost: [...], the sum of P C: the transport alone.
        value: [...], with the entropy: `cost` + epsilon KL(P | a b), whose gradients are the plan
            and the potentials.
    """

    plan: Tensor
    cost: Tensor
    value: Tensor


@with_doubles
@in_single
def sinkhorn(
    costs: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    epsilon: float = 0.1,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-6,
    check: bool = True,
) -> Transport:
    """The entropic transport between two weighted sets of points.

    Differentiable in costs, a and b, twice: the derivatives are those of the solution.

    Args:
        costs: [..., n, m], of moving a unit from i to j; n, m >= 1.
        a: [..., n] >= 0; equal weights by default. Leading dimensions broadcast.
        b: [..., m] >= 0, with the sum of a, to 1e-4 or the precision of their dtype; it is scaled
            to it.
        epsilon: > 0, in units of the costs.
        iterations: sweeps and steps of Newton at most. Inside of `torch.func` and of graphs, where
            nothing tells when to end, so many sweeps, and no warning: ask for more of them where
            epsilon is below a thousandth of the costs.
        tolerance: of the sums of rows and columns, relative to the sum of a.
        check: look for NaN and inf, negative weights and unequal sums.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, or what `check` finds.

    Warns:
        RuntimeWarning: the tolerance was not reached.
    """
    check_float("costs", costs)
    if costs.ndim < 2 or 0 in costs.shape[-2:]:
        raise ValueError(f"costs must be [..., n, m] with n, m >= 1, got {list(costs.shape)}")
    check_number("epsilon", epsilon, above=0.0)
    check_count("iterations", iterations)
    check_number("tolerance", tolerance, least=0.0)
    n, m = costs.shape[-2:]
    a = _weights("a", a, n, costs, check)
    b = _weights("b", b, m, costs, check)
    batch = torch.broadcast_shapes(costs.shape[:-2], a.shape[:-1], b.shape[:-1])
    costs, a, b = costs.expand(*batch, n, m), a.expand(*batch, n), b.expand(*batch, m)
    if check:
        check_finite("costs", costs)
        if not is_traced() and a.numel() and b.numel():
            one, other = a.detach().sum(-1), b.detach().sum(-1)
            if not torch.allclose(one, other, rtol=_rounding(a, b), atol=0):
                raise ValueError(
                    "a and b must have the same sum, got "
                    f"{one.flatten()[0]:g} and {other.flatten()[0]:g}; divide each by its sum"
                )
    wide = costs.double() / -epsilon
    a, b = a.double(), b.double()
    one, other = (x.detach().sum(-1, keepdim=True) for x in (a, b))
    b = b * torch.where(other > 0, one / other, 1.0)
    with torch.no_grad():
        u, v = _searched(_potentials, wide.detach(), a.detach(), b.detach(), iterations, tolerance)
    graded = is_traced() or wide.requires_grad or a.requires_grad or b.requires_grad
    if graded and not is_for_onnx():
        # Steps of value 0. With a matrix that is constant each multiplies the error of derivatives
        # by one that is 0 at the solution: the first makes those of order 1 right, the next 2.
        factors = _factors(_plan(wide.detach(), u, v))
        for _ in range(2):
            du, dv = _step(wide, a, b, u, v, factors)
            u, v = u + (du - du.detach()), v + (dv - dv.detach())
    plan = _plan(wide, u, v)
    cost = (plan * wide).sum((-2, -1)) * -epsilon
    # cost + epsilon KL(P | a b), as log P = log K + u + v
    value = epsilon * (_dual_part(plan.sum(-1), a, u) + _dual_part(plan.sum(-2), b, v))
    return Transport(plan.to(costs.dtype), cost.to(costs.dtype), value.to(costs.dtype))


@with_doubles
@in_single
def sinkhorn_divergence(
    x: Tensor,
    y: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    epsilon: float = 0.1,
    **options: float,
) -> Tensor:
    """The debiased distance of two weighted clouds: OT(x, y) - (OT(x, x) + OT(y, y)) / 2.

    OT is the `value` of `sinkhorn` for squared Euclidean costs. Not negative, and 0 where both
    clouds are the same.

    Args:
        x: [..., n, c] points.
        y: [..., m, c] points.
        a: [..., n], weights of x; equal by default.
        b: [..., m], weights of y.
        epsilon: > 0, in squared units of the points.
        **options: of `sinkhorn`.

    Returns:
        [...].
    """
    check_like("y", check_float("y", y), "x", check_float("x", x))
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"x and y must be [..., n, c] and [..., m, c], got {list(x.shape)} and {list(y.shape)}"
        )

    def between(p: Tensor, q: Tensor, of_p: Tensor | None, of_q: Tensor | None) -> Tensor:
        squares = (p[..., :, None, :] - q[..., None, :, :]).square().sum(-1)
        return sinkhorn(squares, of_p, of_q, epsilon, **options).value  # pyright: ignore[reportArgumentType]

    return between(x, y, a, b) - (between(x, x, a, a) + between(y, y, b, b)) / 2


@with_doubles
@in_single
def sinkhorn_barycenter(
    costs: Tensor,
    a: Tensor,
    weights: Tensor | None = None,
    epsilon: float = 0.1,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-6,
    check: bool = True,
) -> Tensor:
    """The weights of given points whose entropic transport to several weighted sets is cheapest.

        p = argmin sum_k weights_k min_P (sum_ij P_ij C_ij + epsilon sum_ij P_ij (log P_ij - 1))

    over the plans P from a_k to p. The entropy blurs p, by about sqrt(epsilon / 2) for squared
    distances. Differentiable in costs, a and weights, twice, as `sinkhorn` is. For points that move
    take gradients of `sinkhorn_divergence`.

    Args:
        costs: [n, m] for all, or [..., K, n, m]: of moving a unit from i of a_k to j.
        a: [..., K, n] >= 0, with one sum, to 1e-4, which p has too.
        weights: [..., K] >= 0; equal by default. They are divided by their sum.
        epsilon: > 0, in units of the costs.
        iterations: as for `sinkhorn`.
        tolerance: of the sums of columns, relative to the sum of a.
        check: look for NaN and inf, negative weights and unequal sums.

    Returns:
        [..., m].

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, or what `check` finds.

    Warns:
        RuntimeWarning: the tolerance was not reached.
    """
    check_like("a", check_float("a", a), "costs", check_float("costs", costs))
    if min(a.ndim, costs.ndim) < 2 or 0 in (*a.shape[-2:], *costs.shape[-2:]):
        raise ValueError(
            "costs must be [..., n, m] and a [..., K, n], none of them 0, got "
            f"{list(costs.shape)} and {list(a.shape)}"
        )
    check_number("epsilon", epsilon, above=0.0)
    check_count("iterations", iterations)
    check_number("tolerance", tolerance, least=0.0)
    a = _weights("a", a, costs.shape[-2], costs, check)
    shares = _weights("weights", weights, a.shape[-2], costs, check).double()[..., None]
    batch = torch.broadcast_shapes(costs.shape[:-2], a.shape[:-1], shares.shape[:-1])
    log_k = (costs.double() / -epsilon).expand(*batch, *costs.shape[-2:])
    sums, shares = a.double().expand(*batch, -1), shares.expand(*batch, 1)
    each = sums.detach().sum(-1, keepdim=True)
    if check:
        check_finite("costs", costs)
        if not is_traced() and sums.numel():
            if not bool((shares.sum(-2) > 0).all()):
                raise ValueError("weights must not all be 0")
            least, most = each.aminmax(dim=-2)
            if not (bool((least > 0).all()) and torch.allclose(least, most, _rounding(a), 0)):
                raise ValueError(
                    f"a must have one sum, above 0, got {least.min():g} and {most.max():g}; "
                    "divide each by its sum"
                )
    sums, mass = sums / each, each.mean(-2)
    shares = shares / shares.sum(-2, keepdim=True)
    with torch.no_grad():
        v = _searched(
            _joined, log_k.detach(), sums.detach(), shares.detach(), iterations, tolerance
        )
    if (is_traced() or any(x.requires_grad for x in (log_k, sums, shares))) and not is_for_onnx():
        factors = _joint_factors(_from_rows(log_k.detach(), sums.detach(), v), shares.detach())
        for _ in range(2):  # of value 0, as those of `sinkhorn`
            dv = _joint_step(log_k, sums, shares, v, factors)
            v = v + (dv - dv.detach())
    return ((shares * _from_rows(log_k, sums, v).sum(-2)).sum(-2) * mass).to(costs.dtype)


def _weights(name: str, value: Tensor | None, n: int, costs: Tensor, check: bool) -> Tensor:
    if value is None:
        return costs.new_full((n,), 1 / n)
    check_like(name, check_float(name, value), "costs", costs)
    if value.shape[-1:] != (n,):
        raise ValueError(f"{name} must be [..., {n}], got {list(value.shape)}")
    if check:
        check_finite(name, value)
        if not is_traced() and bool((value < 0).any()):
            raise ValueError(f"{name} must be >= 0, got {value.min():g}")
    return value


def _rounding(*weights: Tensor) -> float:
    """How far sums of weights may be off: those that half precision rounded had others before."""
    kinds = [torch.float16, torch.bfloat16]
    exact = (k for k in kinds if all(torch.equal(x, x.to(k).to(x.dtype)) for x in weights))
    return max([1e-4, *(torch.finfo(kind).eps for kind in exact)])


def _plan(log_k: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return (log_k + u[..., :, None] + v[..., None, :]).exp()


def _dual_part(sums: Tensor, weights: Tensor, potential: Tensor) -> Tensor:
    """The part of rows, or columns, in the divergence; of weights of 0 there is none."""
    on = weights > 0
    logs = torch.where(on, potential, 0.0) - torch.where(on, weights, 1.0).log()
    return (sums * logs).sum(-1)


def _swept(log_k: Tensor, log_a: Tensor, log_b: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """One sweep: the potentials of rows, and then of columns."""
    u = log_a - torch.logsumexp(log_k + v[..., None, :], -1)
    return u, log_b - torch.logsumexp(log_k + u[..., :, None], -2)


@constant
def _is_exported_or_transformed() -> bool:
    return torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active()


def _searched(search: Callable[..., T], *args: Tensor | float) -> T:
    """The result of a search, outside of the graphs of `torch.compile`, but in its transforms.

    It would unroll all sweeps that may be needed, and compile them for many minutes.
    """
    if torch.compiler.is_dynamo_compiling() and not _is_exported_or_transformed():
        return torch.compiler.disable(search)(*args)  # pyright: ignore
    return search(*args)


def _potentials(
    log_k: Tensor, a: Tensor, b: Tensor, iterations: int, tolerance: float
) -> tuple[Tensor, Tensor]:
    """U [..., n] and v [..., m] with P = exp(log K + u + v); see the module.

    A small epsilon is reached by halves: potentials of two larger ones tell where it begins. Sweeps
    come first, then damped steps of Newton for v alone, as rows are made right by u.
    """
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    if is_traced():
        log_a, log_b = a.log(), b.log()  # weights of 0 take no part: their parts of the plan are 0
        for _ in range(iterations + 1):
            u, v = _swept(log_k, log_a, log_b, v)
        return u, v
    if not log_k.numel():
        return u, v
    size = a.sum(-1, keepdim=True)  # without any, some plan is looked for, and taken 0 times
    a, b = (torch.where(size > 0, x / size, 1 / x.shape[-1]) for x in (a, b))
    loose = _LOOSE * float(b.amax())
    error, left, earlier = 0.0, iterations, None
    halves = _halves(log_k)
    for half in range(halves, -1, -1):
        k = log_k / 2.0**half if half else log_k
        if half == halves:
            v = -(k - k.amax(-1, keepdim=True)).amax(-2)
        else:  # by epsilons times potentials: as far as the last half, and half as far again
            v, earlier = 2 * v if earlier is None else 3 * v - 2 * earlier, v
            v = torch.where(b > 0, v, -math.inf)
        enough = max(tolerance, loose if half else 0.0)
        u, v, error, used = _scaled(k, a, b, v, enough, min(max(left, 1), _SWEEPS))
        left -= used
        if error > enough and left > 0:
            u, v, error, used = _descended(k, a, b, v, enough, left)
            left -= used
    _warn("sinkhorn", iterations, error, tolerance)
    return u + size.log(), v


def _halves(log_k: Tensor) -> int:
    """How often epsilon is halved until it is what it should be."""
    spread = float(log_k.amax() - log_k.amin())
    return max(0, math.ceil(math.log2(spread / _EASY))) if _EASY < spread < math.inf else 0


def _warn(name: str, iterations: int, error: float, tolerance: float) -> None:
    if error > tolerance:
        warnings.warn(
            f"{name} stopped after {iterations} sweeps with sums about {error:.0e} off, relative "
            f"to that of a, above the tolerance {tolerance:g}; raise iterations, tolerance or "
            "epsilon",
            RuntimeWarning,
            stacklevel=4,
        )


def _descended(
    log_k: Tensor, a: Tensor, b: Tensor, v: Tensor, enough: float, steps: int
) -> tuple[Tensor, Tensor, float, int]:
    """At most so many steps of Newton, by which the concave dual of v, u eliminated, goes up.

    Damped as Levenberg and Marquardt do, by how far the sums are off: where epsilon is small, parts
    of the plan hardly touch, and what is between them is known by the gradient alone.

    Returns:
        As `_scaled`, but the sums of rows are right.
    """

    def at(v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u = a.log() - torch.logsumexp(log_k + v[..., None, :], -1)
        plan = _plan(log_k, u, v)
        return u, plan, b - plan.sum(-2)

    u, plan, to_b = at(v)
    used = 0
    while (off := float(to_b.abs().amax())) > enough and used < steps:
        weights = torch.maximum(b, b - to_b)
        on = weights > 0
        gaps = (to_b.square() / torch.where(on, weights, 1.0)).sum(-1, keepdim=True).sqrt()
        dv = _step(log_k, a, b, u, v, _factors(plan, _DAMPING * gaps * weights))[1]
        v, (u, plan, to_b) = _climbed(at, v, to_b, dv, (-1,))
        used += 1
    return u, v, off, used


def _climbed(
    at: Callable[[Tensor], tuple[Tensor, ...]],
    v: Tensor, slopes: Tensor, dv: Tensor, dims: tuple[int, ...],
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """V further up by a part of a step, and what `at` gives there, of which the last are slopes.

    As much of the step as is not far beyond the maximum, and not farther than potentials should go.
    """
    first = (slopes * dv).sum(dims, keepdim=True)
    part = 2 * (_FARTHEST / dv.abs().amax(dims, keepdim=True)).clamp(max=1.0)
    good = torch.zeros_like(part, dtype=torch.bool)
    found: tuple[Tensor, ...] = ()
    for _ in range(_SHORTER):
        part = torch.where(good, part, part / 2)
        found = at(v + part * dv)
        good = (found[-1] * dv).sum(dims, keepdim=True) >= -0.1 * first
        if good.all():
            break
    return v + part * dv, found


def _scaled(
    log_k: Tensor, a: Tensor, b: Tensor, v: Tensor, enough: float, sweeps: int
) -> tuple[Tensor, Tensor, float, int]:
    """At most so many sweeps without logarithms, by factors of a plan whose rows are near 1.

    Returns:
        The potentials, with which the sums of columns are right; how far those of rows are off at
        most, NaN if numbers end; and how many sweeps there were.
    """
    plan = log_k + v[..., None, :]
    u = -plan.amax(-1)
    plan = plan.add_(u[..., None]).exp_()
    tiny = torch.finfo(plan.dtype).tiny
    wanted, q, off, used = a[..., None], torch.ones_like(b[..., None]), math.inf, 0
    last = p = wanted / (plan @ q).clamp(min=tiny)
    while off > enough and used < sweeps:
        for _ in range(min(_TESTED, sweeps - used)):
            q = b[..., None] / (plan.mT @ p).clamp(min=tiny)
            last, p = p, wanted / (plan @ q).clamp(min=tiny)
            used += 1
        # Of rows the sums are those wanted times last / p.
        off = float((wanted * (torch.where(wanted > 0, last / p, 1.0) - 1)).abs().amax())
    return u + last[..., 0].log(), v + q[..., 0].log(), off, used


def _factors(plan: Tensor, damping: Tensor | float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What steps from this plan, which has no graph, share: it, its rows by sum, and factors.

    [diag(rows) P; P' diag(columns)] (du, dv) = (a - rows, b - columns), du eliminated.
    """
    rows, columns = plan.sum(-1, keepdim=True), plan.sum(-2)
    scaled = plan / torch.where(rows > 0, rows, 1.0)
    matrix = -(plan.mT @ scaled)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    degrees = -matrix.sum(-1)
    size = degrees.amax(-1, keepdim=True).clamp(min=torch.finfo(plan.dtype).tiny)
    m = matrix.shape[-1]
    matrix = matrix + size[..., None] / m  # the constant, which u takes up, is fixed
    small = 4 * m * torch.finfo(plan.dtype).eps * size
    matrix.diagonal(dim1=-2, dim2=-1).add_(degrees + small + damping + (columns <= 0) * size)
    return plan, scaled, *torch.linalg.lu_factor(matrix)


def _step(
    log_k: Tensor, a: Tensor, b: Tensor, u: Tensor, v: Tensor,
    factors: tuple[Tensor, Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Newton's step for the sums of rows and columns, whose derivatives are the solution's."""
    plan = _plan(log_k, u, v)
    fixed, scaled, *lu = factors
    rows, columns = fixed.sum(-1), fixed.sum(-2)
    to_a, to_b = a - plan.sum(-1), b - plan.sum(-2)
    right = (to_b - (scaled.mT @ to_a[..., None])[..., 0])[..., None]
    dv = torch.linalg.lu_solve(*lu, right)
    du = (to_a[..., None] - fixed @ dv)[..., 0] / torch.where(rows > 0, rows, 1.0)
    zero = u.new_zeros(())
    return torch.where(rows > 0, du, zero), torch.where(columns > 0, dv[..., 0], zero)


def _from_rows(log_k: Tensor, a: Tensor, v: Tensor) -> Tensor:
    """The plan of v whose rows sum to a."""
    return a[..., None] * (log_k + v[..., None, :]).softmax(-1)


def _joined(log_k: Tensor, a: Tensor, shares: Tensor, iterations: int, tolerance: float) -> Tensor:
    """V [..., K, m] with which the columns of all K plans have the same sums; see `_potentials`."""
    v = torch.zeros_like(log_k[..., 0, :])
    if is_traced():
        for _ in range(iterations + 1):
            v = _joint_sweep(log_k, a.log(), shares, v)
        return v
    if not log_k.numel():
        return v
    error, left, earlier, halves = 0.0, iterations, None, _halves(log_k)
    for half in range(halves, -1, -1):
        if half < halves:
            v, earlier = 2 * v if earlier is None else 3 * v - 2 * earlier, v
        enough = max(tolerance, _LOOSE / a.shape[-1] if half else 0.0)
        v, error, used = _jointly(log_k / 2.0**half, a, shares, v, enough, max(left, 1))
        left -= used
    _warn("sinkhorn_barycenter", iterations, error, tolerance)
    return v


def _joint_sweep(log_k: Tensor, log_a: Tensor, shares: Tensor, v: Tensor) -> Tensor:
    """The sums of rows made right, and then those of columns their weighted geometric mean."""
    u = log_a - torch.logsumexp(log_k + v[..., None, :], -1)
    sums = torch.logsumexp(log_k + u[..., :, None], -2)
    return (shares * sums).sum(-2, keepdim=True) - sums


def _joint_scaled(
    log_k: Tensor, a: Tensor, shares: Tensor, v: Tensor, enough: float, sweeps: int
) -> tuple[Tensor, int]:
    """At most so many sweeps without logarithms, by factors of plans whose rows are near 1.

    Returns:
        V, and how many sweeps there were; fewer if as many as are left would not do.
    """
    plan = log_k + v[..., None, :]
    plan = plan.sub_(plan.amax(-1, keepdim=True)).exp_()
    tiny = torch.finfo(plan.dtype).tiny
    wanted, q, used, off = a[..., None], torch.ones_like(v), 0, math.inf
    while used < sweeps:
        sums = q
        for _ in range(min(_TESTED, sweeps - used)):
            sums = (plan.mT @ (wanted / (plan @ q[..., None]).clamp(min=tiny)))[..., 0]
            sums = sums.clamp(min=tiny)
            last, q, used = q, (shares * sums.log()).sum(-2, keepdim=True).exp() / sums, used + 1
            sums = sums * last
        before, off = off, float((sums - (shares * sums).sum(-2, keepdim=True)).abs().amax())
        tests = (sweeps - used) / _TESTED
        if off <= enough or (
            used >= _SWEEPS and not (off < before and off * (off / before) ** tests <= enough)
        ):
            break
    return v + q.clamp(min=tiny).log(), used


def _jointly(
    log_k: Tensor, a: Tensor, shares: Tensor, v: Tensor, enough: float, steps: int
) -> tuple[Tensor, float, int]:
    """At most so many sweeps, and then steps of Newton, damped as those of `_descended`.

    Returns:
        V; how far sums of columns are off at most, NaN if numbers end; and how many there were.
    """

    def at(v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        plan = _from_rows(log_k, a, v)
        sums = plan.sum(-2)
        gaps = (shares * sums).sum(-2, keepdim=True) - sums
        return plan, gaps, shares * gaps

    v, used = _joint_scaled(log_k, a, shares, v, enough, min(steps, _JOINT_SWEEPS))
    plan, gaps, slopes = at(v)
    while (off := float(gaps.abs().amax())) > enough and used < steps:
        sums = plan.sum(-2)
        weights = torch.maximum(sums, sums + gaps)
        squares = gaps.square() / torch.where(weights > 0, weights, 1.0)
        damping = _DAMPING * squares.sum((-2, -1), keepdim=True).sqrt() * weights
        dv = _joint_step(log_k, a, shares, v, _joint_factors(plan, shares, damping))
        v, (plan, gaps, slopes) = _climbed(at, v, slopes, dv, (-2, -1))
        used += 1
    return v, off, used


def _joint_factors(
    plan: Tensor, shares: Tensor, damping: Tensor | float = 0.0
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Of `_joint_step`: the inverses of how columns answer to v, and factors of their mean."""
    *_, lu, pivots = _factors(plan, damping)
    eye = torch.eye(plan.shape[-1], dtype=plan.dtype, device=plan.device)
    inverse = torch.linalg.lu_solve(lu, pivots, eye.expand_as(lu))
    return inverse, torch.linalg.lu_factor((shares[..., None] * inverse).sum(-3))


def _joint_step(
    log_k: Tensor, a: Tensor, shares: Tensor, v: Tensor,
    factors: tuple[Tensor, tuple[Tensor, Tensor]],
) -> Tensor:  # fmt: skip
    """Newton's step of v to columns of the same sums, with a weighted sum of v of 0."""
    inverse, lu = factors
    columns = _from_rows(log_k, a, v).sum(-2)
    gaps = (shares * columns).sum(-2, keepdim=True) - columns
    left = (shares * ((inverse @ gaps[..., None])[..., 0] + v)).sum(-2)
    change = torch.linalg.lu_solve(*lu, (left.mean(-1, keepdim=True) - left)[..., None])
    return (inverse @ (change.mT + gaps)[..., None])[..., 0]
