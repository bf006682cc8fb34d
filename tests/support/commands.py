"""Commands of `gendr` in the process of a test: what they end with, say and leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gendr.cli import main
from gendr.jobs.folders import SOURCES


def run(*argv: object) -> int:
    """The exit status of a command."""
    return main([str(word) for word in argv])


def refused(capsys: Any, *argv: object) -> str:
    """The one line with which a command ends that refuses its input."""
    capsys.readouterr()
    assert run(*argv) == 2, argv
    shown = capsys.readouterr()
    assert shown.out == "", argv
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


def names(folder: Path) -> set[str]:
    """The names of the files in a folder, but of that by which `--resume` knows it."""
    return {path.name for path in folder.iterdir()} - {SOURCES}


def facts(folder: Path, name: str = "metrics.json") -> Any:
    """What a file of JSON in a folder holds."""
    return json.loads((folder / name).read_text())
