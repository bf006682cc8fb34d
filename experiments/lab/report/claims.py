"""What the papers say of the family, held against a grid of all its renderers.

What is compared is compared pair by pair: two laws with the same T-conorm, two T-conorms with the
same law. The error of a mean of such differences is their standard deviation over the square root
of their number: how much the choice of the other half of the renderer matters. Where a grid has
several scenes, how much the scenes disagree is added to it, see `mean`. A grid with one scene does
not say how its numbers would change with another object or another elevation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.report.details import TWICE
from lab.report.qualities import Grid, canonical
from lab.report.summary import TOP_SHARE
from lab.report.words import short

HALVES = ("plain", "squared")
SYMMETRIC = (
    *("uniform", "cubic_hermite", "wigner_semicircle", "gaussian", "laplace", "logistic"),
    *("hyperbolic_secant", "cauchy", "reciprocal"),
)
TAILS = {
    "finite": SYMMETRIC[:3],
    "exponential": SYMMETRIC[3:7],
    "linear": SYMMETRIC[7:],
    "Levy, all four": ("levy", "levy.reversed", "levy.centred", "levy.reversed.centred"),
}
# The law whose tail points outwards beside its mirror image, whose tail points inwards.
MIRRORED = (
    ("gumbel_min", "gumbel_max"),
    ("exponential.reversed", "exponential"),
    ("gamma(shape=0.5).reversed", "gamma(shape=0.5)"),
    ("gamma(shape=2.0).reversed", "gamma(shape=2.0)"),
)


def _variants(*laws: str) -> tuple[str, ...]:
    ends = ("", ".reversed", ".centred", ".reversed.centred")
    return tuple(law + end for law in laws for end in ends)


# Gamma, and the other laws that are not symmetric.
GAMMA = _variants("gamma(shape=0.5)", "gamma(shape=2.0)")
ASYMMETRIC = (("gumbel_min", "gumbel_max"), _variants("exponential"), _variants("levy"))
# What the thesis puts first, and what next, among the T-conorms of the best tenth.
FIRST = ("yager(p=2)", "dombi(p=0.5)")
NEXT = ("probabilistic", "einstein")
EXTREME = (
    *("yager(p=4)", "aczel_alsina(p=2)", "aczel_alsina(p=4)", "dombi(p=2)", "dombi(p=4)"),
    *("schweizer_sklar(p=-2)", "schweizer_sklar(p=-4)"),
)
WHERE = {"shape": "thesis 5.4.1", "pose": "thesis 5.4.2: as for shapes"}


@dataclass(frozen=True)
class Part:
    """A number that a claim says is above a limit.

    Attributes:
        text: what is counted.
        value: the number.
        error: its standard error, 0 of a count.
        limit: what it is compared with.
        digits: after the point.
    """

    text: str
    value: float
    error: float
    limit: float = 0.0
    digits: int = 3

    @property
    def sign(self) -> int:
        """1 if the number is above the limit by more than two errors, -1 if below, else 0."""
        away = self.value - self.limit
        return 0 if abs(away) <= 2 * self.error else int(np.sign(away))

    def __str__(self) -> str:
        error = f" ± {self.error:.{self.digits}f}" if self.error else ""
        plus = "+" if self.limit == 0 and self.digits else ""
        return f"{self.text} {self.value:{plus}.{self.digits}f}{error}".replace(" -", " −")


@dataclass(frozen=True)
class Claim:
    """A sentence of the papers, and the numbers that it makes a statement about."""

    claim: str
    task: str
    parts: tuple[Part, ...]
    where: str = ""

    @property
    def verdict(self) -> str:
        """Yes or no if all parts say so; without parts, "not tested"."""
        signs = {part.sign for part in self.parts}
        if not signs:
            return "not tested"
        return "yes" if signs == {1} else "no" if signs == {-1} else "partly"

    def row(self) -> tuple[str, str, str, str, str]:
        """A row of the table."""
        numbers = "; ".join(map(str, self.parts)) or "the grid has no such number"
        return (
            self.claim, self.where or WHERE[self.task], self.task, numbers, f"**{self.verdict}**"
        )  # fmt: skip


def mean(text: str, values: NDArray[np.float64]) -> Part:
    """The mean of differences and its standard error.

    Args:
        text: What differs.
        values: [scenes, partners, draws]. The error has a part for the partners, what the renderers
            that are compared are joined with, and one for the scenes: how much several of them
            disagree, but not less than what their draws, such as pairs of poses, leave open. Few
            scenes can agree by chance.
    """
    scenes, partners, draws = values.shape
    spread = float(values.mean((0, 2)).var(ddof=1)) / partners
    between = float(values.mean((1, 2)).var(ddof=1)) / scenes if scenes > 1 else 0.0
    within = values.mean(1).var(1, ddof=1).sum() / draws / scenes**2 if draws > 1 else 0.0
    return Part(text, float(values.mean()), math.sqrt(spread + max(between, float(within))))


def lead(text: str, counts: NDArray[np.int64], mine: int) -> Part:
    """By how many places one member leads the best other one, counted over what it is joined with.

    Args:
        text: What is counted.
        counts: [members, partners], 1 where a renderer is in the best tenth.
        mine: The member.
    """
    others = np.delete(counts, mine, 0)
    best = others[others.sum(1).argmax()]
    ahead = counts[mine] - best
    error = float(ahead.std(ddof=1) * math.sqrt(ahead.size))
    said = f"{text} {counts[mine].sum()}, the most of any other {best.sum()}: difference"
    return Part(said, float(ahead.sum()), error, digits=1)


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """Spearman's rank correlation of two arrays, and its jackknife error over their first axis."""
    from scipy.stats import spearmanr

    def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        return float(np.asarray(spearmanr(x.ravel(), y.ravel()))[0])

    left = [correlation(np.delete(a, i, 0), np.delete(b, i, 0)) for i in range(len(a))]
    return correlation(a, b), math.sqrt((len(a) - 1) * float(np.var(left)))


