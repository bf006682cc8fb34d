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
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from gendr._runtime.command_line import count
from gendr._runtime.training import Training
from lab import script
from lab.report.newton import case_of, entry, figure, table
from lab.studies.newton import (
    HESSIANS,
    MODELS,
    NETWORKS,
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
from lab.trials import Trial, run_trials, write_results

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


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

    def task(name: str, text: str, digits: bool = True) -> Any:
        sub = tasks.add_parser(name, help=text, description=text)
        group = sub.add_argument_group("the task")
        if digits:
            script.add_digits(group, "few steps, small batches")
        else:
            script.add_terrain(group)
        group.add_argument(
            "--variants", nargs="+", choices=VARIANTS, metavar="VARIANT",
            help=f"of {' '.join(VARIANTS)} (default: regular hessian fisher)",
        )  # fmt: skip
        script.add_runs(group)
        return sub, group

    sub, group = task("classification", "single digits; Table 7.1")
    group.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    group.add_argument("--optimizers", nargs="+", choices=RATES, default=tuple(RATES))
    group = _training(
        sub, "classification", steps="550, one epoch", every="55", rate=None,
        optimizer="SGD or Adam",
    )  # fmt: skip
    group.add_argument("--rate", type=float, help="learning rate (default: SGD 0.1, Adam 0.001)")

    sub, group = task("sorting", "four-digit numbers from their order; Tables 7.2 and 7.3")
    group.add_argument("--methods", nargs="+", default=SORTERS, help=f"of {' '.join(SORTERS)}, ...")
    group.add_argument("-n", type=count(2), nargs="+", default=[5], help="length of lists; 5")
    group.add_argument(
        "--network", choices=NETWORKS, default="published",
        help="published, or digits: a small one on images of half the size",
    )  # fmt: skip
    group.add_argument("--steepness", type=float, help="of all methods (default: their own)")
    group.add_argument("--categorical", action="store_true", help="not the binary cross-entropy")
    group.add_argument("--samples", type=count(1), help="of RESGRO, in a set (default: 10)")
    group.add_argument("--drawn", type=count(1), help="of RESGRO, in all (default: 100)")
    group.add_argument("--scale", type=float, help="of the noise of RESGRO (default: 1)")
    group = _training(sub, "sorting", steps="100,000", every="1000")
    group.add_argument("--lists", type=count(1), help="for an evaluation (default: 1000)")
    group.add_argument("--test-lists", type=count(1), help="for the test (default: 10,000)")

    sub, group = task("paths", "costs from cheapest paths; Tables 7.4 to 7.7", digits=False)
    names = [name for name, method in PATH_METHODS.items() if not method.is_baseline]
    group.add_argument(
        "--methods", nargs="+", choices=(*names, "resgro"), default=PATHS, metavar="METHOD"
    )
    group.add_argument("--samples", type=count(2), nargs="+", default=[10], help="default: 10")
    group.add_argument("--drawn", type=count(2), help="of RESGRO, in all (default: --samples)")
    group.add_argument("--noise", type=float, help="scale of noise (default: as shortest_path.py)")
    group = _training(sub, "paths", steps="7200", every="144")
    script.add_terrain_training(group)
    return parser


def _training(sub: argparse.ArgumentParser, task: str, **more: Any) -> Any:
    """The options that all tasks have, after their own; more: of `script.add_training`."""
    script.add_execution(sub, f"newton-{task}")
    group = sub.add_argument_group("the training")
    group.add_argument("--tikhonov", type=float, help="damping (default: as found for the method)")
    of_all: dict[str, Any] = {"rate": "of Adam (default: 0.001)"}
    script.add_training(group, batch="samples per step", least=2, **{**of_all, **more})
    return group


def variants(args: argparse.Namespace, allowed: Sequence[str]) -> list[str]:
    """The variants that were asked for, of those that are possible here."""
    asked = args.variants or ("regular", "hessian", "fisher")
    return [name for name in asked if name in allowed]


SECOND = ("regular", "hessian", "fisher", "elementwise")


def sorting_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings to sort."""
    names = ["tikhonov", "network", "steps", "batch", "learning_rate", "evaluate_every", "lists"]
    values = {
        **(SMOKE["sorting"] if args.smoke else {}),
        **script.given(args, *names, "test_lists"),
    }
    values["binary"] = not args.categorical
    plans: list[Settings] = []
    for n in args.n:
        for method in args.methods:
            name, _, dist = method.partition("/")
            more: dict[str, Any] = {"method": name, "dist": dist or None}
            more |= script.given(args, "steepness")
            chosen = variants(args, SECOND)
            if name == "resgro":
                more = {**script.given(args, "samples", "drawn", "scale")}
                chosen = ["resgro"]
            plans += [
                SortingSettings(n=n, variant=variant, seed=seed, **values, **more)
                for variant in chosen
                for seed in script.seeds_of(args)
            ]
    return plans


def class_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings to classify."""
    names = ["tikhonov", "steps", "batch", "rate", "evaluate_every"]
    values = {**(SMOKE["classification"] if args.smoke else {}), **script.given(args, *names)}
    return [
        ClassSettings(model, optimizer, variant, seed=seed, **values)
        for optimizer in args.optimizers
        for model in args.models
        for variant in variants(args, SECOND)
        for seed in script.seeds_of(args)
    ]


def path_plans(args: argparse.Namespace) -> list[Settings]:
    """All trainings with shortest paths."""
    names = ["tikhonov", "loss", "noise", "steps", "batch", "learning_rate", "evaluate_every"]
    names += ["maps", "precision"]
    given = {**(SMOKE["paths"] if args.smoke else {}), **script.given(args, *names)}
    plans: list[Settings] = []
    for method in args.methods:
        # RESGRO looks at the loss of hard paths, as smoothing of the loss does.
        name = "smoothing_loss" if method == "resgro" else method
        allowed = SECOND if name in HESSIANS else ("regular", "fisher")
        chosen = ["resgro"] if method == "resgro" else variants(args, allowed)
        values = {**PATH_METHODS[name].settings, **given}
        for samples in args.samples if PATH_METHODS[name].is_sampled else [None]:
            more: dict[str, Any] = {} if samples is None else {"samples": samples}
            if method == "resgro":
                more["drawn"] = args.drawn or samples
            plans += [
                NewtonPathSettings(method=name, variant=variant, seed=seed, **values, **more)
                for variant in chosen
                for seed in script.seeds_of(args)
            ]
    return plans


class Task(NamedTuple):
    """What differs between the tasks."""

    plans: Callable[[argparse.Namespace], list[Settings]]
    data: Callable[[argparse.Namespace], Any]
    training: Callable[..., Training[Any, Any]]


TASKS = {
    "classification": Task(class_plans, script.digits_of, ClassTraining),
    "sorting": Task(sorting_plans, script.digits_of, SortingTraining),
    "paths": Task(path_plans, script.terrain_of, NewtonPathTraining),
}


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    device = script.device_of(args)
    script.set_threads(args)
    task = TASKS[args.task]
    # Seed by seed: an interruption leaves all of the comparison, with fewer seeds.
    plans = sorted(task.plans(args), key=lambda settings: settings.seed)
    names = [name_of(args.task, settings) for settings in plans]
    if len(set(names)) < len(names):
        raise ValueError("something is named twice; name each once")
    if not plans:
        raise ValueError("no method has one of these variants; see --variants")
    data = task.data(args)
    out = script.output_folder(args)

    def damping(training: Any, _: Any) -> dict[str, Any]:
        return {"tikhonov": training.signature()["tikhonov"]}

    trials = [
        Trial(name, partial(task.training, settings, data, device), damping)
        for name, settings in zip(names, plans, strict=True)
    ]
    found = run_trials(trials, out, resume=args.resume, save_every=args.save_every)
    entries = [entry(args.task, found[name]) for name in names]
    lines = [*table(args.task, entries), ""]
    print(write_results(out, found, "\n".join(lines), lambda: figure(entries), device))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
