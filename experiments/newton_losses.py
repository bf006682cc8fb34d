r"""Newton losses and RESGRO beside plain losses; Tables 7.1 to 7.7 of the thesis.

    python experiments/newton_losses.py sorting --smoke                   # seconds, no data
    python experiments/newton_losses.py sorting --data data/mnist --download --network digits \
        --steps 2000 --runs 5                                             # an hour of one core
    python experiments/newton_losses.py classification --models M1 M5 --runs 20
    python experiments/newton_losses.py paths --methods smoothing_loss fenchel_young --runs 10
    python experiments/newton_losses.py sorting --device cuda -n 5 10 --runs 10 -o runs/sorting

classification: single digits, models M1 to M5, SGD and Adam (Table 7.1; 110,000 steps are its 200
epochs). sorting: four-digit numbers from their order, by NeuralSort, SoftSort and sorting networks
(7.3), and RESGRO with Kendall's tau (7.2). paths: costs of terrain from cheapest paths, relaxed and
estimated (7.4, 7.5), and RESGRO (7.6, 7.7). Trainings of one seed have the same weights at first
and the same data in the same order; they differ in the loss alone. The folder -o gets

    table.md        scores on test data, differences from the plain loss, the published scores
    results.json    settings, scores and histories of all trainings
    picture.png     scores on validation data over the steps
    CASE-VARIANT-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 7.5.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from gendr.cli.command_line import count
from gendr.jobs.training import TrainingLoop
from lab import script
from lab.report.newton import Entry, case_of, entry, figure, table
from lab.studies.newton import (
    HESSIANS,
    MODELS,
    RATES,
    VARIANTS,
    ClassSettings,
    ClassTraining,
    NewtonPathSettings,
    NewtonPathTraining,
    SortingSettings,
    SortingTraining,
)
from lab.studies.shortest_path import METHODS as PATH_METHODS
from lab.trials import Found, run_trials

SORTERS = ("neuralsort", "softsort", "odd_even/logistic", "odd_even/cauchy", "resgro")
PATHS = ("bellman_ford", "smoothing_loss", "smoothing", "fenchel_young", "resgro")
SMOKE: dict[str, dict[str, Any]] = {
    "sorting": {"steps": 4, "batch": 4, "evaluate_every": 2, "lists": 20, "test_lists": 20},
    "classification": {"steps": 4, "batch": 20, "evaluate_every": 2, "images": 100},
    "paths": {"steps": 4, "batch": 4, "evaluate_every": 2, "maps": 10},
}


Settings: TypeAlias = "SortingSettings | ClassSettings | NewtonPathSettings"


def name_of(task: str, settings: Settings) -> str:
    """The folder of a training."""
    case = re.sub(r"[^\w.]+", "-", case_of(task, asdict(settings)))
    return f"{case}-{settings.variant}-seed{settings.seed}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

    def task(name: str, text: str, settings: type) -> Any:
        sub = tasks.add_parser(name, help=text, description=text)
        group = sub.add_argument_group("the task")
        if name == "paths":
            script.add_terrain(group)
        else:
            script.add_digits(group, "few steps, small batches")
        group.add_argument(
            "--variants", nargs="+", choices=VARIANTS, default=("regular", "hessian", "fisher"),
            metavar="VARIANT", help=f"of {' '.join(VARIANTS)} (default: regular hessian fisher)",
        )  # fmt: skip
        script.add_runs(group)
        script.add_settings(sub, settings, "the training")
        script.add_execution(sub, f"newton-{name}")
        return group

    group = task("classification", "single digits; Table 7.1", ClassSettings)
    group.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    group.add_argument("--optimizers", nargs="+", choices=RATES, default=tuple(RATES))

    group = task("sorting", "four-digit numbers by their order; Tables 7.2, 7.3", SortingSettings)
    group.add_argument("--methods", nargs="+", default=SORTERS, help=f"of {' '.join(SORTERS)}, ...")
    group.add_argument("-n", type=count(2), nargs="+", default=[5], help="length of lists; 5")
    group.add_argument("--steepness", type=float, help="of all methods (default: their own)")
    group.add_argument("--categorical", action="store_true", help="not the binary cross-entropy")

    group = task("paths", "costs from cheapest paths; Tables 7.4 to 7.7", NewtonPathSettings)
    names = [name for name, method in PATH_METHODS.items() if not method.is_baseline]
    group.add_argument(
        "--methods", nargs="+", choices=(*names, "resgro"), default=PATHS, metavar="METHOD"
    )
    group.add_argument("--samples", type=count(2), nargs="+", default=[10], help="default: 10")


SECOND = ("regular", "hessian", "fisher", "elementwise")


def planned(
    args: argparse.Namespace,
    kind: type[Settings],
    allowed: Sequence[str],
    defaults: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> list[Settings]:
    """The trainings of one case: the variants that were asked for and are possible, all seeds."""
    variants = allowed if allowed == ("resgro",) else [v for v in args.variants if v in allowed]
    small = SMOKE[args.task] if args.smoke else {}
    return [
        script.settings_of(args, kind, {**defaults, **small}, variant=variant, seed=seed, **more)
        for variant in variants
        for seed in script.seeds_of(args)
    ]


def sorting_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings to sort."""
    plans: list[Settings] = []
    for n, method in product(args.n, args.methods):
        name, _, dist = method.partition("/")
        more = {"method": name, "dist": dist or None, **script.given(args, "steepness")}
        if name == "resgro":
            more = {}
        allowed = ("resgro",) if name == "resgro" else SECOND
        plans += planned(args, SortingSettings, allowed, n=n, binary=not args.categorical, **more)
    return plans


