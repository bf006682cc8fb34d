"""Fast differentiable sorting and ranking: projections onto the permutahedron."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from typing_extensions import override

from gendr._common.checks import check_choice
from gendr.distributions.decisions import Number
from gendr.kernels.backends import NAMES
from gendr.kernels.operator import Operator
from gendr.kernels.through_cpu import goes_through_cpu
from gendr.sorting.backends.choice import kernels_for
from gendr.sorting.backends.isotonic import ISOTONIC, RANKS, VALUES
from gendr.sorting.base import Sort, of_rows

Regularization: TypeAlias = Literal["l2", "entropic"]
REGULARIZATIONS = ("l2", "entropic")


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

    The projection is computed by kernels, in float64 inside: on the CPU by all threads over the
    rows of the batch; on a GPU by one program for each row, which merges halves of it, in O(log^2
    n) steps each. Where there are none for a device, tensors go to the CPU and back, as a warning
    says once, and so do gradients. `torch.compile` breaks its graph here; inside transforms of
    `torch.func`, and as the backend "reference", plain torch computes it, in O(n^2) memory.

    Descending order: values are -values(-x), ranks are ranks(-x). With "l2" these are the flipped
    values, and n + 1 - ranks; with "entropic" they are not, since the divergence is not symmetric.

    Args:
        steepness: see above.
        regularization: "l2" or "entropic".
        backend: "auto", or a name of `gendr.backends("sorting")`.

    Raises:
        ValueError: for another regularisation or backend.

    Source: Blondel, Teboul, Berthet, Djolonga, Fast Differentiable Sorting and Ranking, 2020; its
    epsilon is 1 / steepness. Entropic ranks are those of the authors' code, in the permutahedron of
    rho; the paper's definition projects onto that of exp(rho) and takes the logarithm.
    """

    name: ClassVar[str] = "permutahedron"

    regularization: Regularization = "l2"
    backend: str = "auto"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("backend", self.backend, ("auto", *NAMES))
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
            return torch.compiler.disable(FastSort._computed)(self, operator, x)  # pyright: ignore[reportCallIssue]
        return self._computed(operator, x)

    def _computed(self, operator: Operator, x: Tensor) -> Tensor:
        steepness = self.steepness
        if isinstance(steepness, Tensor) and steepness.numel() != 1:
            return self._by_rows(operator, x, steepness)
        if isinstance(steepness, Tensor):
            steepness = steepness.reshape(()).to(x.device)
        entropic = self.regularization == "entropic"
        what = "the projection onto the permutahedron"
        return _by_kernels(operator, what, self.backend, entropic, x, steepness)

    def _by_rows(self, operator: Operator, x: Tensor, steepness: Tensor) -> Tensor:
        """As `_computed`, with a steepness for each row."""
        keys, _, _ = of_rows(x, steepness)  # also checks the shape
        if operator is RANKS:
            return replace(self, steepness=1.0)._computed(operator, keys)
        if self.regularization == "l2":  # x and the steepness scale together
            keys, _, factor = of_rows(x, 1 / steepness)
            return replace(self, steepness=1.0)._computed(operator, keys) / factor
        each = steepness.expand(x.shape[:-1]).reshape(-1)
        rows = zip(x.reshape(len(each), -1), each, strict=True)
        found = [replace(self, steepness=s)._computed(operator, row) for row, s in rows]
        return torch.stack(found).reshape(x.shape)


def isotonic(x: Tensor) -> Tensor:
    """The sequence nearest to x [..., n], float64, that never falls: means of x over its blocks.

    Without kernels for its device it is found on the CPU; inside graphs and transforms in O(n^2)
    memory.

    Source: Best and Chakravarti, Active Set Algorithms for Isotonic Regression, 1990.
    """
    if x.is_meta:
        return x.clone()
    return _by_kernels(ISOTONIC, "isotonic regression", "auto", None, x)


def _by_kernels(
    operator: Operator, what: str, backend: str, spec: Any, x: Tensor, *numbers: Number
) -> Tensor:
    """The operator by the kernels of a backend, or of the CPU if there are none for a GPU.

    Arithmetic is float64, whatever the dtype, so that the device alone decides.
    """
    like = x if x.dtype == torch.float32 else x.new_empty(0, dtype=torch.float32)
    kernels = kernels_for(operator.name, like, backend)
    if kernels is None and backend == "auto" and goes_through_cpu(what, x):
        numbers = tuple(n.cpu() if isinstance(n, Tensor) else n for n in numbers)
        kernels = kernels_for(operator.name, like.cpu())
        return operator(kernels, spec, x.cpu(), *numbers).to(x.device)
    return operator(kernels, spec, x, *numbers)
