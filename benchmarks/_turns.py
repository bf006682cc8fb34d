"""Two processes of a script that take turns: with the package of another commit, and of here."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def taking_turns(script: str, commit: str, *options: str) -> Iterator[Callable[[str], list[str]]]:
    """Give a function that asks both the same, the commit first, and returns their lines.

    Args:
        script: with --serve it answers every line of its input by one.
        commit: is checked out in a folder of its own; or the folder of a clone, with its kernels.
        options: further ones of the script.
    """
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "clone"
        if Path(commit).is_dir():
            other = Path(commit)
        else:
            subprocess.run(["git", "clone", "-q", ROOT, other], check=True)
            subprocess.run(["git", "checkout", "-q", commit], cwd=other, check=True)
        programs = [
            subprocess.Popen(
                [sys.executable, script, "--serve", *options],
                env={**os.environ, "PYTHONPATH": str(root)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            )
            for root in (other, ROOT)
        ]  # fmt: skip

        def ask(program: subprocess.Popen[str], question: str) -> str:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(question + "\n")
            return program.stdout.readline().strip()

        try:
            yield lambda question: [ask(program, question) for program in programs]
        finally:
            for program in programs:
                program.kill()
