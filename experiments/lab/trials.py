"""Several trainings of one experiment, one after the other, each in a folder of its own.

An interruption costs nothing that was done: with `resume`, finished trainings are read from their
files, and the one that was stopped goes on from its checkpoint. At the end, what they came to is
written: results.json, table.md and picture.png. `kept_results` joins what trainings of several
commands came to, for a file that the documentation is made from.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from gendr.jobs.training import TrainingLoop, drive
from lab import script
from lab.engine.store import software_version
from lab.session import TrainingSession, has_tensorboard

CHECKPOINT, RESULT, TENSORBOARD = "checkpoint.pt", "result.json", "tensorboard"
RESULTS, TABLE, PICTURE = "results.json", "table.md", "picture.png"
# What was around a training, in result.json and results.json.
AROUND = ("device", "threads", "version")

# By the name of a training, what `describe` of its result says, and the "example".
Found: TypeAlias = "dict[str, dict[str, Any]]"


def run_trials(
    args: argparse.Namespace,
    plan: Sequence[tuple[str, Any]],
    data: Any,
    train: Callable[[Any, Any, torch.device], TrainingLoop[Any, Any]],
    table: Callable[[Found], Sequence[str]],
    draw: Callable[[Found], Any] | None = None,
    example: Callable[[Any, Any], dict[str, Any]] = lambda training, result: {},
) -> Found:
    """Train all that are planned, as far as that is not done, test them, and write the files.

    Each gets a folder in -o with `checkpoint.pt`, `result.json` and, if TensorBoard is installed,
    the folder `tensorboard`; -o itself gets `results.json`, `table.md` and `picture.png`.

    Args:
        args: with the options of `script.add_execution`.
        plan: the name of each training, which is that of its folder, and its settings.
        data: of all trainings.
        train: makes a training of settings, data and a device.
        table: the lines of the table.
        draw: makes the figure, if there is one.
        example: what a picture shows, as plain values, from a training and its result.

    Raises:
        ValueError: if a training is planned twice, or is there already, or one of other settings,
            data or more steps.
    """
    device = script.device_of(args)
    for k, (name, _) in enumerate(plan):
        if name in [other for other, _ in plan[:k]]:
            raise ValueError(f"{name} is named twice; name each training once")
    out = script.output_folder(args)
    if not args.resume and any((out / name / CHECKPOINT).exists() for name, _ in plan):
        raise ValueError(
            f"{out} has trainings already; go on with --resume, or name another folder with -o"
        )
    found = {
        name: _result(train(settings, data, device), out / name, args.save_every, example)
        for name, settings in plan
    }
    script.write_json(out / RESULTS, {"trainings": found, **_around(device)})
    text = "\n".join([*table(found), ""])
    script.write_whole(out / TABLE, text.encode())
    written = [RESULTS, TABLE] + ([_save_picture(out / PICTURE, draw, found)] if draw else [])
    print(f"{text}\n{out}: {', '.join(written)}")
    return found


def _result(
    training: TrainingLoop[Any, Any],
    folder: Path,
    save_every: float,
    example: Callable[[Any, Any], dict[str, Any]],
) -> dict[str, Any]:
    steps = training.settings.steps
    signature = json.loads(json.dumps(training.signature()))
    if (folder / RESULT).exists():
        values = json.loads((folder / RESULT).read_text())
        if values["signature"] == signature and values["result"]["step"] == steps:
            return values["result"]
    folder.mkdir(parents=True, exist_ok=True)
    board = folder / TENSORBOARD if has_tensorboard() else None
    file = folder / CHECKPOINT
    with TrainingSession(folder.name, steps, curves=board) as session:
        drive(
            training, checkpoint=file, resume=file.exists(), save_every=save_every,
            callback=session.each_step,
        )  # fmt: skip
    found = training.result()
    result = {**found.describe(), "example": example(training, found)}
    values = {"signature": signature, "result": result, **_around(training.device)}
    script.write_json(folder / RESULT, values)
    return result


def _around(device: torch.device) -> dict[str, Any]:
    values = str(device), torch.get_num_threads(), software_version()
    return dict(zip(AROUND, values, strict=True))


def _save_picture(path: Path, draw: Callable[[Found], Any], found: Found) -> str:
    """Write a figure to a PNG; what the last line of a script says of it."""
    try:
        figure = draw(found)
    except ImportError:
        return "no picture, which needs Matplotlib: pip install matplotlib"
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    script.write_whole(path, file.getvalue())
    return path.name


# ---------------------------------------------------------------------------------------------
# what is kept of trainings


def kept_results(
    folders: Sequence[Path] | Mapping[str, Sequence[Path]],
    *,
    history: bool = True,
    first_examples: bool = False,
) -> dict[str, Any]:
    """What finished trainings came to, of one or several commands, as docs/results has it.

    Of the history remain the rows with an evaluation, and the last one. Empty examples are left
    out. Where trainings of different lengths have one name, all names get the steps, as in
    "smoothing-120-seed0". What was around the trainings is a list where it was not the same for
    all, in the order they come.

    Args:
        folders: of trainings, or of `run_trials`, whose trainings come in its order; or such
            folders by the name of a set.
        history: whether any of it is kept.
        first_examples: whether only the first seed of each keeps its example.

    Returns:
        "trainings", by name, or by the name of their set and their own; and "device", "threads" and
        "version" as far as they are known.

    Raises:
        ValueError: if a folder has no finished training, or one stands twice in a set.
    """
    around: dict[str, list[Any]] = {name: [] for name in AROUND}

    def of_set(some: Sequence[Path]) -> dict[str, Any]:
        found: list[tuple[str, dict[str, Any]]] = []
        for file in (file for folder in some for file in _finished(folder)):
            values = json.loads(file.read_text(encoding="utf-8"))
            found.append((file.parent.name, _slim(values["result"], history)))
            for name in AROUND:
                if name in values and values[name] not in around[name]:
                    around[name].append(values[name])
        names = _distinct(found)
        if first_examples:
            kinds = [name.rpartition("-seed")[0] for name in names]
            for k, (_, result) in enumerate(found):
                if kinds[k] in kinds[:k]:
                    result.pop("example", None)
        return {name: result for name, (_, result) in zip(names, found, strict=True)}

    if isinstance(folders, Mapping):
        trainings = {name: of_set(some) for name, some in folders.items()}
    else:
        trainings = of_set(folders)
    return {"trainings": trainings, **_one_or_list(around)}


def joined(kept: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two returns of `kept_results` as one: the trainings, or sets of them, of both.

    Raises:
        ValueError: if a training or a set stands in both.
    """
    for name in more["trainings"]:
        if name in kept["trainings"]:
            raise ValueError(f"{name!r} stands there already; take another name or file")
    around: dict[str, list[Any]] = {}
    for name in AROUND:
        each = [values[name] for values in (kept, more) if name in values]
        around[name] = list(dict.fromkeys(x for v in each for x in (v if type(v) is list else [v])))
    return {"trainings": {**kept["trainings"], **more["trainings"]}, **_one_or_list(around)}