def claims(
    grid: Grid,
    average: NDArray[np.float64] | None = None,
    rates: tuple[int, int] | None = None,
) -> list[Claim]:
    """What the thesis says of a task, held against the grid.

    Claims that a grid with some of the T-conorms cannot decide have no parts there.

    Args:
        grid: Of one task.
        average: Qualities of the 27 plain laws with the mean in place of a T-conorm,
            [scenes, laws, draws].
        rates: How many renderers are best at the learning rate 10^-1.5, and of how many, where
            several rates were tried.
    """
    task, out = grid.task, list[Claim]()

    def say(claim: str, *parts: Part) -> None:
        out.append(Claim(claim, task, parts))

    def halves(part: Callable[[int], Part]) -> tuple[Part, Part]:
        return part(0), part(1)

    # Distributions. The thesis speaks of tails in the plain half: squared, they are others.
    gain = (grid.draws[:, 0] - grid.draws[:, 1])[:, :, grid.distinct]
    linear = [grid.laws.index(name) for name in TAILS["linear"]]
    rest = np.delete(gain.mean((0, 2, 3)), linear)
    count = f"plain ahead of squared, of the {rest.size} others ({rest.size / 2:g} by chance):"
    say(
        "plain typically better than squared, but for cauchy and reciprocal",
        # The error is that of as many tosses of a coin.
        Part(count, int((rest > 0).sum()), math.sqrt(rest.size) / 2, rest.size / 2, digits=1),
        *(mean(f"squared − plain, {name}", -gain[:, grid.laws.index(name)])
          for name in TAILS["linear"]),
    )  # fmt: skip
    fast, slow = grid.law(0, *TAILS["exponential"]), grid.law(0, *TAILS["linear"])
    say("exponential tails better than linear ones", mean("plain", fast - slow))
    finite = grid.law(0, *TAILS["finite"])
    say("finite supports not very good: below exponential tails", mean("plain", fast - finite))
    say(
        "the Levy laws worse than linear tails",
        *(mean(f"linear − {short(name)}", slow - grid.law(0, name))
          for name in TAILS["Levy, all four"]),
    )  # fmt: skip
    say(
        "gumbel_min and the reversed laws better than their mirror images",
        *(mean(short(good), grid.law(0, good) - grid.law(0, poor)) for good, poor in MIRRORED),
    )
    levy = TAILS["Levy, all four"]
    say(
        "the Levy laws slightly better squared",
        mean("squared − plain", grid.law(1, *levy) - grid.law(0, *levy)),
    )
    say(
        "the Levy laws squared still worse than linear tails",
        mean("plain linear − squared Levy", slow - grid.law(1, *levy)),
    )

    def best_of(laws: Sequence[str]) -> str:
        return max(laws, key=lambda law: grid.law(0, law).mean())

    gamma, rivals = best_of(GAMMA), [best_of(laws) for laws in ASYMMETRIC]
    say(
        "of the asymmetric laws gamma the best: the best gamma law above the best of each other",
        *(mean(f"{short(gamma)} − {short(law)}", grid.law(0, gamma) - grid.law(0, law))
          for law in rivals),
    )  # fmt: skip
    whole = grid.is_whole
    names = [grid.conorms[j] for j in grid.distinct]
    tenth = [grid.best_tenth(half).astype(int) for half in (0, 1)]
    mine = grid.laws.index("gamma(shape=0.5).reversed")
    say(
        "gamma(0.5) reversed most often in the best tenth",
        *(halves(lambda h: lead(HALVES[h], tenth[h], mine)) if whole else ()),
    )

    # T-conorms. Two are said to be the first and two the next: no one is held against its equal.
    rest = [j for j, name in enumerate(names) if name not in (*FIRST, *NEXT)]
    others = {
        **{name: [j for j, other in enumerate(names) if other not in FIRST] for name in FIRST},
        **dict.fromkeys(NEXT, rest),
    }

    def beside(half: int, name: str, text: str = "") -> Part:
        counts = tenth[half].T[[names.index(name), *others[name]]]
        return lead(HALVES[half] + text, counts, 0)

    for name in FIRST:
        say(
            f"yager 2 and dombi 0.5 most often in the best tenth: {short(name, conorm=True)}",
            *(halves(lambda h, name=name: beside(h, name)) if whole else ()),
        )
    say(
        "next most often in the best tenth: probabilistic and einstein",
        *([beside(h, name, f", {name}") for h in (0, 1) for name in NEXT] if whole else ()),
    )
    say("probabilistic and einstein alike", *(halves(lambda h: alike(grid, h)) if whole else ()))
    usual = [c for c in grid.conorms if c not in (*EXTREME, *TWICE, "max")]
    extreme = [canonical(c) for c in EXTREME if canonical(c) in grid.conorms]

    def behind_usual(*names: str) -> tuple[Part, ...]:
        if not usual or not names or any(name not in grid.conorms for name in names):
            return ()
        return halves(lambda h: mean(HALVES[h], grid.conorm(h, *usual) - grid.conorm(h, *names)))

    say("max poor", *behind_usual("max"))
    if average is not None:
        say("average poor", mean("plain", grid.conorm(0, *usual) - average))
    say(
        "the extreme T-conorms poor (yager 4, aczel_alsina 2 and 4, dombi 2 and 4, "
        "schweizer_sklar −2 and −4)",
        *behind_usual(*extreme),
        *(halves(lambda h: share(HALVES[h], grid, tenth[h])) if whole else ()),
    )
    reach = [good for good, _ in MIRRORED[1:]]
    columns = [grid.conorms.index(c) for c in extreme]

    def with_extreme(half: int) -> Part:
        values = grid.draws[:, half][:, :, columns]
        own = values[:, [grid.laws.index(name) for name in reach]].mean(1)
        others = values[:, [grid.laws.index(name) for name in SYMMETRIC]].mean(1)
        return mean(HALVES[half], own - others)

    say(
        "reversed gamma and exponential good with the extreme T-conorms too: above the nine "
        "symmetric laws",
        *(halves(with_extreme) if len(columns) > 1 else ()),
    )
    if task == "shape":
        share_of = () if rates is None else (almost_all(*rates),)
        say("the rate 10^−1.5 best in almost all cases", *share_of)
        say("extreme scales never optimal", *halves(lambda h: ends(grid, h)))
    return out


