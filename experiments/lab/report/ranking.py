"""Tables and a picture of sorting networks that learn to rank; Table 3.7 and Figure 3.9."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lab.pages import published
from lab.pages import table as markdown
from lab.report.curves import curve, panels_of, spread


class Method(NamedTuple):
    """A row of Table 3.7: a sorting network with a distribution.

    Attributes:
        dist: the distribution.
        art: its `art` exponent.
        factor: its steepness divided by `published_steepness`.
    """

    dist: str
    art: float = 0.0
    factor: float = 1.0


# What Table 3.8 means by the reciprocal's beta is open: in (3.22) the distribution falls off with 2
# beta times the difference, which is our steepness; in the published code, whose v is steepness
# times difference, v / (2 + |v|) / 2 + 1/2 falls off with half of it, a quarter of (3.22).
ROWS: Mapping[str, Method] = MappingProxyType(
    {
        "logistic": Method("logistic"),
        "logistic-art": Method("logistic", 0.25),
        "reciprocal": Method("reciprocal"),
        "reciprocal-code": Method("reciprocal", factor=0.25),
        "cauchy": Method("cauchy"),
        "optimal": Method("optimal"),
    }
)
LABELS = {
    "logistic-art": "logistic with art",
    "reciprocal": "reciprocal, β of (3.22)",
    "reciprocal-code": "reciprocal, β of the code",
}
# Per cent of lists that come out exactly right after up to 200,000 steps: Table 3.7, MNIST.
PUBLISHED: Mapping[tuple[str, str, int], float] = MappingProxyType(
    {
        (row, method, int(n)): value
        for row, methods in published("ranking").items()
        for method, values in methods.items()
        for n, value in values.items()
    }
)


class _Group(NamedTuple):
    """Trainings that differ in the seed alone."""

    row: str
    factor: float
    settings: dict[str, Any]
    runs: dict[int, dict[str, Any]]


def _sets(results: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], list[_Group]]:
    """The groups by network, method, length, steps, batch and rate, in this order; rows in theirs.

    Those with another steepness than the published one come last.
    """
    sets: dict[tuple[Any, ...], dict[tuple[str, float], _Group]] = {}
    for result in results:
        s, example = result["settings"], result["example"]
        # "Equal steps for all" is what makes rows of one table.
        key = (s["network"], s["method"], s["n"], s["steps"], s["batch"], s["learning_rate"])
        name = (example["row"], example["factor"])
        group = sets.setdefault(key, {}).setdefault(name, _Group(*name, s, {}))
        group.runs[s["seed"]] = dict(result)
    order = {row: place for place, row in enumerate(ROWS)}

    def place(group: _Group) -> tuple[Any, ...]:
        return group.factor != 1, order.get(group.row, len(order)), group.factor

    return {key: sorted(sets[key].values(), key=place) for key in sorted(sets)}


def differences(group: _Group, other: _Group, metric: str = "em") -> list[float]:
    """Per cent by which trainings are better than those of another group with the same seed."""
    return [
        100 * (run["test"][metric] - other.runs[seed]["test"][metric])
        for seed, run in group.runs.items()
        if seed in other.runs
    ]


def _with_error(value: float, error: float, sign: str = "") -> str:
    return f"{value:{sign}.1f}" + ("" if error != error else f" ± {error:.1f}")


def table(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of the tables, one for each network, length, number of steps and batch.

    Args:
        results: of trainings, as `describe` gives them, with the row and the factor of the
            steepness as "example".
    """
    lines: list[str] = []
    for (network, method, n, steps, batch, rate), groups in _sets(results).items():
        lines += [
            f"`{method}`, n = {n}, network `{network}`, {steps:,} steps of {batch} lists, learning "
            f"rate {rate:.2g}:",
            "",
        ]
        rows: list[list[str]] = []
        cauchy = next((g for g in groups if g.row == "cauchy" and g.factor == 1), None)
        for group in groups:
            scores = {
                metric: _with_error(*spread([100 * run["test"][metric] for run in runs]))
                for runs in [list(group.runs.values())]
                for metric in ("em", "ew", "em5")
            }
            apart = [] if cauchy is None or group is cauchy else differences(group, cauchy)
            theirs = PUBLISHED.get((group.row, method, n)) if group.factor == 1 else None
            times = "" if group.factor == 1 else f" × {group.factor:g}"
            rows.append([
                LABELS.get(group.row, group.row) + times,
                f"{group.settings['steepness']:g}",
                str(len(group.runs)),
                scores["em"],
                _with_error(*spread(apart), "+") if apart else "",
                scores["ew"],
                scores["em5"],
                "" if theirs is None else f"{theirs:.1f}",
            ])  # fmt: skip
        head = ["distribution", "steepness", "seeds", "EM %", "minus cauchy", "EW %", "EM5 %"]
        lines += [*markdown([*head, "thesis, EM %"], rows, 1), ""]
    return [
        *lines,
        "Lists of n that come out exactly right (EM), elements with the right rank (EW), lists of "
        "five (EM5), on test digits: means over the seeds ± standard errors. Trainings of one "
        "seed see the same lists and begin with the same weights; minus cauchy is the mean of "
        "their differences.",
    ]


