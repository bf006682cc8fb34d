"""`train.py`: training with checkpoints, validation and a report."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch

from gendr._common.files import write_whole
from gendr.cli.command_line import INTERRUPTED, say
from gendr.cli.common import as_json, check_checkpoint, versions
from gendr.jobs.folders import locked, writable_folder
from gendr.kernels.threads import num_threads, set_num_threads
from gendr.photos import visual
from lab.reconstruction.commands.options import Reconstruction
from lab.reconstruction.evaluation import ClassScore, evaluate
from lab.reconstruction.pictures import silhouette_sheet
from lab.reconstruction.ranks import Ranks, joined
from lab.reconstruction.renderings import VIEWS, ShapeNetRenderings
from lab.reconstruction.training import Losses, Training
from lab.session import TrainingSession

CHECKPOINT, METRICS, CURVES = "checkpoint.pt", "metrics.json", "tensorboard"
SCALARS_EVERY = 20  # steps
T = TypeVar("T")


def run(args: Reconstruction) -> int:
    """Run `train.py` and return the exit status."""
    with joined(args.device) as ranks, _threads(args.threads):
        return _train(args, ranks)


def _train(args: Reconstruction, ranks: Ranks) -> int:
    if args.validation_views > VIEWS:
        raise ValueError(f"--validation-views must be at most {VIEWS}")
    ranks.share(args.settings.batch)
    # Compressed files are unpacked by the first process, and found by those beside it.
    data = _read_first(ranks, lambda: ShapeNetRenderings(args.data, args.classes))
    out = Path(args.output)
    with _locked(out, args.resume) if ranks.is_first else nullcontext():
        training = Training(data, args.settings, ranks.device, ranks)
        if args.resume:
            training.restore(out / CHECKPOINT)
        validation = _read_first(ranks, lambda: _validation(args.data, data))
        report = _TrainingReport(args, training, validation, out)
        with report.session:
            finished = report.train()
        if finished:
            report.finish()
        else:
            report.stopped()
        # Torchrun ends all processes when one has ended with an error or an interruption.
        ranks.wait_for_all()
    return 0 if finished else INTERRUPTED


def _read_first(ranks: Ranks, read: Callable[[], T]) -> T:
    """What is read, by the first process before all others."""
    if ranks.is_first:
        found = read()
        ranks.wait_for_all()
        return found
    ranks.wait_for_all()
    return read()


@contextmanager
def _locked(out: Path, resume: bool) -> Generator[None, None, None]:
    """Hold the folder of a training that goes on, or begins.

    Raises:
        ValueError: if there is nothing to go on with, something that would be lost, or another
            process that trains there.
    """
    checkpoint = out / CHECKPOINT
    if resume:
        check_checkpoint(out, CHECKPOINT)
    elif checkpoint.is_file():
        raise ValueError(
            f"{out} holds the {CHECKPOINT} of a training; go on from it with --resume, or choose "
            "another folder with -o"
        )
    with locked(writable_folder(out)):
        yield


def _validation(folder: str, data: ShapeNetRenderings) -> ShapeNetRenderings | None:
    """The validation split of the classes that have one; None if there is none."""
    ids = [one.id for one in data.classes if (Path(folder) / f"{one.id}_val_images.npz").is_file()]
    return ShapeNetRenderings(folder, ids, "val") if ids else None


@contextmanager
def _threads(count: int | None) -> Generator[None, None, None]:
    """So many threads for torch and the kernels; results depend on torch's in the last digits."""
    if count is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        set_num_threads(None)


