"""What the thesis says of the family, held against a grid of all its renderers.

Distributions are compared by their means over the T-conorms, T-conorms by their means over the
distributions of a half; both are all that the family has. Scenes are a sample. The error of a
comparison is found in two ways: by a mixed model, which takes scenes to move all distributions (or
all T-conorms) equally much, so that it has many degrees of freedom; and from the comparison alone,
by Welch and Satterthwaite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.report.details import TWICE
from lab.report.inference import Crossed, Effect, benjamini_hochberg, welch
from lab.report.qualities import Grid, canonical
from lab.report.words import short
from lab.studies.ten import DISTRIBUTIONS, FAR

HALVES = ("plain", "squared")
TAILS = {
    "finite": DISTRIBUTIONS[:3],
    "exponential": DISTRIBUTIONS[3:7],
    "linear": FAR,
    "Levy, all four": ("levy", "levy.reversed", "levy.centred", "levy.reversed.centred"),
}
# The distribution whose tail points outwards beside its mirror image, whose tail points inwards.
MIRRORED = (
    ("gumbel_min", "gumbel_max"),
    ("exponential.reversed", "exponential"),
    ("gamma(shape=0.5).reversed", "gamma(shape=0.5)"),
    ("gamma(shape=2.0).reversed", "gamma(shape=2.0)"),
)

EXTREME = (
    *("yager(p=4)", "aczel_alsina(p=2)", "aczel_alsina(p=4)", "dombi(p=2)", "dombi(p=4)"),
    *("schweizer_sklar(p=-2)", "schweizer_sklar(p=-4)"),
)
# Below this adjusted p a part is decided.
LEVEL = 0.05
# A claim on distributions in pose says nothing of distributions if all of them start at one scale.
WIDTH = "width"


@dataclass(frozen=True)
class Part:
    """A number that a claim says is above a limit.

    Attributes:
        text: what is compared.
        pooled: by the mixed model.
        own: from the comparison alone.
        limit: what it is compared with.
    """

    text: str
    pooled: Effect
    own: Effect
    limit: float = 0.0

    @property
    def sign(self) -> int:
        """Of the number beside the limit."""
        return int(np.sign(self.pooled.value - self.limit))


@dataclass(frozen=True)
class Claim:
    """A sentence of the thesis, and the numbers that it makes a statement about.

    Attributes:
        claim: the sentence.
        task: "shape" or "pose".
        parts: see `Part`.
        confounded: whether it compares distributions whose widths differ.
    """

    claim: str
    task: str
    parts: tuple[Part, ...]
    confounded: bool = False


@dataclass(frozen=True)
class Decided:
    """A claim with the adjusted p of its parts, of all claims of its task together.

    Attributes:
        claim: the claim.
        pooled: by the mixed model, one for each part.
        own: from the comparisons alone.
    """

    claim: Claim
    pooled: tuple[float, ...]
    own: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """Yes or no: all parts say so by both errors. Likely (not): by the mixed model alone.

        Mixed: parts that are decided contradict each other. Open: anything else.
        """
        if self.claim.confounded:
            return WIDTH
        signs = [part.sign for part in self.claim.parts]
        sure, likely = (
            {sign for sign, p in zip(signs, each, strict=True) if p < LEVEL}
            for each in (self.own, self.pooled)
        )
        every, all_likely = (all(p < LEVEL for p in each) for each in (self.own, self.pooled))
        if len(likely) == 2:
            return "mixed"
        if every and all_likely and len(sure) == 1:
            return "yes" if sure == {1} else "no"
        if all_likely:
            return "likely" if likely == {1} else "likely not"
        return "open"


def decide(claims: Sequence[Claim]) -> list[Decided]:
    """Adjust the p of all parts, task by task (Benjamini and Hochberg)."""
    found: dict[int, Decided] = {}
    for task in dict.fromkeys(claim.task for claim in claims):
        some = [k for k, claim in enumerate(claims) if claim.task == task and claim.parts]
        parts = [part for k in some for part in claims[k].parts]
        adjusted = [
            iter(benjamini_hochberg([getattr(part, way).p(part.limit) for part in parts]).tolist())
            for way in ("pooled", "own")
        ]
        for k in some:
            ways = (tuple(next(each) for _ in claims[k].parts) for each in adjusted)
            found[k] = Decided(claims[k], *ways)
    return [found[k] for k in sorted(found)]


def compare_distributions(
    grid: Grid,
    text: str,
    better: Iterable[tuple[int, str]],
    worse: Iterable[tuple[int, str]],
    columns: Sequence[int] = (),
) -> Part:
    """One group of distributions less another one.

    Args:
        grid: Of one task.
        text: What is compared.
        better: Distributions of one group, each with its half, 0 plain and 1 squared.
        worse: Those of the other.
        columns: The T-conorms over which means are taken, by default all different ones.
    """
    draws = grid.draws[:, :, :, list(columns) or grid.distinct]
    groups = [list(better), list(worse)]
    halves = sorted({half for group in groups for half, _ in group})
    weights = np.zeros((len(halves), len(grid.dists)))
    difference = 0.0
    for sign, group in zip((1, -1), groups, strict=True):
        for half, dist in group:
            weights[halves.index(half), grid.dists.index(dist)] += sign / len(group)
            difference = difference + sign * draws[:, half, grid.dists.index(dist)] / len(group)
    members = draws[:, halves].mean(3).transpose(1, 2, 0, 3)
    model = Crossed.of(members.reshape(-1, *members.shape[2:]))
    return Part(text, model.contrast(weights.ravel()), welch(np.asarray(difference)))


def compare_conorms(
    grid: Grid, text: str, half: int, better: Sequence[str], worse: Sequence[str],
    average: NDArray[np.float64] | None = None,
) -> Part:  # fmt: skip
    """One group of T-conorms less another one, or less the mean, over the distributions of a half.

    Args:
        grid: Of one task.
        text: What is compared.
        half: 0 for the plain distributions, 1 for the squared ones.
        better: One group.
        worse: The other one; not read if there is an average.
        average: [scenes, distributions, draws], qualities with the mean in place of a T-conorm.
    """
    names = [grid.conorms[j] for j in grid.distinct]
    draws = grid.draws[:, half][:, :, grid.distinct].transpose(2, 0, 1, 3)
    weights = np.zeros(len(names) + (average is not None))
    for name in better:
        weights[names.index(canonical(name))] += 1 / len(better)
    if average is None:
        for name in worse:
            weights[names.index(canonical(name))] -= 1 / len(worse)
    else:
        draws, weights[-1] = np.concatenate([draws, average[None]]), -1.0
    model = Crossed.of(draws.mean(2))
    difference = np.einsum("c,cslx->slx", weights, draws)
    return Part(text, model.contrast(weights), welch(difference))


def claims(
    grid: Grid,
    average: NDArray[np.float64] | None = None,
    rates: Sequence[float] = (),
) -> list[Claim]:
    """What the thesis says of a task, held against the whole grid.

    What counts places in the best tenth is not here: which renderers these are depends on the
    scenes, and a count does not say how much.

    Args:
        grid: Of one task.
        average: Qualities of the 27 plain distributions with the mean in place of a T-conorm,
            [scenes, distributions, draws].
        rates: For each of several scenes the share of renderers that are best at the learning rate
            10^-1.5, where several rates were tried.
    """
    task, out = grid.task, list[Claim]()
    plain = {name: [(0, dist) for dist in dists] for name, dists in TAILS.items()}
    linear, levy = plain["linear"], plain["Levy, all four"]
    others = [dist for dist in grid.dists if dist not in TAILS["linear"]]

    def of_distributions(claim: str, *parts: Part) -> None:
        out.append(Claim(claim, task, parts, confounded=task == "pose"))

    def squared(dists: Iterable[str]) -> list[tuple[int, str]]:
        return [(1, dist) for dist in dists]

    of_distributions(
        "plain better than squared, but for cauchy and reciprocal",
        compare_distributions(
            grid, "plain − squared, the 25 others", [(0, dist) for dist in others], squared(others)
        ),
        *(compare_distributions(grid, f"squared − plain, {dist}", [(1, dist)], [(0, dist)])
          for dist in TAILS["linear"]),
    )  # fmt: skip
    of_distributions(
        "exponential tails better than linear ones",
        compare_distributions(grid, "exponential − linear", plain["exponential"], linear),
    )
    of_distributions(
        "exponential tails better than finite supports",
        compare_distributions(grid, "exponential − finite", plain["exponential"], plain["finite"]),
    )
    of_distributions(
        "the Levy distributions worse than linear tails",
        *(compare_distributions(grid, f"linear − {short(dist)}", linear, [(0, dist)])
          for dist in TAILS["Levy, all four"]),
    )  # fmt: skip
    gumbel, *reversed_distributions = [
        compare_distributions(grid, f"{short(good)} − {short(poor)}", [(0, good)], [(0, poor)])
        for good, poor in MIRRORED
    ]
    of_distributions("gumbel_min better than its mirror image", gumbel)
    of_distributions(
        "reversed distributions better than their mirror images", *reversed_distributions
    )
    levy_squared = squared(TAILS["Levy, all four"])
    of_distributions(
        "the Levy distributions better squared",
        compare_distributions(grid, "Levy squared − Levy plain", levy_squared, levy),
    )
    of_distributions(
        "the Levy distributions squared still worse than linear tails",
        compare_distributions(grid, "plain linear − squared Levy", linear, levy_squared),
    )
    reach = [good for good, _ in MIRRORED[1:]]
    columns = [grid.conorms.index(canonical(name)) for name in EXTREME]
    of_distributions(
        "reversed gamma and exponential above the symmetric distributions with extreme T-conorms",
        *(compare_distributions(grid, f"reversed − symmetric, {word}", [(h, x) for x in reach],
                       [(h, x) for x in DISTRIBUTIONS], columns)
          for h, word in enumerate(HALVES)),
    )  # fmt: skip
    usual = [c for c in grid.conorms if c not in (*map(canonical, EXTREME), *TWICE, "max")]

    def of_conorms(claim: str, name: str, worse: Sequence[str]) -> None:
        parts = (compare_conorms(grid, f"usual − {name}, {word}", h, usual, worse)
                 for h, word in enumerate(HALVES))  # fmt: skip
        out.append(Claim(claim, task, tuple(parts)))

    of_conorms("max worse than the usual T-conorms", "max", ["max"])
    if average is not None:
        part = compare_conorms(grid, "usual − mean, plain", 0, usual, (), average)
        out.append(Claim("the mean worse than the usual T-conorms", task, (part,)))
    of_conorms("extreme T-conorms worse than the usual ones", "extreme", EXTREME)
    if len(rates) > 1:
        share = welch(np.asarray(rates, dtype=float)[:, None, None].repeat(2, 1))
        part = Part("share of renderers that are best with it", share, share, limit=0.9)
        out.append(Claim("the learning rate 10^−1.5 best in nine of ten cases", task, (part,)))
    return out