def readings(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which reading of the reciprocal's published steepness is the better one.

    A line for each table that has both, and one for all of them together.
    """
    lines: list[str] = []
    every: list[float] = []
    for (_, method, n, steps, _, _), groups in _sets(results).items():
        first, second, cauchy = (
            next((g for g in groups if g.row == row and g.factor == 1), None)
            for row in ("reciprocal", "reciprocal-code", "cauchy")
        )
        if first is None or second is None or not (apart := differences(first, second)):
            continue
        every += apart
        said = f"{_with_error(*spread(apart), '+')} ({len(apart)} seeds)"
        if cauchy is not None:
            two = (_with_error(*spread(differences(g, cauchy)), "+") for g in (first, second))
            said += f"; less cauchy {' and '.join(two)}"
            if ("cauchy", method, n) in PUBLISHED:
                own, its = (PUBLISHED[row, method, n] for row in ("reciprocal", "cauchy"))
                said += f", published {own - its:+.1f}"
        scores = best_scores([g for g in groups if g.row.startswith("reciprocal")])
        if len(scores) > 2:
            best = max(scores, key=lambda steepness: scores[steepness][0])
            said += f"; the best of {len(scores)} steepnesses is {best:g}"
        lines.append(
            f"- `{method}`, n = {n}, {steps:,} steps: the β of (3.22) less that of the code {said}."
        )
    if len(lines) > 1:
        lines.append(f"- All {len(every)} pairs: {_with_error(*spread(every), '+')}.")
    return lines


def best_scores(groups: Sequence[_Group]) -> dict[float, tuple[float, float]]:
    """The mean exact match in per cent, and its standard error, for each steepness."""
    return {
        group.settings["steepness"]: spread([100 * r["test"]["em"] for r in group.runs.values()])
        for group in sorted(groups, key=lambda group: group.settings["steepness"])
    }


def figure(results: Iterable[Mapping[str, Any]]) -> Any:
    """Exact match on validation digits over the steps, and on test digits over the steepness.

    A panel for each table, then one for each where a distribution came with several steepnesses.
    Bands and bars are standard errors.
    """
    sets = _sets(results)
    several = len({key[3] for key in sets}) > 1  # numbers of steps
    curves: list[tuple[str, list[_Group]]] = []
    steepnesses: list[tuple[str, list[_Group]]] = []
    for (_, method, n, steps, _, _), groups in sets.items():
        title = f"{method}, n = {n}"
        curves.append((
            f"{title}, {steps:,} steps" if several else title,
            [group for group in groups if group.factor == 1],
        ))  # fmt: skip
        if any(group.factor != 1 for group in groups):
            steepnesses.append((f"{title}, after {steps:,} steps", groups))
    whole, axes = panels_of(len(curves) + len(steepnesses))
    for ax, (title, groups) in zip(axes, curves, strict=False):
        for k, row in enumerate(ROWS):
            own = [group for group in groups if group.row == row]
            if own:
                histories = [run["history"] for run in own[0].runs.values()]
                curve(ax, histories, "em", color=f"C{k}", label=LABELS.get(row, row))
        ax.set(title=title, xlabel="steps", ylabel="exact match, validation, %")
        ax.legend(fontsize=8, loc="lower right")
    for ax, (title, groups) in zip(axes[len(curves) :], steepnesses, strict=True):
        _over_steepness(ax, groups)
        ax.set(title=title, xlabel="steepness", ylabel="exact match, test, %", xscale="log")
        ax.legend(fontsize=8)
    return whole


def _over_steepness(ax: Any, groups: Sequence[_Group]) -> None:
    """The test's exact match of each distribution that came with several steepnesses."""
    for k, row in enumerate(ROWS):
        if sum(group.row == row for group in groups) < 2:
            continue
        # A distribution at another steepness is the same distribution, whatever its row is called.
        dist = ROWS[row].dist, ROWS[row].art
        points = best_scores([g for g in groups if (ROWS[g.row].dist, ROWS[g.row].art) == dist])
        means, errors = zip(*points.values(), strict=True)
        label = dist[0] + (" with art" if dist[1] else "")
        ax.errorbar(
            list(points), means, errors, marker="o", markersize=3, color=f"C{k}", label=label
        )
