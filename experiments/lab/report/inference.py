"""Differences with errors and degrees of freedom, corrections for many tests, shrunken means.

Objects and views are a sample of those that renderers are used for. So an error holds how much they
disagree; with two of them it has about one degree of freedom, and the interval is wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True)
class Effect:
    """A number, its standard error, and the degrees of freedom of the error."""

    value: float
    error: float
    freedom: float = math.inf

    def p(self, limit: float = 0.0, *, above: bool = False) -> float:
        """Of Student's test that the number is the limit: two-sided, or against being above it."""
        from scipy.stats import t

        if not self.error:
            return float(self.value == limit)
        away = (self.value - limit) / self.error
        return float(t.sf(away, self.freedom) if above else 2 * t.sf(abs(away), self.freedom))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The ends of its confidence interval."""
        from scipy.stats import t

        half = float(t.ppf((1 + level) / 2, self.freedom)) * self.error
        return self.value - half, self.value + half

    def text(self, digits: int = 3, sign: str = "+") -> str:
        """Such as "+0.14 [0.02, 0.26]"."""
        low, high = self.interval()
        return (
            f"{self.value:{sign}.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
        ).replace("-", "−")  # fmt: skip


def welch(values: Array) -> Effect:
    """The mean of differences, whose error has a part for partners and one for scenes.

    Args:
        values: [scenes, partners, draws], partners being what is joined with what is compared. The
            part of the scenes is not less than what their draws, such as pairs of poses, leave
            open: few scenes can agree by chance. With one scene and one draw there is no such part,
            and the number is about this scene.

    Returns:
        With the degrees of freedom of Welch and Satterthwaite.
    """
    scenes, partners, draws = values.shape
    parts = [(float(values.mean((0, 2)).var(ddof=1)) / partners, partners - 1)]
    of_scenes = [(0.0, 1)]
    if scenes > 1:
        of_scenes.append((float(values.mean((1, 2)).var(ddof=1)) / scenes, scenes - 1))
    if draws > 1:
        within = values.mean(1).var(1, ddof=1).sum() / draws / scenes**2
        of_scenes.append((float(within), scenes * (draws - 1)))
    parts.append(max(of_scenes))
    total = sum(v for v, _ in parts)
    rest = sum(v**2 / freedom for v, freedom in parts)
    return Effect(float(values.mean()), math.sqrt(total), total**2 / rest if rest else math.inf)


@dataclass(frozen=True, eq=False)
class Crossed:
    """A mixed model of treatments on scenes: treatments fixed, scenes and their effects random.

    Its closed form for a balanced design (Searle, Casella, McCulloch, Variance Components, 1992,
    section 4.4). It takes the effects of scenes on all treatments to be equally large.

    Attributes:
        means: [treatments].
        error: The standard error of a mean beside another one; a difference has √2 times it.
        freedom: Its degrees of freedom.
        ratio: F, by which the means vary more than by the disagreement of scenes alone.
        freedoms: those of F.
        of_scene: What the effect of a treatment varies by from scene to scene, a standard
            deviation; 0 where that is not more than what draws vary by.
        of_draw: What a treatment varies by from draw to draw; NaN with one draw.
    """

    means: Array
    error: float
    freedom: int
    ratio: float
    freedoms: tuple[int, int]
    of_scene: float
    of_draw: float

    @staticmethod
    def of(values: Array) -> Crossed:
        """The model of [treatments, scenes, draws]; a draw of a scene is the same for all.

        The error is not less than what the draws, such as pairs of poses, leave open.
        """
        treatments, scenes, draws = values.shape
        by_scene = values.mean(2)
        means = by_scene.mean(1)
        crossed = by_scene - by_scene.mean(0) - means[:, None] + means.mean()
        freedom = (treatments - 1) * (scenes - 1)
        square = float((crossed**2).sum()) / freedom
        ratio = scenes * float(means.var(ddof=1)) / square
        freedoms = treatments - 1, freedom
        own, within = square, math.nan
        if draws > 1:
            rest = values - by_scene[..., None]
            rest = rest - rest.mean(0)
            others = (treatments - 1) * scenes * (draws - 1)
            within = float((rest**2).sum()) / others / draws
            square, freedom = max((square, freedom), (within, others))
            own = max(own - within, 0.0)
        return Crossed(
            means, math.sqrt(square / scenes), freedom, ratio, freedoms, math.sqrt(own),
            math.sqrt(within * draws),
        )  # fmt: skip

    def contrast(self, weights: Array) -> Effect:
        """A sum of means with weights that add up to 0."""
        error = float(np.sqrt((weights**2).sum())) * self.error
        return Effect(float(weights @ self.means), error, self.freedom)

    @property
    def p(self) -> float:
        """Of the test that no two treatments differ."""
        from scipy.stats import f

        return float(f.sf(self.ratio, *self.freedoms))

    @property
    def reliability(self) -> float:
        """The part of the variance of means that is not that of errors, in [0, 1]."""
        return max(0.0, 1 - 1 / self.ratio)

    @property
    def shrunken(self) -> Array:
        """[treatments]: means drawn towards that of all by the reliability."""
        return self.means.mean() + self.reliability * (self.means - self.means.mean())

    @property
    def shrunken_error(self) -> float:
        """The standard error of a shrunken mean beside that of all."""
        return math.sqrt(self.reliability) * self.error

    def may_be_best(self, level: float = LEVEL) -> NDArray[np.bool_]:
        """[treatments]: a set that holds the best one with this confidence.

        Those that are less behind the largest mean than the best of equal ones would be. A test of
        each against the largest mean would be wrong, for that one was chosen by being the largest.

        Source: S. S. Gupta, On some multiple decision (selection and ranking) rules, 1965.
        """
        away = farthest(len(self.means), self.freedom, level) * math.sqrt(2) * self.error
        return self.means >= self.means.max() - away - 1e-12


@cache
def farthest(count: int, freedom: int, level: float = LEVEL) -> float:
    """How far the first of so many equal means lies behind the largest, in errors of a difference.

    It is not farther with the probability `level`.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, norm

    at, weights = np.polynomial.hermite_e.hermegauss(96)
    weights = weights / weights.sum()
    spread = np.sqrt(chi2.ppf((np.arange(64) + 0.5) / 64, freedom) / freedom)

    def missed(away: float) -> float:
        below = norm.cdf(at + away * math.sqrt(2) * spread[:, None]) ** (count - 1)
        return float((below @ weights).mean()) - level

    found: Any = brentq(missed, 0.0, 50.0)  # a number, unless more is asked for
    return float(found)


def benjamini_hochberg(p: Sequence[float]) -> Array:
    """Adjusted p: below a level, the expected share of wrong findings is below it."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(np.asarray(p, dtype=float)))
