"""The command line, also from Python: `main(["fit", "photos/"])` is `gendr fit photos/`."""

from __future__ import annotations

import argparse
import atexit
import io
import os
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from gendr._common.names import freeze, uncollected

__all__ = ["main", "program", "warnings_as_lines"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments without the program's name; by default those of the process.

    Returns:
        0, or 2 for bad input (one line on stderr says what came, what is allowed and what to do),
        or 130 if interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a sign that the terminal lacks is no error
            stream.reconfigure(errors="replace")
    try:
        from gendr.cli.command_line import run_program
        from gendr.cli.parser import build_parser

        return run_program(build_parser(), _run, argv)
    except KeyboardInterrupt:  # before there was a parser
        sys.stderr.write("gendr: stopped\n")
        return 130


def program() -> int:
    """The process of the script `gendr`: `main`, and the end of the process.

    To take apart all that PyTorch has made would take a third of a second. So the process ends
    without that, once what waits for the end (`atexit`) is done and all output has left.
    `python -m gendr` ends as Python does, for profilers that run it write what they found then.

    Returns:
        The exit status, only where output cannot leave: Python says so as it ends.
    """
    status = main()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return status
    os._exit(status)


def _run(args: argparse.Namespace) -> int:
    from gendr.cli.command_line import Stop, read_options

    # Modules of the commands are heavy; what argparse can answer never loads them.
    with warnings_as_lines():
        begins = "torch" not in sys.modules
        # Ctrl-C waits: of a library that is half imported some go on without it, and C++ aborts.
        with Stop() as stop, uncollected():
            options = read_options(args.settings_class, vars(args))
            home = "listing" if args.command == "list" else args.command
            run = import_module(f"gendr.cli.{home}").run
        stop.check()
        if begins:
            freeze()  # modules stay
        from gendr.kernels.threads import torch_on_one_thread

        with torch_on_one_thread(getattr(options, "threads", None)):
            return run(options)


@contextmanager
def warnings_as_lines() -> Generator[None]:
    """Within it a warning is one line on stderr."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Any, *_: Any) -> None:
    from gendr.cli.command_line import say

    say("gendr", f"warning: {' '.join(str(message).split())}")