class _TrainingReport:
    """The output of a training: a bar, checkpoints, curves, results."""

    def __init__(
        self,
        args: Reconstruction,
        training: Training,
        validation: ShapeNetRenderings | None,
        out: Path,
    ) -> None:
        self.args, self.training, self.validation, self.out = args, training, validation, out
        self.first = training.ranks.is_first  # only this process writes and speaks
        self.quiet = args.quiet or not self.first
        self.views = visual.spread(VIEWS, args.validation_views)
        self.recent: list[Losses] = []
        self.scores: list[ClassScore] | None = None
        self.saved_step = training.step
        curves = out / CURVES if self.first else None
        self.session = TrainingSession(
            "train", training.settings.steps, quiet=self.quiet, curves=curves
        )
        self.session.begin(training.step)

    def train(self) -> bool:
        """Take the steps that are left; False if a signal ended it before. Both leave a checkpoint.

        Raises:
            ValueError: if the loss is no longer finite; the last checkpoint stands.
        """
        training, last, stop = self.training, self.training.settings.steps, self.session.stop
        # Several processes wait for each other, so that none may leave the others alone in it.
        alone = training.ranks.size == 1
        try:
            # Of several processes, all stop after the same step.
            while training.step < last and not training.ranks.any(stop.asked):
                self._note(training.advance())
                done = training.step
                if done % self.args.save_every == 0 or done == last:
                    self._save()
                if done % self.args.validate_every == 0 and done < last:
                    if not alone and self.saved_step != done:
                        self._save()  # torchrun kills what does not end soon after SIGTERM
                    stop.at_once = alone
                    self._validate()
                    stop.at_once = False
        except KeyboardInterrupt:
            if not alone:
                raise
            # Within a step the weights may be half moved; between steps there is no loss in it.
            if not stop.at_once:
                return False
        if self.saved_step != training.step:
            self._save()
        if training.step < last:
            return False
        stop.at_once = alone
        try:
            self._validate()
        except KeyboardInterrupt:
            if not alone:
                raise
            return False
        return True

    def _note(self, losses: Losses) -> None:
        training = self.training
        if not all(map(math.isfinite, losses)):
            raise ValueError(
                f"the losses of step {training.step} are {tuple(losses)}; "
                f"{self.out / CHECKPOINT} is that of step {self.saved_step}; try a smaller --lr or "
                "a larger --scale"
            )
        self.recent.append(losses)
        self.session.show(training.step, loss=losses.silhouette)
        if training.step % SCALARS_EVERY == 0:
            values = {f"loss/{name}": value for name, value in losses._asdict().items()}
            self.session.curves.add(training.step, {**values, "scale": training.scale})

    def _save(self) -> None:
        if self.recent:
            means = torch.tensor(self.recent, dtype=torch.float64).mean(0).tolist()
            record = {"step": self.training.step, **Losses(*means)._asdict()}
            self.training.history.append(record)
            self.recent.clear()
        if self.first:
            self.training.save(self.out / CHECKPOINT)
        self.saved_step = self.training.step

    def _validate(self) -> None:
        """Measure the 3D IoU, say it and keep it."""
        if self.validation is None:
            return
        scores = evaluate(
            self.training.model,
            self.validation,
            views=self.views,
            progress=not self.quiet,
            ranks=self.training.ranks,
        )
        step = self.training.step
        self.scores = scores
        self.training.history.append({"step": step, "iou": {s.name: s.iou for s in scores}})
        if self.session.curves.are_drawn:
            self.session.curves.add(step, {f"3D IoU/{score.name}": score.iou for score in scores})
            sheet = silhouette_sheet(self.training.model, self.validation)
            self.session.curves.add_picture(step, "input, prediction, truth", sheet)
        if not self.quiet:
            text = ", ".join(f"{s.name} {s.iou:.3f}" for s in scores)
            say("gendr", f"step {step}: 3D IoU {text}")

    def stopped(self) -> None:
        """Tell the user how to go on."""
        if not self.first:
            return
        total = self.training.settings.steps
        if not (self.out / CHECKPOINT).is_file():  # a second Ctrl-C, before the first checkpoint
            sys.stderr.write("gendr: stopped before the first checkpoint; nothing is saved\n")
            return
        sys.stderr.write(
            f"gendr: stopped; the same command with --resume goes on after step {self.saved_step} "
            f"of {total} from {self.out / CHECKPOINT}\n"
        )

    def finish(self) -> None:
        """Write metrics.json."""
        if not self.first:
            return
        training = self.training
        iou = None
        if self.scores is not None:
            iou = {
                s.name: {
                    "iou": s.iou,
                    "error": None if math.isnan(s.error) else s.error,
                    "shapes": s.shapes,
                }
                for s in self.scores
            }
        metrics = {
            "settings": asdict(training.settings),
            "steps": training.step,
            "seconds": round(training.seconds, 3),
            "data": str(self.args.data),
            "classes": {
                one.name: count
                for one, count in zip(training.data.classes, training.data.counts, strict=True)
            },
            "validation": None if iou is None else {"views": len(self.views), "classes": iou},
            "device": str(training.device),
            "processes": training.ranks.size,
            "threads": num_threads(),
            "versions": versions(),
            "history": training.history,
        }
        write_whole(self.out / METRICS, as_json(metrics))
        if not self.quiet:
            sys.stdout.write(
                f"{training.step} steps in {training.seconds:.0f} s\n"
                f"{self.out}: {CHECKPOINT}, {METRICS}\n"
            )
