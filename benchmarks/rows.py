"""Rows of measurements: each printed when it is known, all of them written at the end."""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import torch

import gendr
from lab import script

__all__ = ["Rows", "make_parser", "measured_on"]

ROOT = Path(__file__).resolve().parents[1]


def make_parser(text: str | None, file: str) -> argparse.ArgumentParser:
    """A parser with --out.

    Args:
        text: the docstring of the script; its first line is what --help says.
        file: what is written.
    """
    parser = argparse.ArgumentParser(description=(text or "").split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"where {file} goes")
    return parser


def measured_on() -> dict[str, str]:
    """The date, the commit and the machine, for a row."""
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {"date": str(date.today()), "commit": commit.strip(), "machine": _processor()}


def _processor() -> str:
    """What the machine calls its processor."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":", 1)[1].strip() if names else platform.machine()


class Rows:
    """The rows of a table."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row and print it."""
        self.rows.append(row)
        shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(" ".join(shown), flush=True)

    def write(self, folder: Path | None, file: str, **facts: Any) -> None:
        """Write all rows after what holds for all of them; without a folder, nothing.

        Raises:
            OSError: with the path, if that fails.
        """
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            facts |= {"threads": torch.get_num_threads(), "version": gendr.__version__}
            script.write_json(folder / file, {**facts, "rows": self.rows})
