"""Classify tables with logic gate networks: MONK's problems, Adult, Breast Cancer.

    python experiments/logic_tables.py --data data -o logic_tables      all of them, ten seeds each
    python experiments/logic_tables.py --tables monk-1 monk-3 --runs 3
    python experiments/logic_tables.py -o logic_tables --resume         after an interruption
    python experiments/logic_tables.py --only-baselines -o others       scikit-learn alone
    python experiments/logic_tables.py --smoke                          seconds, on made-up tables

--data is a folder with the folders monks, adult and breast_cancer of the UCI repository's files.
Accuracies are those of circuits on all test rows. Breast Cancer has no test part: every seed draws
another quarter of its rows, of each class alike. On MONK's problems, a population of networks is
trained side by side, and the one is kept whose circuit says the training rows in the fewest nats.
With scikit-learn, a decision tree, logistic regression and a neural network (the widths of Table
6.7) are fitted to the same bits.

The folder -o gets
    results.json    every run: settings, accuracy, size of the circuit, times, history
    baselines.json  accuracies, parameters and times of the methods of scikit-learn
    table.md        accuracies, parameters, space and time, as Tables 6.2 and 6.3
    NAME-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, sections 6.4.1 and 6.4.2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from gendr.cli.command_line import count
from gendr.jobs.logic import Samples
from lab import script
from lab.data import BitTable, TableSplits, read_adult, read_breast_cancer, read_monk
from lab.pages import table
from lab.studies.logic_networks import NetworkSettings, NetworkTraining
from lab.trials import Found, run_trials

# By table: the settings of its network, and the accuracy that the thesis reports. Layers and widths
# are those of Table 6.6, but for monk-2 (there 12 gates a layer), monk-3 (there 6 layers of 12) and
# breast-cancer (there 5 layers); the rest was found by trying.
NETWORKS: dict[str, dict[str, Any]] = {
    "monk-1": {"layers": 6, "width": 24, "tau": 1.0, "population": 32, "steps": 1500},
    "monk-2": {"layers": 6, "width": 16, "tau": 1.0, "population": 64, "steps": 1500},
    "monk-3": {"layers": 2, "width": 4, "tau": 1.0, "population": 1024, "steps": 700},
    "adult": {"layers": 5, "width": 256, "tau": 1 / 0.075, "steps": 4000, "learning_rate": 0.02},
    "breast-cancer": {"layers": 3, "width": 128, "tau": 30.0, "steps": 150},
}
COMMON = {"learning_rate": 0.1, "evaluate_every": 1000}
PUBLISHED = {"monk-1": 100.0, "monk-2": 90.9, "monk-3": 97.7, "adult": 84.8, "breast-cancer": 76.1}
SMOKE = {"layers": 2, "width": 8, "steps": 4, "evaluate_every": 2, "population": 2}
# The part of Breast Cancer's rows that is for training.
SHARE = 0.75
# As many trees and neural networks are fitted as a population of circuits has, but no more.
MOST_FITTED = 64
# Layers between of the neural networks; Table 6.7.
HIDDEN = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    group.add_argument(
        "--data", type=Path, metavar="FOLDER",
        help="with monks, adult, breast_cancer (default: $GENDR_DATA, or the folder data)",
    )  # fmt: skip
    group.add_argument("--tables", nargs="+", choices=tuple(NETWORKS), default=tuple(NETWORKS))
    script.add_runs(group, None)
    group.add_argument("--smoke", action="store_true", help="few steps, on made-up tables")
    group.add_argument("--only-baselines", action="store_true", help="train no networks of gates")

    group = parser.add_argument_group("the training")
    for name in ("width", "population", "steps", "batch", "evaluate-every"):
        group.add_argument(f"--{name}", type=count(1), help="default: by table")
    for name in ("learning-rate", "weight-decay"):
        group.add_argument(f"--{name}", type=float, help="default: by table")
    group.add_argument("--init", choices=("residual", "normal"), help="default: by table")

    script.add_execution(parser, "logic_tables")


def settings_of(args: argparse.Namespace, table: str, seed: int) -> NetworkSettings:
    """The settings of one training."""
    names = ["width", "steps", "batch", "learning_rate", "weight_decay", "init", "population"]
    names.append("evaluate_every")
    values: dict[str, Any] = {
        **COMMON, **NETWORKS[table], **(SMOKE if args.smoke else {}),
        **script.given(args, *names),
    }  # fmt: skip
    return NetworkSettings(seed=seed, **values)


@lru_cache(maxsize=8)
def splits_of(folder: Path, table: str, seed: int) -> TableSplits:
    """The rows of a table.

    Raises:
        ValueError: if a file is missing or damaged.
    """
    try:
        if table.startswith("monk"):
            return read_monk(folder / "monks", int(table[-1]))
        if table == "adult":
            return read_adult(folder / "adult")
        return read_breast_cancer(folder / "breast_cancer").split(SHARE, seed)
    except FileNotFoundError as error:
        raise ValueError(f"{error}; name the folder of its folder with --data") from None


def made_up(table: str) -> TableSplits:
    """Rows whose class is whether two bits differ, for --smoke."""
    generator = torch.Generator().manual_seed(len(table))
    bits = torch.randint(0, 2, (150, 6), generator=generator).byte()
    names = tuple(f"bit {k}" for k in range(6))
    whole = BitTable(bits, (bits[:, 0] ^ bits[:, 1]).long(), names, ("equal", "different"))
    return whole.split(SHARE, 0)


def baselines(splits: TableSplits, seed: int, population: int = 1) -> dict[str, dict[str, float]]:
    """Methods of scikit-learn on the same bits; none if it is not there.

    Args:
        splits: Rows to train and to test with.
        seed: Of what is drawn.
        population: So many are fitted, at most `MOST_FITTED`, and as with circuits the one is kept
            that has the least cross-entropy on the rows to train with.

    Returns:
        By name: `accuracy` on the test rows, `parameters`, and `row_seconds` for a prediction.
    """
    if find_spec("sklearn") is None:
        return {}
    width = 32 if len(splits.train) > 1000 else 8
    tree = import_module("sklearn.tree").DecisionTreeClassifier
    linear = import_module("sklearn.linear_model").LogisticRegression
    network = import_module("sklearn.neural_network").MLPClassifier
    log_loss = import_module("sklearn.metrics").log_loss
    count = min(population, MOST_FITTED)
    seeds = [seed * count + k for k in range(count)]
    models: dict[str, list[Any]] = {
        "decision tree": [tree(random_state=s) for s in seeds],
        "logistic regression": [linear(max_iter=2000)],  # has one solution
        "neural network": [
            network((width,) * HIDDEN, max_iter=2000, random_state=s) for s in seeds
        ],
    }
    (x, y), (test_x, test_y) = (
        (part.bits.numpy(), part.labels.numpy()) for part in (splits.train, splits.test)
    )
    found: dict[str, dict[str, float]] = {}
    for name, several in models.items():
        fitted = [model.fit(x, y) for model in several]
        model = min(fitted, key=lambda model: log_loss(y, model.predict_proba(x)))
        found[name] = {
            "accuracy": float(model.score(test_x, test_y)),
            "parameters": parameters_of(model),
            "row_seconds": seconds_per_row(model.predict, test_x),
        }
    return found


def parameters_of(model: Any) -> int:
    """The numbers that a method of scikit-learn has learnt: of a tree, its splits and leaves."""
    if hasattr(model, "tree_"):
        return int(model.tree_.node_count)
    parts = [model.coef_, model.intercept_] if hasattr(model, "coef_") else []
    return sum(np.size(part) for part in parts or [*model.coefs_, *model.intercepts_])


def seconds_per_row(predict: Callable[[Any], Any], x: Any, rows: int = 65_536) -> float:
    """What a row takes on one thread, many together, the best of five runs."""
    many = np.tile(x, (-(-rows // len(x)), 1))[:rows]
    best = float("inf")
    with import_module("threadpoolctl").threadpool_limits(1):
        for _ in range(5):
            clock = time.perf_counter()
            predict(many)
            best = min(best, time.perf_counter() - clock)
    return best / rows


def percent(values: Sequence[float]) -> str:
    """Mean and spread of accuracies."""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}%{spread}"


def table_of(
    found: dict[str, list[dict[str, Any]]], others: dict[str, list[dict[str, dict[str, float]]]]
) -> list[str]:
    """Tables 6.2 and 6.3: a row for each table and method."""
    rows: list[list[str]] = []
    for name, runs in found.items():
        if runs:
            gates = runs[0]["gates"]
            simplified = mean(run["circuit"]["gates"] for run in runs)
            seconds = mean(run["row_seconds"] for run in runs)
            rows.append([
                name, "logic gate network", percent([run["accuracy"] for run in runs]),
                f"{PUBLISHED[name]:.1f}%", f"{gates:,}", f"{gates // 2:,} B",
                f"{simplified:.0f} gates", f"{1e9 * seconds:.2f} ns",
            ])  # fmt: skip
        for method in others[name][0] if others[name] else {}:
            each = [one[method] for one in others[name]]
            size, seconds = (mean(x[key] for x in each) for key in ("parameters", "row_seconds"))
            rows.append([
                name, method, percent([x["accuracy"] for x in each]), "", f"{size:,.0f}",
                f"{4 * size:,.0f} B", "", f"{1e9 * seconds:,.0f} ns",
            ])  # fmt: skip
    head = ["table", "method", "accuracy", "thesis", "parameters", "space", "simplified"]
    runs_of_each = max(len(each) for each in (*found.values(), *others.values()))
    lines = [
        *table([*head, "time per row"], rows, 2),
        "",
        f"{runs_of_each} run(s); mean ± standard deviation. Space: 4 bits a gate, 4 bytes for any "
        "other parameter.",
    ]
    if not any(others.values()):
        lines.append('No baselines, for want of scikit-learn: pip install ".[baselines]"')
    return lines


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    args.runs = args.runs or (2 if args.smoke else 10)
    seeds, folder = script.seeds_of(args), args.data or script.data_folder("")

    def rows(table: str, seed: int) -> TableSplits:
        return made_up(table) if args.smoke else splits_of(folder, table, seed)

    def start(table: str, settings: NetworkSettings, device: torch.device) -> NetworkTraining:
        train, test = (
            Samples(part.bits, part.labels, len(part.classes))
            for part in rows(table, settings.seed)
        )
        return NetworkTraining(settings, train, None, test, device)

    for name in args.tables:
        rows(name, args.seed)
    plan = [
        (f"{table}-seed{s}", (table, settings_of(args, table, s)))
        for table in args.tables for s in seeds
    ]  # fmt: skip
    script.output_folder(args)
    others: dict[str, list[dict[str, dict[str, float]]]] = {}
    with script.progress_bar("baselines") as show:
        for k, table in enumerate(args.tables):
            population = 1 if args.smoke else NETWORKS[table].get("population", 1)
            others[table] = [
                each for s in seeds if (each := baselines(rows(table, s), s, population))
            ]
            show((k + 1) / len(args.tables))
    script.write_json(args.output / "baselines.json", others)

    def by_table(found: Found) -> dict[str, list[dict[str, Any]]]:
        return {
            table: [found[name] for s in seeds if (name := f"{table}-seed{s}") in found]
            for table in args.tables
        }

    run_trials(
        args, [] if args.only_baselines else plan, None,
        lambda case, _, device: start(*case, device),
        lambda found: table_of(by_table(found), others),
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
