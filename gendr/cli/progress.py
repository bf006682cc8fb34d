"""A run that takes long: what it shows on its way, when it saves, and how it ends after Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tqdm import tqdm
from typing_extensions import Self

from gendr._common.memory import give_back
from gendr.cli.command_line import Stop
from gendr.jobs.loop import Now, Pace, Progress
from gendr.jobs.training import TrainingLoop

__all__ = ["Session"]

# Checkpoints take at most this part of the time.
_SAVING = 0.05
# Seconds between two previews, which take at most this part of the time.
PREVIEW_SECONDS, _PREVIEWING = 5.0, 0.03


class Session:
    """The one runner of commands, from a start or where it was resumed to the end or interruption.

    It is told of every step that is done (`after`, or the `tell` of a `part`), moves a bar, saves
    now and then and in the end, and ends the run after Ctrl-C, with what was done last saved.

    Args:
        name: of the run, before the bar.
        total: what the bar counts to; None if something else ends the run.
        unit: what it counts.
        quiet: whether there is no bar.
        every: seconds between two checkpoints.
        at_once: whether Ctrl-C and SIGTERM do not wait, see `Stop`.

    Attributes:
        stop: which tells of signals.
        place: where the run is, such as "after step 3 of 7", and what --resume goes on with: what
            is said after an interruption. None says nothing.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        unit: str = "step",
        *,
        quiet: bool = False,
        every: float = 10.0,
        at_once: bool = False,
    ) -> None:
        self.stop = Stop(at_once=at_once)
        self.place: tuple[str, str] | None = None
        self._name, self._total, self._unit, self._quiet = name, total, unit, quiet
        self._pace, self._unsaved = Pace(every, _SAVING), None
        self._previews = Pace(PREVIEW_SECONDS, _PREVIEWING)
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.stop.__enter__()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, *_: object) -> None:
        self.close()
        self.stop.__exit__()
        if not isinstance(error, KeyboardInterrupt):
            return
        self.save()
        if self.place is not None:
            where, source = self.place
            error.args = (f"stopped {where}; the same command with --resume goes on {source}",)

    def after(
        self, now: Now, save: Callable[[], object], preview: Callable[[], object] | None = None
    ) -> None:
        """A step is done: save now and then and in the end, and end if there was a signal.

        Args:
            now: what it has come to.
            save: writes that.
            preview: shows it, now and then.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM.
        """
        self._unsaved = save
        if self._pace.is_due or now.progress >= 1:
            self.save()
        self.stop.check()
        if preview is not None and self._previews.is_due:
            with self._previews.paused():
                preview()

    def save(self) -> None:
        """Save what was done last, if it is not saved yet."""
        save, self._unsaved = self._unsaved, None
        if save is not None:
            with self._pace.paused():
                save()

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()

    def begin(self, done: int) -> tqdm[Any]:
        """Show the bar; what was done before does not count for its speed."""
        self._bar = tqdm(
            total=self._total, initial=done, desc=self._name, unit=self._unit,
            disable=self._quiet, dynamic_ncols=True,
        )  # fmt: skip
        return self._bar

    def show(self, done: int, **numbers: float) -> None:
        """Move the bar, which begins at the first time, and say the latest numbers."""
        bar = self.begin(done) if self._bar is None else self._bar
        for name, value in numbers.items():
            self._shown[name] = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        bar.set_postfix(self._shown, refresh=False)
        bar.update(min(done, self._total or done) - bar.n)

    @contextmanager
    def part(
        self, name: str, keep: Callable[[Mapping[str, Any]], object] | None = None
    ) -> Generator[Callable[[float], None], None, None]:
        """A bar of its own that goes away at the end, and the callback of some work.

        It tells the time left, by the mean speed so far. Memory that is free then goes back to the
        system, lest the next part begin with it.

        Args:
            name: of the work.
            keep: saves the state of its progress.
        """
        last: Mapping[str, Any] | None = None
        with tqdm(
            total=100, desc=name, unit="%", disable=self._quiet, leave=False, smoothing=0
        ) as bar:

            def tell(done: float) -> None:
                nonlocal last
                now = done if isinstance(done, Progress) else Progress(done)
                bar.set_postfix_str(now.stage, refresh=False)
                bar.update(int(100 * now) - bar.n)
                if keep is not None and now.state is not None and now.state is not last:
                    last = now.state
                    self._unsaved = partial(keep, last)
                    if self._pace.is_due:
                        self.save()
                self.stop.check()

            try:
                yield tell
            finally:
                self.save()
                give_back()

    def each_step(self, training: TrainingLoop[Any, Any]) -> None:
        """Show the step of a training that is done, and the latest row of its history.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM.
        """
        row = training.history[-1] if training.history else {}
        self.show(training.step, **{name: row[name] for name in row if name != "step"})
        self.stop.check()
