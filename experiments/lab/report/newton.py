"""The table and the picture of Newton losses beside plain ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from lab.pages import published
from lab.pages import table as markdown
from lab.report.curves import curve, panels_of, spread
from lab.studies.newton import VARIANTS
from lab.studies.shortest_path import METHODS

# By task the name of its score, in the history and in the test.
METRICS = {"classification": "accuracy", "sorting": "em", "paths": "optimal"}
# What they mean, on axes.
LABELS = {"accuracy": "accuracy", "em": "exact match", "optimal": "optimal paths"}

# Per cent, by task, case and variant: thesis, Tables 7.1 (after one epoch) to 7.7.
PUBLISHED: dict[tuple[str, str, str], float] = {
    (task, case, variant): value
    for task, cases in published("newton").items()
    for case, variants in cases.items()
    for variant, value in variants.items()
}


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
        dist = f"/{settings['dist']}" if settings["dist"] else ""
        return f"{name}{dist}, n = {settings['n']}"
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
    rows: list[list[str]] = []
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
            theirs = PUBLISHED.get((task, case, variant))
            rows.append([
                case,
                VARIANTS[variant],
                f"{first['example']['tikhonov']:g}" if damped else "",
                str(len(runs)),
                str(first["step"]),
                f"{1000 * mean(run.result['seconds'] / run.result['step'] for run in runs):.1f}",
                f"{score:.2f}{_error(error)}",
                gain,
                times,
                "" if theirs is None else f"{theirs:.2f}",
            ])  # fmt: skip
    caption = (
        "Score: on test data, the mean of the runs ± its standard error. Minus regular: the mean "
        "over seeds of the difference of two runs with the same seed, ± its standard error."
    )
    head = ["case", "loss", "tikhonov", "runs", "steps", "ms a step", "score %", "minus regular"]
    return [*markdown([*head, "standard errors", "thesis %"], rows, 2), "", caption]


def summary(entries: Iterable[Entry]) -> list[list[str]]:
    """A row for each case: the score of the plain loss, and what Hessian and Fisher matrix add."""
    rows: list[list[str]] = []
    for case, variants in _groups(entries).items():
        if "regular" not in variants:
            continue
        plain = variants["regular"]
        cells = [f"{spread([100 * run.score for run in plain])[0]:.1f}"]
        for name in ("hessian", "fisher"):
            apart = [100 * x for x in differences(variants.get(name, []), plain)]
            gain, error = spread(apart) if apart else (math.nan, math.nan)
            cells.append("" if math.isnan(gain) else f"{gain:+.1f}{_error(error, 1)}")
        if any(cells[1:]):
            rows.append([case, *cells])
    return rows


def _error(value: float, digits: int = 2) -> str:
    return "" if math.isnan(value) else f" ± {value:.{digits}f}"


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
