"""A training that takes long: the session of a command, with curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor
from tqdm import tqdm

from gendr.cli.command_line import say
from gendr.cli.progress import Session
from gendr.jobs.training import TrainingLoop

__all__ = ["TrainingSession", "has_tensorboard"]


def has_tensorboard() -> bool:
    """Whether `Curves` are written."""
    return find_spec("tensorboard") is not None


class Curves:
    """What TensorBoard shows, if it is installed. If it cannot be written, the run goes on.

    Args:
        folder: for its files; None draws nothing.
        step: the step that the run goes on from; what is there of later ones is dropped.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self._writer: Any = None
        if folder is None or not has_tensorboard():
            return
        with self._or_none():
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder), purge_step=step or None)

    @property
    def are_drawn(self) -> bool:
        """Whether anything is written."""
        return self._writer is not None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each of these curves."""
        with self._or_none():
            for name, value in values.items():
                if self._writer is not None:
                    self._writer.add_scalar(name, value, step)

    def add_picture(self, step: int, name: str, pixels: Tensor) -> None:
        """Add a picture, uint8 [3, H, W]."""
        with self._or_none():
            if self._writer is not None:
                self._writer.add_image(name, pixels, step)
                self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        with self._or_none():
            if self._writer is not None:
                self._writer.close()
        self._writer = None

    @contextmanager
    def _or_none(self) -> Generator[None, None, None]:
        """After an error of the disk, say so and draw no more: checkpoints may still fit."""
        try:
            yield
        except OSError as error:
            self._writer = None
            reason = error.strerror or type(error).__name__
            say("gendr", f"warning: no more curves of this training: {reason}")


class TrainingSession(Session):
    """The session of a training.

    Args:
        name: of the training, before the bar.
        total: steps in all; None if something else ends it.
        quiet: whether there is no bar.
        curves: the folder for TensorBoard; None writes nothing.

    Attributes:
        curves: from `begin` on.
    """

    def __init__(
        self, name: str, total: int | None, *, quiet: bool = False, curves: Path | None = None
    ) -> None:
        super().__init__(name, total, quiet=quiet)
        self._folder, self.curves, self._rows = curves, Curves(None, 0), 0

    def close(self) -> None:
        """End the bar and the curves."""
        super().close()
        self.curves.close()

    def begin(self, done: int) -> tqdm[Any]:
        """Show the bar and begin the curves; what was done before does not count for the speed."""
        self.curves = Curves(self._folder, done)
        return super().begin(done)

    def each_step(self, training: TrainingLoop[Any, Any]) -> None:
        """Show the step of a training that is done, and draw what is new in its history.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM.
        """
        if self._bar is None:  # rows of before were drawn before
            self.begin(training.step)
            self._rows = sum(row["step"] < training.step for row in training.history)
        for row in training.history[self._rows :]:
            self.curves.add(int(row["step"]), {name: row[name] for name in row if name != "step"})
        self._rows = len(training.history)
        super().each_step(training)
