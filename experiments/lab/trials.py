"""Several trainings of one experiment, one after the other, each in a folder of its own.

An interruption costs nothing that was done: with `resume`, finished trainings are read from their
files, and the one that was stopped goes on from its checkpoint. At the end, `write_results` writes
what they came to: results.json, table.md and picture.png. `kept_results` joins what trainings of
several commands came to, for a file that the documentation is made from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gendr._runtime.progress import Session, has_tensorboard
from gendr._runtime.training import Training, drive
from lab import script
from lab.engine.store import software_version

__all__ = ["Trial", "joined", "kept_results", "run_trials", "write_results"]

CHECKPOINT, RESULT, TENSORBOARD = "checkpoint.pt", "result.json", "tensorboard"
RESULTS, TABLE, PICTURE = "results.json", "table.md", "picture.png"
# What was around a training, in result.json and results.json.
AROUND = ("device", "threads", "version")


class Trial(NamedTuple):
    """One of the trainings.

    Attributes:
        name: of its folder, and before its bar.
        start: makes the training.
        example: what a picture shows, as plain values, from the training and its result.
    """

    name: str
    start: Callable[[], Training[Any, Any]]
    example: Callable[[Any, Any], dict[str, Any]]


def run_trials(
    trials: Sequence[Trial], out: Path, *, resume: bool = False, save_every: float = 60.0
) -> dict[str, dict[str, Any]]:
    """Train all of them, as far as that is not done, and test them.

    Each gets a folder with `checkpoint.pt`, `result.json` and, if TensorBoard is installed, the
    folder `tensorboard`.

    Args:
        trials: with different names.
        out: the folder of their folders.
        resume: whether to go on with what is there; else there must be nothing.
        save_every: seconds between two checkpoints.

    Returns:
        By name, what `describe` of the result says, and the "example".

    Raises:
        ValueError: if there is a training already, or one of other settings, data or more steps.
    """
    for trial in trials:
        if not resume and (out / trial.name / CHECKPOINT).exists():
            raise ValueError(
                f"{out} has trainings already; go on with --resume, or name another folder with -o"
            )
    return {trial.name: _result(trial, out / trial.name, save_every) for trial in trials}


def _result(trial: Trial, folder: Path, save_every: float) -> dict[str, Any]:
    training = trial.start()
    steps = training.settings.steps
    signature = json.loads(json.dumps(training.signature()))
    if (folder / RESULT).exists():
        values = json.loads((folder / RESULT).read_text())
        if values["signature"] == signature and values["result"]["step"] == steps:
            return values["result"]
    folder.mkdir(parents=True, exist_ok=True)
    board = folder / TENSORBOARD if has_tensorboard() else None
    file = folder / CHECKPOINT
    with Session(trial.name, steps, curves=board) as session:
        drive(
            training, checkpoint=file, resume=file.exists(), save_every=save_every,
            callback=session.each_step,
        )  # fmt: skip
    found = training.result()
    result = {**found.describe(), "example": trial.example(training, found)}
    around = _around(training.device)
    script.write_json(folder / RESULT, {"signature": signature, "result": result, **around})
    return result


def _around(device: torch.device) -> dict[str, Any]:
    return {
        "device": str(device),
        "threads": torch.get_num_threads(),
        "version": software_version(),
    }


def write_results(
    out: Path,
    found: dict[str, dict[str, Any]],
    table: str,
    draw: Callable[[], Any] | None,
    device: torch.device,
    **more: Any,
) -> str:
    """Write `results.json`, `table.md` and `picture.png`; what a script prints at its end.

    Args:
        out: the folder of the files.
        found: the trainings, as `run_trials` returns them.
        table: the text of the table.
        draw: makes the figure, if there is one; may raise ImportError if Matplotlib is not
            installed.
        device: that the trainings ran on.
        **more: other plain values for `results.json`.
    """
    script.write_json(out / RESULTS, {"trainings": found, **more, **_around(device)})
    script.write_whole(out / TABLE, table.encode())
    written = [RESULTS, TABLE]
    if draw is not None:
        written.append(_save_picture(out / PICTURE, draw))
    return f"{table}\n{out}: {', '.join(written)}"


def _save_picture(path: Path, draw: Callable[[], Any]) -> str:
    """Write a figure to a PNG; what the last line of a script says of it."""
    from io import BytesIO

    try:
        figure = draw()
    except ImportError:
        return "no picture, which needs Matplotlib: pip install matplotlib"
    file = BytesIO()
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
            for name, value in _known_around(file, values).items():
                if value not in around[name]:
                    around[name].append(value)
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
    known = {
        name: values[0] if len(values) == 1 else values for name, values in around.items() if values
    }
    return {"trainings": trainings, **known}


def joined(kept: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two returns of `kept_results` as one: the trainings, or sets of them, of both.

    Raises:
        ValueError: if a training or a set stands in both.
    """
    for name in more["trainings"]:
        if name in kept["trainings"]:
            raise ValueError(f"{name!r} stands there already; take another name or file")
    around: dict[str, Any] = {}
    for name in (name for name in AROUND if name in kept or name in more):
        values = [value for each in (kept, more) if name in each for value in _listed(each[name])]
        unique = list(dict.fromkeys(values))
        around[name] = unique[0] if len(unique) == 1 else unique
    return {"trainings": {**kept["trainings"], **more["trainings"]}, **around}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]


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


def _known_around(file: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """What was around a training; older ones have it in results.json alone."""
    whole = file.parents[1] / RESULTS
    if AROUND[0] not in values and whole.is_file():
        values = json.loads(whole.read_text(encoding="utf-8"))
    return {name: values[name] for name in AROUND if name in values}


def _slim(result: Mapping[str, Any], history: bool) -> dict[str, Any]:
    slim = {key: value for key, value in result.items() if key != "example" or value}
    if not history:
        slim.pop("history", None)
    elif rows := slim.get("history"):
        slim["history"] = [row for row in rows if row is rows[-1] or row.keys() - {"step", "loss"}]
    return slim


def _distinct(found: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The names of trainings, with the steps if they are not enough."""
    found = list(found)
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        parts = [(*name.rpartition("-seed"), result["step"]) for name, result in found]
        names = [f"{head}-{step}{mark}{seed}" for head, mark, seed, step in parts]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise ValueError(f"the training {name} stands twice; name its folder once")
    return names
