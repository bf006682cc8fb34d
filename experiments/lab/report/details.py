"""What is known of a renderer in a run beside its score: errors, curves, and equal functions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab import PROTOCOLS
from lab.engine.store import Failure, Result, Run
from lab.engine.tasks import Trial
from lab.studies.pose import PoseProtocol

# One function under two names: it counts once where renderers are listed or compared.
TWICE = {"schweizer_sklar(p=-1)": "dombi(p=1)"}


def is_twice(instance: str) -> bool:
    """Whether a renderer, by its name, is another one under the second name of its T-conorm."""
    return instance.partition("/")[2] in TWICE


@dataclass(frozen=True)
class Detail:
    """What is known of a renderer beside its result.

    Attributes:
        error: The standard error of its score beside others' scores; NaN if it is not known.
        curve: For each scale that was tried, its decimal logarithm and the score at the best
            learning rate; by scale.
    """

    error: float = math.nan
    curve: tuple[tuple[float, float], ...] = ()


# A run as it is read.
Found: TypeAlias = "tuple[Run, list[Result], list[Failure], dict[str, Detail]]"


def curve_of(trials: Iterable[Trial], lower: bool) -> tuple[tuple[float, float], ...]:
    """The score by scale, as a mean over independent runs, at the best learning rate for it.

    Args:
        trials: The candidates of one renderer.
        lower: Whether the lower score is the better one.
    """
    scores: dict[float, dict[float, list[float]]] = {}
    for trial in trials:
        if trial.scale > 0 and math.isfinite(trial.score):
            exponent = round(math.log10(trial.scale), 4)
            scores.setdefault(exponent, {}).setdefault(trial.learning_rate, []).append(trial.score)
    best = min if lower else max
    return tuple(
        (exponent, best(fmean(several) for several in rates.values()))
        for exponent, rates in sorted(scores.items())
    )


def pose_error(run: Run, score: float) -> float:
    """The standard error of a fraction of poses, NaN for other tasks or where it is not known."""
    values = json.loads(run.protocol)
    pairs = values.get("pairs") if isinstance(values, dict) else None
    if not pairs and run.protocol_name in PROTOCOLS:
        pairs = PoseProtocol.named(run.protocol_name).pairs
    if run.task != "pose" or not pairs or not 0 <= score <= 1:
        return math.nan
    return math.sqrt(score * (1 - score) / pairs)


def means_of(values: NDArray[np.float64], axis: int | tuple[int, ...] = 0) -> NDArray[np.float64]:
    """Means that are equal where counts are: without the digits that the order of a sum decides."""
    return np.round(values.mean(axis), 12)


def disagreement(values: NDArray[np.float64]) -> float:
    """The standard error of a mean over scenes beside others, from [scenes, renderers]."""
    count, renderers = values.shape
    rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    spread = (rest**2).sum() / ((count - 1) * (renderers - 1))
    return math.sqrt(spread / count)
