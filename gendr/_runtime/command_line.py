"""What all programs have in common: how they read options, and how they end.

Exit status: what the program returns, by default 0; 2 for bad input, with one line on stderr that
says what is wrong; 130 after Ctrl-C. Imports nothing heavy, so that --help is instant.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gendr._runtime.names import unknown

BAD_INPUT, INTERRUPTED = 2, 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        say(self.prog, f"error: {' '.join(message.split())}; see {self.prog} --help")
        raise SystemExit(BAD_INPUT)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices, as argparse does, but name the nearest of them."""
        if action.choices is None or value in action.choices:
            return
        what = action.metavar or action.dest
        names = [str(choice) for choice in action.choices]
        raise argparse.ArgumentError(None, unknown(str(what), value, names))


def count(least: int) -> Callable[[str], int]:
    """The type of options that are whole numbers of at least `least`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least:
            raise argparse.ArgumentTypeError(f"must be a whole number >= {least}, got {text!r}")
        return number

    return parse


def run_program(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int | None],
    argv: Sequence[str] | None = None,
    *,
    resumes: Callable[[argparse.Namespace], bool] = lambda args: False,
) -> int:
    """Read the options and run a program with them.

    With an option --debug, bad input shows its traceback.

    Args:
        parser: Best a `Parser`.
        run: The program; may return an exit status.
        argv: The arguments without the name of the program; by default those of the process.
        resumes: Whether the same command with --resume goes on after an interruption.

    Returns:
        The exit status.
    """
    try:
        args = parser.parse_args(argv)
    except SystemExit as end:  # --help, --version and mistakes; the parser has spoken
        return end.code if isinstance(end.code, int) else BAD_INPUT
    try:
        return run(args) or 0
    except KeyboardInterrupt:
        hint = "; the same command with --resume goes on" if resumes(args) else ""
        say(parser.prog, f"stopped{hint}")
        return INTERRUPTED
    except BrokenPipeError:  # such as `gendr list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MemoryError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error) as error:
        if getattr(args, "debug", False):
            raise
        say(parser.prog, f"error: {_one_line(error)}")
        return BAD_INPUT


def say(program: str, text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"{program}: {text}\n")


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
