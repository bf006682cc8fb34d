"""The command line: `gendr fit`, `gendr render`, `gendr report`, `gendr list`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from gendr.cli.parser import build_parser

__all__ = ["main"]

BAD_INPUT, INTERRUPTED = 2, 130


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
        args = build_parser().parse_args(argv)
    except SystemExit as end:  # --help, --version, bad usage: argparse printed its message
        return end.code if isinstance(end.code, int) else BAD_INPUT
    return _run(args)


def _run(args: Any) -> int:
    import warnings

    # The modules of the commands are slow to import; what argparse answers does not load them.
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            if args.command == "fit":
                from gendr.cli.fit import run
            elif args.command == "render":
                from gendr.cli.render import run
            elif args.command == "report":
                from gendr.cli.report import run
            else:
                from gendr.cli.listing import run
            with _threads(args):
                return run(args)
        except KeyboardInterrupt:
            _say("interrupted")
            return INTERRUPTED
        except BrokenPipeError:  # such as `gendr list | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            if args.debug:
                raise
            _say(f"error: {_one_line(error)}")
            return BAD_INPUT


@contextmanager
def _threads(args: Any) -> Generator[None, None, None]:
    """Run the kernels on all cores, or on as many threads as asked for, and torch on one.

    Torch's tensors are small here, and on a busy machine its threads wait for each other: beside
    another program a fit took six times as long.
    """
    import torch

    from gendr.rendering.backends.cpu import backend as cpu

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    cpu.set_num_threads(getattr(args, "threads", None) or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        cpu.set_num_threads(None)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _say(text: str) -> None:
    sys.stderr.write(f"gendr: {text}\n")


def _show_warning(message: Any, *_: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")
