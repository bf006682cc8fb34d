"""Fast differentiable sorting and ranking: projections onto the permutahedron."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from gendr._common.checks import check_choice
from gendr._common.ranges import finite
from gendr._common.tracing import running_max
from gendr.distributions.decisions import Number
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.kernels.through_cpu import goes_through_cpu
from gendr.sorting.base import Sort, of_rows, spread_nan

Regularization: TypeAlias = Literal["l2", "entropic"]
REGULARIZATIONS = ("l2", "entropic")
# With fewer values than this in the batch, sharing rows among threads costs more than it gains.
_WORTH_THREADS = 1 << 16


@dataclass(frozen=True)
class FastSort(Sort):
    """Soft sort and soft rank as projections onto the permutahedron, in O(n log n).

    The permutahedron of w is the convex hull of all permutations of w. With rho = (1, .., n) and
    x ascending,

    - ranks: the point of the permutahedron of rho that is nearest to steepness * x;
    - values: the point of the permutahedron of x that is nearest to steepness * rho.

    Nearest is in the Euclidean distance ("l2"), or in the Kullback-Leibler divergence of
    exponentials ("entropic"): ranks are argmin KL(r, exp(steepness x)) over the permutahedron of
    rho, values are -log of argmin KL(m, exp(-steepness rho)) over the permutahedron of exp(-x).
    There is no permutation matrix.

    Both are piecewise smooth: the hard result plus a correction within blocks of neighbours that
    are pooled. The two see the steepness in different units, as in the paper:

    - ranks pool neighbours that are less than 1 / steepness apart ("l2"), or less than
      log((i + 1) / i) / steepness at rank i ("entropic"), so that x and 1 / steepness scale
      together. Equal values share their mean rank. Once no gap is that small, ranks equal the hard
      ones exactly, and their gradient is 0.
    - values pool neighbours that are *more* than `steepness` apart and pull them together, so that
      x and the steepness itself scale together. Once no gap is above `steepness`, values equal the
      hard ones exactly.

    All derivatives to x and to the steepness are exact, of any order, where the blocks do not
    change; at a kink, and among equal values in `values`, they are those of one side.

    The projection is computed on the CPU in compiled code, in float64 inside, by all threads over
    the rows of the batch; tensors on other devices go to the CPU and back, as a warning says once,
    and so do gradients.
    `torch.compile` breaks its graph here; inside transforms of `torch.func` plain torch computes
    it, in O(n^2) memory.

    Descending order: values are -values(-x), ranks are ranks(-x). With "l2" these are the flipped
    values, and n + 1 - ranks; with "entropic" they are not, since the divergence is not symmetric.

    Args:
        steepness: see above.
        regularization: "l2" or "entropic".

    Raises:
        ValueError: for another regularisation.

    Source: Blondel, Teboul, Berthet, Djolonga, Fast Differentiable Sorting and Ranking, 2020; its
    epsilon is 1 / steepness. Entropic ranks are those of the authors' code, in the permutahedron of
    rho; the paper's definition projects onto that of exp(rho) and takes the logarithm.
    """

    name: ClassVar[str] = "permutahedron"

    regularization: Regularization = "l2"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("regularization", self.regularization, REGULARIZATIONS)

    @override
    def values(self, x: Tensor) -> Tensor:
        if self.regularization == "entropic":  # ascending is the mirror image of descending
            return -self._projected(VALUES, -x).flip(-1)
        return self._projected(VALUES, x)

    @override
    def ranks(self, x: Tensor) -> Tensor:
        return self._projected(RANKS, x)

    def _projected(self, operator: Operator, x: Tensor) -> Tensor:
        """Apply the operator to x; what `torch.compile` could trace has no room for long lists."""
        if torch.compiler.is_compiling():
            return torch.compiler.disable(FastSort._on_cpu)(self, operator, x)  # pyright: ignore[reportCallIssue]
        return self._on_cpu(operator, x)

    def _on_cpu(self, operator: Operator, x: Tensor) -> Tensor:
        steepness = self.steepness
        if isinstance(steepness, Tensor) and steepness.numel() != 1:
            return self._by_rows(operator, x, steepness)
        if isinstance(steepness, Tensor):
            steepness = steepness.reshape(()).cpu()
        entropic = self.regularization == "entropic"
        if x.is_meta:
            return operator(None, entropic, x, steepness)
        kernels = _Projection(operator)
        if x.device.type == "cpu":
            return operator(kernels, entropic, x, steepness)
        goes_through_cpu("the projection onto the permutahedron", x)
        return operator(kernels, entropic, x.cpu(), steepness).to(x.device)

    def _by_rows(self, operator: Operator, x: Tensor, steepness: Tensor) -> Tensor:
        """As `_on_cpu`, with a steepness for each row."""
        keys, _, _ = of_rows(x, steepness)  # also checks the shape
        if operator is RANKS:
            return replace(self, steepness=1.0)._on_cpu(operator, keys)
        if self.regularization == "l2":  # x and the steepness scale together
            keys, _, factor = of_rows(x, 1 / steepness)
            return replace(self, steepness=1.0)._on_cpu(operator, keys) / factor
        each = steepness.expand(x.shape[:-1]).reshape(-1)
        rows = zip(x.reshape(len(each), -1), each, strict=True)
        found = [replace(self, steepness=s)._on_cpu(operator, row) for row, s in rows]
        return torch.stack(found).reshape(x.shape)


# ---------------------------------------------------------------------------------------------
# The definitions
# ---------------------------------------------------------------------------------------------


class _Blocks:
    """The order of the values and their blocks, held constant: the parts that are not smooth.

    Args:
        order: [..., n] int64, which sorts the values.
        starts: [..., n] int64, the first position of the block of every sorted position.
    """

    def __init__(self, order: Tensor, starts: Tensor) -> None:
        self.order, self.starts = order, starts
        n = order.shape[-1]
        positions = torch.arange(n, device=order.device).expand_as(order)
        self.ends = torch.zeros_like(starts).scatter_reduce(-1, starts, positions, "amax")
        self.ends = self.ends.gather(-1, starts)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of x over the block of every position."""
        sums = torch.zeros_like(x).scatter_add(-1, self.starts, x)
        return sums.gather(-1, self.starts)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of x over the block of every position."""
        return self.sum(x / (self.ends - self.starts + 1))

    def above(self, at: Tensor, x: Tensor) -> Tensor:
        """How far x is above that at `starts` or `ends`, which has no gradient here; finite."""
        fixed = x.detach()
        return finite(fixed - fixed.gather(-1, at)) + (x - fixed)


def _ranks_within(blocks: _Blocks, entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    """The soft ranks of x, given the blocks."""
    w = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device).expand_as(x)
    # Only differences of x within a block matter: the gradients of s sum to 0 there. Those of
    # halves do not overflow.
    s = steepness * blocks.above(blocks.starts, 0.5 * x.gather(-1, blocks.order)) * 2
    if entropic:
        share = s.exp()
        ranks = share / blocks.sum(share) * blocks.sum(w)
    else:
        ranks = s - blocks.mean(s) + blocks.mean(w)
    return _with_nan(x, torch.zeros_like(x).scatter(-1, blocks.order, ranks))


def _values_within(blocks: _Blocks, entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    """The soft sorted values of x, given the blocks."""
    w = x.gather(-1, blocks.order)
    positions = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device).expand_as(x)
    s = steepness * blocks.above(blocks.ends, positions)
    if not entropic:
        return _with_nan(x, s - blocks.mean(s) + blocks.mean(w))
    level = blocks.sum(blocks.above(blocks.ends, w).exp()).log() - blocks.sum(s.exp()).log()
    return _with_nan(x, s + level + w.detach().gather(-1, blocks.ends))


def _with_nan(x: Tensor, result: Tensor) -> Tensor:
    """NaN wherever a list has one: blocks are found without it."""
    return torch.where(x.isnan().any(-1, keepdim=True), torch.nan, result)


def _blocks(order: Tensor, s: Tensor, w: Tensor, entropic: bool) -> _Blocks:
    """The blocks of the projection, by the minimax formula of isotonic regression: O(n^2) memory.

    The level of position i is max over j <= i of min over k >= i of m(j, k), the difference of the
    means (logarithms of sums of exponentials) of s and w at j .. k; its block begins at that j.
    """
    n = s.shape[-1]
    j, k = torch.arange(n, device=s.device)[:, None], torch.arange(n, device=s.device)
    if entropic:
        s, w = (torch.where(k < j, -torch.inf, t[..., None, :]).logcumsumexp(-1) for t in (s, w))
        levels = s - w
    else:
        levels = torch.where(k < j, 0.0, (s - w)[..., None, :]).cumsum(-1) / (k - j + 1)
    levels = -running_max(torch.where(k < j, -torch.inf, -levels).flip(-1)).flip(-1)
    starts = torch.where(k < j, -torch.inf, levels).argmax(-2)
    # By rounding, a position may name a start that names another one.
    return _Blocks(order, running_max(torch.where(starts == k, k, 0)))


def _ranks(entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    with torch.no_grad():
        keys = x.detach().double()
        order = keys.argsort(-1)
        s = steepness * keys.gather(-1, order)
        w = torch.arange(1.0, x.shape[-1] + 1, dtype=s.dtype, device=x.device).expand_as(s)
        blocks = _blocks(order, s, w.log() if entropic else w, entropic)
    return _ranks_within(blocks, entropic, x, steepness)


def _values(entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    with torch.no_grad():
        keys = x.detach().double()
        order = keys.argsort(-1)
        s = steepness * torch.arange(x.shape[-1], dtype=keys.dtype, device=x.device)
        blocks = _blocks(order, s.expand_as(keys), keys.gather(-1, order), entropic)
    return _values_within(blocks, entropic, x, steepness)


def _replayed(within: Any) -> Any:
    """The definition with the blocks that a kernel found."""

    def replay(entropic: bool, saved: tuple[Any, ...], x: Tensor, steepness: Number) -> Tensor:
        order, starts = (torch.from_numpy(part).reshape(x.shape) for part in saved[:2])
        return within(_Blocks(order, starts.long()), entropic, x, steepness)

    return replay


RANKS = Operator("sorting.ranks", reference=_ranks, replay=_replayed(_ranks_within))
VALUES = Operator("sorting.values", reference=_values, replay=_replayed(_values_within))


def isotonic(x: Tensor) -> Tensor:
    """The sequence nearest to x [..., n], float64, that never falls: means of x over its blocks.

    It is found on the CPU; inside graphs and transforms in O(n^2) memory.

    Source: Best and Chakravarti, Active Set Algorithms for Isotonic Regression, 1990.
    """
    goes_through_cpu("isotonic regression", x)
    return ISOTONIC(_Isotonic, None, x.cpu()).to(x.device) if not x.is_meta else x.clone()


def _isotonic(_: None, x: Tensor) -> Tensor:
    with torch.no_grad():
        fixed = x.detach()
        blocks = _blocks(fixed, fixed, torch.zeros_like(fixed), False)
    return _with_nan(x, blocks.mean(x))


def _isotonic_within(_: None, saved: tuple[Any, ...], x: Tensor) -> Tensor:
    starts = torch.from_numpy(saved[0]).reshape(x.shape)
    return _with_nan(x, _Blocks(starts, starts).mean(x))


ISOTONIC = Operator("sorting.isotonic", reference=_isotonic, replay=_isotonic_within)


# ---------------------------------------------------------------------------------------------
# The kernels
# ---------------------------------------------------------------------------------------------


@cache
def _compiled() -> tuple[Any, Any]:
    """What Numba has compiled: the kernels, and `fill_order`; imported when first wanted."""
    from gendr.sorting.backends.cpu import isotonic_kernels, order

    return isotonic_kernels, order.fill_order


class _Projection:
    """The kernels of `RANKS` or `VALUES`: `rank_rows` and `rank_gradients`, or those of values."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.of_ranks = operator, operator is RANKS

    def forward(
        self, entropic: bool, x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The result, and the order, the starts of the blocks and itself."""
        kernels, fill_order = _compiled()
        project = kernels.rank_rows if self.of_ranks else kernels.value_rows
        rows, result, steep = _rows(x), torch.empty_like(x), float(steepness)
        order, starts = np.empty(rows.shape, np.int64), np.empty(rows.shape, np.int32)
        results = _rows(result)

        def sort_and_project(rows: np.ndarray[Any, Any], start: int, stop: int) -> None:
            fill_order(rows[start:stop], order[start:stop])
            project(rows, order, steep, entropic, results, starts, start, stop)

        _run(sort_and_project, rows)
        return (result,), (order, starts, result) if self.of_ranks else (order, starts)

    def backward(
        self, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Any, ...],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """The gradient of x; that of the steepness too if it is wanted, by the definition."""
        kernels, _ = _compiled()
        if wanted[1]:
            return _by_replay(self.operator, entropic, inputs, saved, grads)
        (x, steepness), (order, starts) = inputs, saved[:2]
        grad, to_x = _rows(grads[0]), torch.empty_like(x)
        if self.of_ranks:
            blocks = _rows(saved[2]), order, starts, float(steepness), entropic
            _run(kernels.rank_gradients, grad, *blocks, _rows(to_x))
        else:
            _run(kernels.value_gradients, grad, _rows(x), order, starts, entropic, _rows(to_x))
        return to_x, None


class _Isotonic:
    """The kernels of `ISOTONIC`."""

    @staticmethod
    def forward(_: None, x: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        kernels, _ = _compiled()
        rows, result = _rows(x), torch.empty_like(x)
        starts = np.empty(rows.shape, np.int64)
        _run(kernels.isotonic_rows, rows, starts)
        _run(kernels.block_means, rows, starts, _rows(result))
        spread_nan(rows, _rows(result))
        return (result,), (starts,)

    @staticmethod
    def backward(
        _: None, inputs: tuple[Tensor], saved: tuple[Any, ...], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        kernels, _ = _compiled()
        to_x = torch.empty_like(grads[0])
        _run(kernels.block_means, _rows(grads[0]), saved[0], _rows(to_x))
        return (to_x,)


def _by_replay(
    operator: Operator, entropic: bool, inputs: tuple[Any, ...], saved: tuple[Any, ...],
    grads: tuple[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of x and of the steepness, for which there is no kernel."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    with torch.enable_grad():
        result = operator.replay(entropic, saved, *leaves)  # pyright: ignore[reportOptionalCall]
    return torch.autograd.grad(result, leaves, grads)


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """A contiguous x [..., n] without a gradient as an array [rows, n]."""
    return x.numpy().reshape(-1, x.shape[-1])


def _run(kernel: Any, rows: np.ndarray[Any, Any], *args: Any) -> None:
    """Call kernel(rows, *args, start, stop) on the rows of the first array, in threads if large."""
    run(kernel, len(rows), rows, *args, pieces=1, alone=rows.size < _WORTH_THREADS)
