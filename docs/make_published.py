r"""Published numbers beside ours: docs/results/published.md and its picture.

    python docs/make_published.py

It reads the trainings that other pages have, and docs/results/long-trainings.json, which has those
of

    python experiments/sorting_tables.py --data data/mnist --network digits --steps 100000 \
        --evaluate-every 5000 --lists 500 --threads 1 -n 5 --rows cauchy -o runs/long/sorting
    python experiments/shortest_path.py --methods bellman_ford --steps 3000 --evaluate-every 250 \
        --precision bfloat16 --threads 1 -o runs/long/paths
    python experiments/sorting_tables.py --data data/mnist --network digits --steps 30000 \
        --evaluate-every 2500 --lists 500 --threads 1 -n 7 --rows cauchy -o runs/long/sorting-7
    shared="--data data/mnist --threads 1 --methods neuralsort --network digits --batch 50"
    shared="$shared --lists 300 --test-lists 5000"
    python experiments/newton_losses.py sorting $shared --variants regular --steps 100000 \
        --evaluate-every 5000 -o runs/long/newton
    python experiments/newton_losses.py sorting $shared --variants regular hessian --steps 20000 \
        --evaluate-every 1000 -o runs/long/newton-20000    # folders renamed to ...-20000-seed0
    python experiments/newton_losses.py paths --methods resgro --steps 1000 --batch 24 \
        --evaluate-every 100 --maps 200 --precision bfloat16 --threads 1 -o runs/long/resgro
    python experiments/keep_results.py runs/long/* -o docs/results/long-trainings.json
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.pages import fill, table
from lab.report.curves import curve, panels_of, spread

DOCS = Path(__file__).parent
Training = Mapping[str, Any]


@dataclass(frozen=True)
class Number:
    """A published number, and the trainings here that stand beside it.

    Attributes:
        what: the task and the method.
        published: in per cent.
        length: the published number of steps.
        metric: of the history and the test, a part of one.
        trainings: patterns of names, the longest training that matches counts, in all its seeds.
        command: that trains as long as published.
        differs: what is not as published, beside the length.
    """

    what: str
    published: float
    length: int
    metric: str
    trainings: str
    command: str
    differs: str


SORT = "experiments/sorting_tables.py --data data/mnist --network digits --rows cauchy --steps"
NUMBERS = (
    Number(
        "sorting network, `cauchy`, n = 5, exact match", 84.9, 100_000, "em",
        r"digits-odd_even-5-cauchy-\d+steps-seed\d+", f"{SORT} 100000 -n 5",
        "a network that sees each digit by itself, at half the resolution",
    ),
    Number(
        "sorting network, `cauchy`, n = 7, exact match", 73.3, 100_000, "em",
        r"digits-odd_even-7-cauchy-\d+steps-seed\d+", f"{SORT} 100000 -n 7", "the same",
    ),
    Number(
        "shortest paths, relaxed Bellman-Ford", 95.9, 7143, "optimal",
        r"bellman_ford-\d*-?seed\d+|bellman_ford-seed\d+",
        "experiments/shortest_path.py --methods bellman_ford --steps 7143 --batch 70",
        "generated maps, 24 a step, for 70 of Warcraft",
    ),
    Number(
        "RESGRO on paths, 10 samples", 72.02, 7143, "optimal", r"resgro-10-samples-resgro-seed\d+",
        "experiments/newton_losses.py paths --methods resgro --steps 7143 --batch 70",
        "the same maps",
    ),
    Number(
        "NeuralSort, plain loss, n = 5", 71.33, 100_000, "em",
        r"neuralsort-n-5-regular-(\d+-)?seed\d+",
        "experiments/newton_losses.py sorting -n 5 --methods neuralsort", "as in the first row",
    ),
    Number(
        "NeuralSort, Newton loss (Hessian), n = 5", 83.31, 100_000, "em",
        r"neuralsort-n-5-hessian-(\d+-)?seed\d+",
        "experiments/newton_losses.py sorting -n 5 --methods neuralsort", "as in the first row",
    ),
    Number(
        "logic gates on MNIST, 48,000 gates", 97.69, 120_000, "accuracy", r"mnist-small-seed\d+",
        "experiments/logic_images.py --network small --steps 120000", "—",
    ),
)  # fmt: skip
FILES = (
    "sorting-tables", "shortest-path", "newton-sorting", "newton-paths", "logic-mnist",
    "long-trainings",
)  # fmt: skip


def trainings(results: Path) -> dict[str, Training]:
    """All trainings of the files by name; those of a set, and of a longer file, come last."""
    found: dict[str, Training] = {}
    for name in FILES:
        path = results / f"{name}.json"
        if path.exists():
            for key, value in json.loads(path.read_text())["trainings"].items():
                several = {key: value} if "settings" in value else value
                found |= {f"{name}/{k}": v for k, v in several.items()}
    return found


def matching(number: Number, found: Mapping[str, Training]) -> list[Training]:
    """The trainings of a number, of any length."""
    return [t for name, t in found.items() if re.fullmatch(number.trainings, name.split("/")[1])]


def beside(number: Number, found: Mapping[str, Training]) -> list[Training]:
    """The trainings beside a number: the longest ones, in all their seeds."""
    mine = matching(number, found)
    longest = max(t["step"] for t in mine)
    by_seed = {t["settings"]["seed"]: t for t in mine if t["step"] == longest}
    return list(by_seed.values())


def score(number: Number, training: Training) -> float:
    """The score on test data, in per cent."""
    return 100 * (training["test"][number.metric] if "test" in training else training["accuracy"])


def rows(found: Mapping[str, Training]) -> list[tuple[str, ...]]:
    """A row for each number."""
    out: list[tuple[str, ...]] = []
    for number in NUMBERS:
        mine = beside(number, found)
        mean, error = spread([score(number, t) for t in mine])
        steps = mine[0]["step"]
        pace = min(t["seconds"] / t["step"] for t in matching(number, found))
        out.append((
            number.what, f"{number.published:g}",
            f"{mean:.1f}" + (f" ± {error:.1f}" if len(mine) > 1 else ""), str(len(mine)),
            f"{steps:,}", f"{number.length:,}", f"{1000 * pace:.0f}",
            f"{pace * number.length / 3600:.1f}", number.differs,
        ))  # fmt: skip
    return out


def figure(found: Mapping[str, Training], path: Path) -> None:
    """Accuracy over the steps, with the published number where it was reached."""
    from matplotlib.ticker import NullFormatter

    whole, axes = panels_of(len(NUMBERS))
    for ax, number in zip(axes, NUMBERS, strict=True):
        mine = beside(number, found)
        curve(ax, [t["history"] for t in mine], number.metric, color="#2f6fb0", label="here")
        ax.plot(number.length, number.published, "*", ms=11, color="#c43e28", label="published")
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(number.what.replace("`", ""), loc="left", fontsize=9)
        ax.set_xlabel("steps")
        ax.set_ylabel("per cent")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    axes[0].legend(frameon=False, loc="lower right", fontsize=8)
    whole.savefig(path, dpi=110)


def newton(found: Mapping[str, Training]) -> list[str]:
    """Why the Newton loss gains nothing here."""
    regular, hessian = (
        found[f"long-trainings/neuralsort-n-5-{variant}-20000-seed0"]
        for variant in ("regular", "hessian")
    )
    plain = NUMBERS[4]
    (longest,) = beside(plain, found)
    gain = 100 * (hessian["test"]["em"] - regular["test"]["em"])
    return [
        f"The Newton loss gains nothing here: {gain:+.1f} points after {regular['step']:,} steps "
        f"of one seed. The plain loss comes to {score(plain, longest):.1f} % in "
        f"{longest['step']:,} steps, where the thesis has {plain.published:g} %: "
        "what it gained there is not left to be gained with this network."
    ]


def main() -> None:
    """Fill the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = trainings(DOCS / "results")
    page = DOCS / "results" / "published.md"
    head = (
        "what", "published %", "here %", "seeds", "steps here", "published", "ms a step",
        "hours to the published length", "not as published",
    )  # fmt: skip
    fill(page, "published", table(head, rows(found), 1))
    by_command: dict[str, list[str]] = {}
    for number in NUMBERS:
        by_command.setdefault(number.command, []).append(number.what)
    fill(page, "commands", [f"- {'; '.join(w)}: `python {c}`" for c, w in by_command.items()])
    fill(page, "newton", newton(found))
    figure(found, DOCS / "results" / "published.png")


if __name__ == "__main__":
    main()
