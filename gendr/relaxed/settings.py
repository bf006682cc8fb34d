"""How decisions are taken: the scale, the distribution, the T-norm, and where loops end.

Every decision asks `current()`, so that a program passes nothing along. `smoothing` sets it for a
block; a program sets it for its run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_number
from gendr._common.names import unknown
from gendr._common.tracing import all_hold, is_traced
from gendr._common.words import worded
from gendr.distributions import Distribution, Heaviside, Logistic
from gendr.distributions.decisions import Number
from gendr.distributions.registry import DistributionLike, as_distribution
from gendr.relaxed.execution import Execution, Merged, Path, Trajectories, as_execution
from gendr.relaxed.slopes import Watched, clipped, watched
from gendr.tnorms import Probabilistic, TConorm, TNorm, as_tconorm

Scale: TypeAlias = "Number | Mapping[str, Number]"
DistLike: TypeAlias = "DistributionLike | Mapping[str, DistributionLike]"
TConormLike: TypeAlias = "str | TNorm | TConorm"
T = TypeVar("T")

# The key of a mapping for decisions without a name, or with one that the mapping does not have.
DEFAULT = "default"
# 1 / scale at most: a larger one times a difference would overflow in float32.
STEEPEST = 1e30
# Where a loop must have ended if nobody said how long it may be.
PATIENCE = 1000
TRACED = 100  # as many, of a loop that is compiled
# Whether the backward pass knows that the sum of the coefficients of a place depends on the place.
DIFFERENTIATED, CONSTANT = "differentiated", "constant"


@dataclass(frozen=True, eq=False)
class Rule:
    """How one decision is taken.

    Attributes:
        scale: of the noise, > 0; a number or a tensor that broadcasts with the batch.
        dist: its distribution.
        tconorm: the 'or' of probabilities; the 'and' is its dual.
        clip: the bound of the gradient that it passes back; inf for none.
        normaliser: of a real-valued place, as in `smoothing`.
        trajectories: where it is taken; None if it stays a probability.
        watched: where its gradients are noted; None if nobody looks.
    """

    scale: Number = 1.0
    dist: Distribution = field(default_factory=Logistic)
    tconorm: TConorm = field(default_factory=Probabilistic)
    clip: float = math.inf
    normaliser: str = DIFFERENTIATED
    trajectories: Trajectories | None = None
    watched: list[Watched] | None = None

    logistic: bool = field(init=False)  # its CDF and softmax are operations of torch
    hard: bool = field(init=False)  # heaviside: decisions as Python takes them
    product: bool = field(init=False)
    plain: bool = field(init=False)  # nothing but a probability

    def __post_init__(self) -> None:
        self.__dict__.update(
            plain=self.clip == math.inf and self.trajectories is None and self.watched is None,
            logistic=isinstance(self.dist, Logistic),
            hard=isinstance(self.dist, Heaviside),
            product=isinstance(self.tconorm, Probabilistic),
        )

    def over(self, x: Tensor, dims: int = 0) -> Tensor:
        """Return x / scale, where x has `dims` dimensions after those of the batch."""
        if isinstance(self.scale, Tensor):
            return x / self.widened(dims)
        return x if self.scale == 1 else x * min(1 / self.scale, STEEPEST)

    def widened(self, dims: int) -> Number:
        """The scale for values with `dims` dimensions after those of the batch."""
        if isinstance(self.scale, Tensor) and self.scale.ndim and dims:
            return self.scale[(..., *(None,) * dims)]
        return self.scale

    def taken(
        self,
        x: Tensor,
        probability: Callable[..., Tensor],
        *more: Any,
        dims: int = 0,
        among: bool = False,
    ) -> Tensor:
        """The probabilities of decisions about x, or in trajectories the decisions: 0 or 1.

        Args:
            x: what is compared.
            probability: from x, and `more`, to [*batch, ...].
            more: its other arguments.
            dims: how many dimensions of the result are its own.
            among: whether it is one decision among the members of the last of them.
        """
        if self.plain:
            return probability(x, *more)
        inside = clipped(x, self.clip)
        p = probability(inside, *more)
        if self.watched is not None:
            p = watched(self.watched, inside, p)
        if self.trajectories is not None:
            return self.trajectories.choose(p) if among else self.trajectories.decide(p, dims)
        return p

    def cdf(self, x: Tensor, strict: bool = True, dims: int = 0) -> Tensor:
        """The probability that x > 0 under noise; `strict` matters at x = 0 of a hard decision."""
        p = self.taken(x, self._cdf, strict, dims, dims=dims)
        if not (self.hard or dims):
            plain, bits = x.detach(), p.detach()
            with_ties(p, lambda: torch.where(plain == 0, 0.0 if strict else 1.0, bits))
        return p

    def _cdf(self, x: Tensor, strict: bool, dims: int) -> Tensor:
        if self.logistic:
            return torch.sigmoid(self.over(x, dims))
        if self.hard:
            return (x > 0 if strict else x >= 0).to(x.dtype)
        return self.dist(x, self.widened(dims))

    def peak(self, x: Tensor, dims: int = 0) -> Tensor:
        """The density at x over its peak, which is at 0: 1 there, and never overflows.

        Raises:
            ValueError: the distribution has its peak elsewhere.
        """
        return self.taken(x, self._peak, dims, dims=dims)

    def _peak(self, x: Tensor, dims: int) -> Tensor:
        if self.hard:
            return (x == 0).to(x.dtype)
        z = self.over(x, dims)
        if self.logistic:
            return 4 * (torch.sigmoid(z) * torch.sigmoid(-z))
        check_peak(self.dist)
        return self.dist.pdf(z) / self.dist.pdf(torch.zeros((), dtype=z.dtype, device=z.device))


@dataclass(frozen=True, eq=False)
class Settings:
    """What the decisions of a run share.

    Attributes:
        scale, dist: one for all decisions, or by the names of decisions, with a "default".
        tconorm: the 'or'; its dual T-norm is the 'and'.
        tolerance: a loop ends when it goes on with a probability of at most this.
        max_iterations: the bound of loops; None for an error where they do not end.
        clip: the bound of the gradient that a decision passes back, or by names as the scale.
        normaliser: of a real-valued place.
        execution: what becomes of paths.
        batch: the shape of the batch.
        dtype: of numbers that become tensors.
        device: theirs.
        running: whether a program runs.
        hard: whether it runs as plain Python.
        used: the names of decisions that were taken.
        path: the decisions around the place where the program is.
        active: the programs that run, with the length of the path at their start.
        trajectories: where decisions are taken; None if they stay probabilities.
        watched: where gradients are noted; None if nobody looks.
    """

    scale: Scale = 1.0
    dist: Distribution | Mapping[str, Distribution] = field(default_factory=Logistic)
    tconorm: TConorm = field(default_factory=Probabilistic)
    tolerance: float = 1e-8
    max_iterations: int | None = None
    clip: float | Mapping[str, float] = math.inf
    normaliser: str = DIFFERENTIATED
    execution: Execution = field(default_factory=Merged)
    batch: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    running: bool = False
    hard: bool = False
    used: set[str] = field(default_factory=set)
    path: Path = field(default_factory=list)
    active: list[tuple[object, int]] = field(default_factory=list)
    trajectories: Trajectories | None = None
    watched: list[Watched] | None = None
    _rules: dict[str | None, Rule] = field(default_factory=dict)

    def rule(self, name: str | None = None) -> Rule:
        """How the decision with this name is taken."""
        if name is not None:
            self.used.add(name)
        rule = self._rules.get(name)
        if rule is None:
            scale, dist = _pick(self.scale, name, "scale"), _pick(self.dist, name, "dist")
            clip = _pick(self.clip, name, "clip")
            rule = self._rules[name] = Rule(
                scale, dist, self.tconorm, clip, self.normaliser, self.trajectories, self.watched
            )
        return rule

    def changed(self, **changes: Any) -> Settings:
        """These settings with others in place of some; None leaves one as it is."""
        given = {key: _CHECKS[key](x) for key, x in changes.items() if x is not None}
        return replace(self, **given, _rules={})


def _pick(value: T | Mapping[str, T], name: str | None, what: str) -> T:
    """The member of a mapping for a decision."""
    if not isinstance(value, Mapping):
        return value
    for key in (name, DEFAULT):
        if key is not None and key in value:
            return value[key]
    decision = "a decision without a name" if name is None else f"the decision {name!r}"
    raise ValueError(
        f"{what} has no entry for {decision}, only for {', '.join(map(repr, value))}; "
        f"add it, or {DEFAULT!r} for all others"
    )


def check_scale(name: str, value: Any) -> Number:
    """Return `value` if it is a positive number or a floating tensor of positive numbers.

    Raises:
        TypeError: it is neither.
        ValueError: it is not positive.
    """
    if not isinstance(value, Tensor):
        return check_number(name, value, above=0)
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a number or a floating tensor, got {value.dtype}")
    if not all_hold(value > 0):
        raise ValueError(f"{name} must be > 0, got a tensor with minimum {value.min().item():g}")
    return value


def _each(check: Callable[[str, Any], Any], name: str) -> Callable[[Any], Any]:
    """A check of a value, or of the values of a mapping from the names of decisions."""

    def checked(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return check(name, value)
        return {key: check(f"{name}[{key!r}]", x) for key, x in value.items()}

    return checked


def _bound(name: str, value: Any) -> float:
    """A positive number, or infinity."""
    return math.inf if value == math.inf else check_number(name, value, above=0)


def _tconorm(value: Any) -> TConorm:
    return value.dual if isinstance(value, TNorm) else as_tconorm(value)


# What a user may set -> a function that returns the value, or raises TypeError or ValueError.
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "scale": _each(check_scale, "scale"),
    "dist": _each(lambda _, value: as_distribution(value), "dist"),
    "tconorm": _tconorm,
    "tolerance": partial(check_number, "tolerance", below=1.0),
    "max_iterations": partial(check_count, "max_iterations", least=0),
    "clip": _each(_bound, "clip"),
    "normaliser": lambda value: check_choice("normaliser", value, (DIFFERENTIATED, CONSTANT)),
    "execution": as_execution,
}


def check_names(settings: Settings, known: tuple[str, ...]) -> None:
    """Look for a scale or a distribution of a decision that neither ran nor stands in the program.

    Raises:
        ValueError: there is one.
    """
    allowed = {*known, *settings.used, DEFAULT}
    for what in ("scale", "dist", "clip"):
        value = getattr(settings, what)
        for name in value if isinstance(value, Mapping) else ():
            if name not in allowed:
                raise ValueError(unknown(f"decision in {what}", name, allowed))


@lru_cache(maxsize=256)
def check_peak(dist: Distribution) -> None:
    """Look whether the density of a distribution has its peak at 0.

    Raises:
        ValueError: it has not, so that a value would not be most like itself.
    """
    q = torch.linspace(1e-3, 1 - 1e-3, 999, dtype=torch.float64, device="cpu")
    with torch.no_grad():
        z = dist.icdf(q)
        top = dist.pdf(z[torch.isfinite(z)]).max()
        middle = dist.pdf(q.new_zeros(()))
    if not (0 < middle < math.inf and bool(top <= middle * (1 + 1e-6))):
        raise ValueError(
            "== and a real-valued index need a distribution whose density peaks at 0, such as "
            f"logistic, gaussian or cauchy, got {dist}"
        )


def with_ties(p: Tensor, sure: Callable[[], Tensor]) -> Tensor:
    """P, of which `at_ties` knows what the hard program decides where its comparison is a tie."""
    p._at_ties = sure  # pyright: ignore[reportAttributeAccessIssue]
    return p


def at_ties(p: Any) -> Any:
    """A probability, with the decision of the hard program, 0 or 1, in place of ties."""
    sure: Callable[[], Tensor] | None = getattr(p, "_at_ties", None)
    return p if sure is None else sure()


def doubtful_of(path: Path) -> Tensor | None:
    """Whether an item is where the program is, or not, other than the hard one at a tie; or None.

    There a slope counts only if it is finite.
    """
    found: Tensor | None = None
    for p, true in path:
        sure = at_ties(p)
        if sure is not p:
            end = 0 if true else 1
            away = (sure == end) != (p.detach() == end)
            found = away if found is None else found | away
    if found is None or not (is_traced() or found.is_cuda or bool(found.any())):
        return None
    return found


def reached_of(path: Path) -> Tensor | None:
    """Whether each item of the batch comes to where the program is; None if all of them do."""
    away: Tensor | None = None
    for p, true in path:
        end = 0 if true else 1
        gone = (p.detach() == end) & (at_ties(p) == end)
        away = gone if away is None else away | gone
    if away is None or not (is_traced() or away.is_cuda or bool(away.any())):
        return None
    return ~away


def within(p: Any, true: bool, function: Callable[[], Any]) -> Any:
    """What a function gives where a decision of probability p is `true`."""
    settings = _CURRENT.get()
    if not (settings.running and isinstance(p, Tensor)):
        return function()
    length = len(settings.path)
    settings.path.append((p, true))
    try:
        return function()
    finally:
        del settings.path[length:]


_CURRENT: ContextVar[Settings] = ContextVar("gendr.relaxed", default=Settings())  # noqa: B039  # frozen
current = _CURRENT.get


@contextmanager
def entered(settings: Settings) -> Generator[Settings]:
    """Let decisions follow these settings inside the block."""
    token = _CURRENT.set(settings)
    try:
        yield settings
    finally:
        _CURRENT.reset(token)


@worded()
@contextmanager
def smoothing(
    scale: Scale | None = None,
    dist: DistLike | None = None,
    tconorm: TConormLike | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    clip: float | Mapping[str, float] | None = None,
    normaliser: Literal["differentiated", "constant"] | None = None,
) -> Generator[Settings]:
    """How decisions of the functional form are taken inside a block; what is left out stays.

    >>> with relaxed.smoothing(scale=0.1, dist="cauchy"):
    ...     p = relaxed.less(a, b)

    Args:
        scale: of the noise, in units of what is compared; > 0. A number, a tensor that broadcasts
            with the batch (learnable if it requires a gradient), or a mapping from the names of
            decisions to these, with "default" for all others. At first 1.
        dist: its distribution, or a mapping as for the scale. At first "logistic".
        tconorm: the 'or', by its name or as an object; 'and' is its dual. At first "probabilistic".
            It may be called `tnorm` too: a name is that of the pair.
        tolerance: a loop ends when it goes on with at most this probability. At first 1e-8.
        max_iterations: how often a loop runs at most; what is left of the probability goes to the
            last state. At first, a relaxed loop that has not ended after 1000 is an error.
        clip: the gradient that a decision passes back to what it compares is cut to [-clip, clip],
            number by number; > 0, or a mapping as for the scale. At first inf: no bound.
        normaliser: of a real-valued place, whose coefficients are divided by their sum.
            "differentiated", at first: gradients are derivatives. "constant": the backward pass
            takes the sum for a constant, as published (thesis 2.2.2); this is no derivative.

    Raises:
        TypeError, ValueError: a setting that is none.
    """
    given = dict(
        scale=scale, dist=dist, tconorm=tconorm, tolerance=tolerance, max_iterations=max_iterations,
        clip=clip, normaliser=normaliser,
    )  # fmt: skip
    with entered(current().changed(**given)) as settings:
        yield settings


def smooth(name: str, value: T) -> T:
    """Give the decisions inside an expression of a program a name, by which they get their scale.

    >>> @gendr.relax
    ... def clipped(x, low, high):
    ...     if smooth("floor", x < low):
    ...         return low
    ...     return high if smooth("ceiling", x > high) else x
    >>> clipped(x, 0.0, 1.0, scale={"floor": 0.1, "ceiling": 0.2})

    Around an index, `x[smooth("place", i)]`, it names the indexing. In plain Python it returns
    the value.
    """
    return value
