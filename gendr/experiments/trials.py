"""Several trainings of one experiment, one after the other, each in a folder of its own.

An interruption costs nothing that was done: with `resume`, finished trainings are read from their
files, and the one that was stopped goes on from its checkpoint. At the end, `write_results` writes
what they came to: results.json, table.md and picture.png.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gendr.experiments import script
from gendr.experiments.engine.store import software_version
from gendr.experiments.engine.training import Training, drive
from gendr.experiments.progress import has_tensorboard, watched

__all__ = ["Trial", "run_trials", "write_results"]

CHECKPOINT, RESULT, TENSORBOARD = "checkpoint.pt", "result.json", "tensorboard"
RESULTS, TABLE, PICTURE = "results.json", "table.md", "picture.png"


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
    with watched(trial.name, steps, board) as each_step:
        drive(
            training, checkpoint=file, resume=file.exists(), save_every=save_every,
            callback=each_step,
        )  # fmt: skip
    if training.step > steps:
        raise ValueError(
            f"{folder} has done {training.step} steps already, more than the {steps} asked for; "
            "name another folder with -o"
        )
    found = training.result()
    result = {**found.describe(), "example": trial.example(training, found)}
    script.write_json(folder / RESULT, {"signature": signature, "result": result})
    return result


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
    values = {
        "trainings": found,
        **more,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "version": software_version(),
    }
    script.write_json(out / RESULTS, values)
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