def class_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings to classify."""
    return [
        settings
        for optimizer, model in product(args.optimizers, args.models)
        for settings in planned(args, ClassSettings, SECOND, model=model, optimizer=optimizer)
    ]


def path_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings with shortest paths."""
    plans: list[Settings] = []
    for method in args.methods:
        # RESGRO looks at the loss of hard paths, as smoothing of the loss does.
        name = "smoothing_loss" if method == "resgro" else method
        allowed = SECOND if name in HESSIANS else ("regular", "fisher")
        for samples in args.samples if PATH_METHODS[name].is_sampled else [None]:
            more: dict[str, Any] = {} if samples is None else {"samples": samples}
            defaults = dict(PATH_METHODS[name].settings)
            if method == "resgro":
                allowed = ("resgro",)
                defaults["drawn"] = samples
            plans += planned(args, NewtonPathSettings, allowed, defaults, method=name, **more)
    return plans


class Task(NamedTuple):
    """What differs between the tasks."""

    plans: Callable[[argparse.Namespace], list[Settings]]
    data: Callable[[argparse.Namespace], Any]
    training: Callable[..., TrainingLoop[Any, Any]]


TASKS = {
    "classification": Task(class_plans, script.digits_of, ClassTraining),
    "sorting": Task(sorting_plans, script.digits_of, SortingTraining),
    "paths": Task(path_plans, script.terrain_of, NewtonPathTraining),
}


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    task = TASKS[args.task]
    # Seed by seed: an interruption leaves all of the comparison, with fewer seeds.
    settings = sorted(task.plans(args), key=lambda settings: settings.seed)
    if not settings:
        raise ValueError("no method has one of these variants; see --variants")
    plan = [(name_of(args.task, each), each) for each in settings]

    def entries(found: Found) -> list[Entry]:
        return [entry(args.task, one) for one in found.values()]

    run_trials(
        args, plan, task.data(args), task.training,
        lambda found: table(args.task, entries(found)),
        lambda found: figure(entries(found)),
        lambda training, _: {"tikhonov": training.signature()["tikhonov"]},
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