def almost_all(count: int, of: int) -> Part:
    """The share beside nine in ten; its error is that of as many independent draws."""
    part = count / of
    error = math.sqrt(max(part * (1 - part), 0.25 / of) / of)
    text = f"plain and squared: share of {of} renderers that are best with it (almost all: 0.9)"
    return Part(text, part, error, limit=0.9)


def share(half: str, grid: Grid, tenth: NDArray[np.int64]) -> Part:
    """By how many places the extreme T-conorms hold less of the best tenth than their share."""
    places = int(tenth.sum())
    names = [grid.conorms[j] for j in grid.distinct]
    theirs = int(tenth[:, [names.index(canonical(c)) for c in EXTREME]].sum())
    part = len(EXTREME) / len(names)
    error = math.sqrt(places * part * (1 - part))
    text = f"{half}, places in the best tenth {theirs} of {places}: below their share by"
    return Part(text, part * places - theirs, error, digits=1)


def alike(grid: Grid, half: int) -> Part:
    """How many pairs of T-conorms differ less than probabilistic and einstein do."""
    names = [c for c in grid.conorms if c not in TWICE]
    gap = {
        (a, b): float(np.abs((grid.conorm(half, a) - grid.conorm(half, b)).mean((0, 2))).mean())
        for i, a in enumerate(names)
        for b in names[:i]
    }
    mine = gap["einstein", "probabilistic"]
    closer = sum(other < mine for other in gap.values())
    least = (1 - TOP_SHARE) * len(gap)
    text = (
        f"{HALVES[half]}: mean difference {mine:.3f}; pairs, of {len(gap)}, that differ more "
        f"(alike: above {least:.0f}):"
    )
    return Part(text, len(gap) - 1 - closer, 0, limit=least, digits=0)


def ends(grid: Grid, half: int) -> Part:
    """How many best scales lie at the ends of the searched range: 0, says the claim."""
    (low, high), found = grid.limits[half], np.log10(grid.scale[half][:, grid.distinct])
    count = int(((found >= high - 1e-6) | (found <= low + 1e-6)).sum())
    text = f"{HALVES[half]}: best scales, of {found.size}, not at an end of the range:"
    return Part(text, found.size - count, 0, limit=found.size - 0.5, digits=0)


def together(shape: Grid, pose: Grid) -> list[Claim]:
    """What the thesis says about both tasks; "similar" is a rank correlation above one half."""
    parts = [
        Part(f"rank correlation, {HALVES[half]} (similar: above 0.5)", *found, limit=0.5, digits=2)
        for half in (0, 1)
        for found in [
            rank_correlation(*(grid.quality[half][:, grid.distinct] for grid in (shape, pose)))
        ]
    ]
    return [
        Claim("the results for poses are similar to those for shapes", "pose", tuple(parts)),
        Claim("uniform best on average", "reconstruction", (), "GenDR, abstract"),
        Claim("logistic squared second best on average", "reconstruction", (), "thesis, Fig. 5.6"),
    ]
