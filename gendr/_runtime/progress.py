"""What a training shows while it runs: a bar and TensorBoard; and how it ends after Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gendr._runtime.training import Training

__all__ = ["Bar", "Board", "has_tensorboard", "stoppable", "watched"]


def has_tensorboard() -> bool:
    """Whether `Board` can be used."""
    return find_spec("tensorboard") is not None


@contextmanager
def stoppable() -> Generator[Callable[[], None], None, None]:
    """A function that raises KeyboardInterrupt after Ctrl-C or SIGTERM, where it is safe to."""
    asked: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda received, _: asked.append(received))
    try:

        def check() -> None:
            if asked:
                raise KeyboardInterrupt

        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Board:
    """Writes the history to TensorBoard.

    Args:
        folder: that its files are written to.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "--tensorboard needs it: pip install '.[training]' in the repository"
            ) from None
        self._folder, self._make = folder, SummaryWriter
        self._writer: Any = None
        self._rows = 0

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, training: Training[Any, Any]) -> None:
        """What is new in the history."""
        if self._writer is None:  # from where it goes on, what was written before is void
            self._writer = self._make(str(self._folder), purge_step=training.step)
            self._rows = sum(row["step"] < training.step for row in training.history)
        for row in training.history[self._rows :]:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(name, value, int(row["step"]))
        self._rows = len(training.history)


class Bar:
    """Shows how far it is, and the last numbers of the history.

    Args:
        steps: in all; None if something else than their number ends the training.
        name: of the training.
    """

    def __init__(self, steps: int | None, name: str) -> None:
        self._bar = tqdm(total=steps, desc=name, unit="step", dynamic_ncols=True)
        self._shown: dict[str, float] = {}
        self._is_first = True

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def write(self, training: Training[Any, Any]) -> None:
        """After a step."""
        if self._is_first:  # what was done before does not count for the speed
            self._bar.initial = training.step - 1
            self._bar.n, self._is_first = training.step - 1, False
        row = training.history[-1] if training.history else {}
        new = {name: value for name, value in row.items() if name != "step"}
        if {**self._shown, **new} != self._shown:
            self._shown |= new
            text = {name: f"{value:.3f}" for name, value in self._shown.items()}
            self._bar.set_postfix(text, refresh=False)
        self._bar.update()


@contextmanager
def watched(
    name: str, steps: int | None, board: Path | None
) -> Generator[Callable[[Training[Any, Any]], None], None, None]:
    """The function to call after every step of a training: it shows it, and stops after Ctrl-C.

    Args:
        name: of the training, before the bar.
        steps: in all; None if something else than their number ends the training.
        board: the folder for TensorBoard; None writes nothing.
    """
    with ExitStack() as stack:
        stop = stack.enter_context(stoppable())
        writers: list[Bar | Board] = [stack.enter_context(Bar(steps, name))]
        if board is not None:
            writers.append(stack.enter_context(Board(board)))

        def each_step(training: Training[Any, Any]) -> None:
            for writer in writers:
                writer.write(training)
            stop()

        yield each_step
