"""The table and the picture of Newton losses beside plain ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from lab.report.curves import curve, panels_of, spread
from lab.studies.newton import VARIANTS
from lab.studies.shortest_path import METHODS

__all__ = ["METRICS", "PUBLISHED", "Entry", "case_of", "entry", "figure", "table"]

# By task the name of its score, in the history and in the test.
METRICS = {"classification": "accuracy", "sorting": "em", "paths": "optimal"}
# What they mean, on axes.
LABELS = {"accuracy": "accuracy", "em": "exact match", "optimal": "optimal paths"}

# Per cent, by task, case and variant: thesis, Tables 7.1 (after one epoch) to 7.7.
PUBLISHED: dict[tuple[str, str, str], float] = {
    ("sorting", "resgro, n = 5", "resgro"): 74.34,
    ("sorting", "resgro, n = 10", "resgro"): 42.23,
    **{
        ("paths", f"resgro, {samples} samples", "resgro"): value
        for samples, value in ((3, 36.34), (10, 72.02), (30, 77.22), (100, 79.31))
    },
}


def _published(task: str, cases: str, **rows: str) -> None:
    for variant, values in rows.items():
        for case, value in zip(cases.split(";"), values.split(), strict=True):
            if value != "-":
                PUBLISHED[task, case, variant] = float(value)


_published(
    "classification",
    ";".join(
        f"{model}, {how}" for how in ("sgd", "adam") for model in ("M1", "M2", "M3", "M4", "M5")
    ),
    regular="93.06 94.26 94.77 10.57 96.25 94.75 96.36 95.90 90.60 97.56",
    elementwise="92.95 94.23 94.74 10.57 96.14 94.63 96.30 96.06 90.32 97.63",
    hessian="93.06 94.28 94.77 10.57 96.23 94.75 96.36 95.91 90.63 97.63",
    fisher="94.56 95.47 95.36 10.64 97.77 94.86 96.28 95.95 90.57 97.49",
)
_published(
    "sorting",
    ";".join(
        f"{method}, n = {n}"
        for n in (5, 10)
        for method in ("odd_even/cauchy", "odd_even/logistic", "neuralsort", "softsort")
    ),
    regular="85.09 53.56 71.33 70.70 55.29 12.31 24.26 27.46",
    hessian="85.11 75.02 83.31 83.87 56.49 42.14 48.76 55.07",
    fisher="84.95 63.11 83.93 84.03 56.12 25.72 39.23 54.00",
)
_published(
    "paths",
    "bellman_ford;"
    + ";".join(
        f"{method}, {samples} samples"
        for method in ("smoothing_loss", "smoothing", "fenchel_young")
        for samples in (3, 10, 30)
    ),
    regular="95.90 62.83 77.01 85.48 57.55 78.70 87.26 80.64 80.39 80.71",
    hessian="- 62.40 78.82 85.94 - - - 83.09 81.13 83.45",
    fisher="95.37 58.80 78.74 86.10 53.82 79.24 87.41 80.70 80.37 80.45",
)


class Entry(NamedTuple):
    """One training of the comparison.

    Attributes:
        case: what is trained, such as "neuralsort, n = 5".
        variant: a name of `VARIANTS`.
        seed: trainings of one case and seed differ in nothing but the variant.
        score: on the test part, in [0, 1].
        metric: the name of the score in the history.
        result: what `describe` says.
    """

    case: str
    variant: str
    seed: int
    score: float
    metric: str
    result: dict[str, Any]


def case_of(task: str, settings: Mapping[str, Any]) -> str:
    """What is trained: all that the variants of a comparison have in common."""
    if task == "classification":
        return f"{settings['model']}, {settings['optimizer']}"
    name = "resgro" if settings["variant"] == "resgro" else settings["method"]
    if task == "sorting":
        law = f"/{settings['dist']}" if settings["dist"] else ""
        return f"{name}{law}, n = {settings['n']}"
    is_sampled = METHODS[settings["method"]].is_sampled
    return f"{name}, {settings['samples']} samples" if is_sampled else name


def entry(task: str, result: dict[str, Any]) -> Entry:
    """A training of `results.json`."""
    settings, metric = result["settings"], METRICS[task]
    return Entry(
        case_of(task, settings), settings["variant"], settings["seed"], result["test"][metric],
        metric, result,
    )  # fmt: skip


def _groups(entries: Iterable[Entry]) -> dict[str, dict[str, list[Entry]]]:
    """The entries by case and variant, in the order in which they come."""
    groups: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        groups.setdefault(entry.case, {}).setdefault(entry.variant, []).append(entry)
    return groups


def differences(entries: Sequence[Entry], regular: Sequence[Entry]) -> list[float]:
    """The scores minus those of the plain loss with the same seed."""
    plain = {entry.seed: entry.score for entry in regular}
    return [entry.score - plain[entry.seed] for entry in entries if entry.seed in plain]


def table(task: str, entries: Iterable[Entry]) -> list[str]:
    """The lines of the table: the scores beside those of the plain loss and the published ones."""
    lines = [
        "| case | loss | tikhonov | runs | steps | ms a step | score % | minus regular |"
        " standard errors | thesis % |",
        "| --- | --- |" + " ---: |" * 8,
    ]
    for case, variants in _groups(entries).items():
        for variant, runs in variants.items():
            first = runs[0].result
            score, error = spread([100 * run.score for run in runs])
            apart = []
            if variant != "regular" and "regular" in variants:
                apart = [100 * x for x in differences(runs, variants["regular"])]
            gain = times = ""
            if apart:
                difference, noise = spread(apart)
                gain = f"{difference:+.2f}" + _error(noise)
                times = f"{difference / noise:+.1f}" if noise > 0 else ""
            damped = variant in ("hessian", "fisher", "elementwise")
            published = PUBLISHED.get((task, case, variant))
            cells = [
                case,
                VARIANTS[variant],
                f"{first['example']['tikhonov']:g}" if damped else "",
                str(len(runs)),
                str(first["step"]),
                f"{1000 * mean(run.result['seconds'] / run.result['step'] for run in runs):.1f}",
                f"{score:.2f}{_error(error)}",
                gain,
                times,
                "" if published is None else f"{published:.2f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    caption = (
        "Score: on test data, the mean of the runs ± its standard error. Minus regular: the mean "
        "over seeds of the difference of two runs with the same seed, ± its standard error."
    )
    return [*lines, "", caption]


def _error(value: float) -> str:
    return "" if math.isnan(value) else f" ± {value:.2f}"


def figure(entries: Iterable[Entry]) -> Any:
    """The metric on validation data over the steps, a panel for each case, with standard errors."""
    groups = _groups(entries)
    whole, panels = panels_of(len(groups))
    for ax, (case, variants) in zip(panels, groups.items(), strict=True):
        metric = ""
        for variant, runs in variants.items():
            metric = runs[0].metric
            curve(
                ax, [run.result["history"] for run in runs], metric,
                color=f"C{list(VARIANTS).index(variant)}", label=VARIANTS[variant],
            )  # fmt: skip
        ax.set(title=case, xlabel="steps", ylabel=f"{LABELS[metric]}, validation, %")
        ax.legend(fontsize=8, loc="lower right")
    return whole