def _one_or_list(around: Mapping[str, list[Any]]) -> dict[str, Any]:
    """What was the same for all as it is, else the list; without what is not known."""
    return {name: v[0] if len(v) == 1 else v for name, v in around.items() if v}


def _finished(folder: Path) -> list[Path]:
    """The result.json of a training, or of all trainings of a folder, in their order."""
    if (folder / RESULT).is_file():
        return [folder / RESULT]
    files = sorted(folder.glob(f"*/{RESULT}"))
    if not files:
        raise ValueError(
            f"{folder} has no finished training; name the folder -o of a script, or that of one of "
            "its trainings"
        )
    if (folder / RESULTS).is_file():
        names = list(json.loads((folder / RESULTS).read_text(encoding="utf-8"))["trainings"])
        order = {name: k for k, name in enumerate(names)}
        files.sort(key=lambda file: order.get(file.parent.name, len(order)))
    return files


def _slim(result: Mapping[str, Any], history: bool) -> dict[str, Any]:
    slim = {key: value for key, value in result.items() if key != "example" or value}
    if not history:
        slim.pop("history", None)
    elif rows := slim.get("history"):
        slim["history"] = [row for row in rows if row is rows[-1] or row.keys() - {"step", "loss"}]
    return slim


def _distinct(found: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The names of trainings, with the steps if they are not enough."""
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        parts = [(*name.rpartition("-seed"), result["step"]) for name, result in found]
        names = [f"{head}-{step}{mark}{seed}" for head, mark, seed, step in parts]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise ValueError(f"the training {name} stands twice; name its folder once")
    return names
