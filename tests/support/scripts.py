"""Scripts of the repository in the process of a test: their main, their refusals, their signals."""

from __future__ import annotations

import importlib
import re
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def imported(patch: Any, name: str, folder: str = "experiments") -> ModuleType:
    """A script as a module.

    Args:
        patch: pytest's monkeypatch, until whose end the script finds what is beside itself.
        name: of its file, without the ending.
        folder: that the file is in.
    """
    patch.syspath_prepend(str(ROOT / folder))
    if folder != "experiments":
        # Two folders may have a file of this name, and the package a module.
        patch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def refusal(capsys: Any, name: str) -> str:
    """What a script said last on stderr, which must be one line with its name and "error".

    Args:
        capsys: of pytest.
        name: of the script.

    Raises:
        AssertionError: if it is something else.
    """
    line = capsys.readouterr().err.splitlines()[-1]
    if not re.match(rf"{name}\.py( \w+)?: error: ", line):
        raise AssertionError(f"no message of {name}.py: {line!r}")
    return line


@contextmanager
def signalled(
    kind: type[Any], when: Callable[[Any], bool], number: int = signal.SIGTERM
) -> Generator[None, None, None]:
    """The process gets a signal in the steps of trainings of a kind.

    Args:
        kind: a subclass of `TrainingLoop`.
        when: whether after this step, from the training.
        number: of the signal.
    """
    advance = kind.advance

    def interrupted(training: Any) -> None:
        advance(training)
        if when(training):
            signal.raise_signal(number)

    with mock.patch.object(kind, "advance", interrupted):
        yield


@contextmanager
def advanced(kind: type[Any]) -> Generator[list[int], None, None]:
    """The steps that trainings of a kind begin, as they are done."""
    advance, steps = kind.advance, list[int]()

    def noted(training: Any) -> None:
        steps.append(training.step)
        advance(training)

    with mock.patch.object(kind, "advance", noted):
        yield steps
