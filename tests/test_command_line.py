"""How programs read their options and how they end."""

import argparse
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from unittest import mock

import pytest

from gendr import __version__
from gendr.cli.command_line import (
    Parser,
    above,
    add_options,
    count,
    group,
    option,
    read_options,
    run_program,
)


@dataclass(frozen=True)
class Inner:
    """Settings of the library.

    Attributes:
        steps: of Adam, 100 % of
            them.
        rate: how fast.
        size: of the inner one.
    """

    steps: int = option(5, count(1))
    rate: float | None = option(None, above(0, 1), flags="--speed")
    size: int = option(1, count(1))
    hidden: int = 7


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Settings of a command.

    Attributes:
        name: of it.
        size: of the outer one.
    """

    name: str = option(metavar="NAME", flags="")
    inner: Inner = group(Inner)
    size: int | None = option(None, count(3))
    sides: tuple[int, ...] = option((1, 2), count(1), nargs="+")
    fast: bool = option(False)
    even: bool | None = option(None)


def test_options_are_the_fields_of_settings(capsys):
    parser = Parser(prog="try")
    add_options(parser, Outer, {"how fast": "fast rate"})
    assert "of Adam, 100 % of them\n" in (text := parser.format_help())
    assert "how fast:\n  --fast\n  --speed X" in text
    assert "of the inner one" not in text

    def read(*words):
        return read_options(Outer, vars(parser.parse_args(words)))

    assert read("a") == Outer(name="a", inner=Inner())
    words = "a --steps 2 --speed .5 --size 4 --sides 3 4 --fast --no-even".split()
    wanted = Outer(name="a", inner=Inner(2, 0.5), size=4, sides=(3, 4), fast=True, even=False)
    assert read(*words) == wanted
    for words, said in (
        ("", "required: NAME"),
        ("a --steps 0", "--steps: must be a whole number >= 1, got '0'"),
        ("a --speed 1", "--speed: must be between 0 and 1, ends excluded, got 1"),
        ("a --size 2", "--size: must be a whole number >= 3, got '2'"),
        ("a --steps 1" + "0" * 20, "--steps: must be a whole number >= 1 and < 2^63, got '1"),
    ):
        with pytest.raises(SystemExit):
            read(*words.split())
        assert said in capsys.readouterr().err


@pytest.fixture
def parser():
    parser = Parser(prog="try")
    parser.add_argument("--kind", choices=("plain", "squared", "both", "none"))
    parser.add_argument("--steps", type=count(2))
    parser.add_argument("--debug", action="store_true")
    return parser


def test_programs_end_with_a_status_and_errors_in_one_line(parser, capsys):
    """But for `--debug`; mistakes in options point to the help."""
    for options, said in (
        (["--kind", "squard"], "unknown kind 'squard'; allowed: squared, both, none, plain"),
        (["--steps", "1"], "argument --steps: must be a whole number >= 2, got '1'"),
        (["--steps", "2.0"], "argument --steps: must be a whole number >= 2, got '2.0'"),
        (["--step5"], "unrecognized arguments: --step5"),
    ):
        assert run_program(parser, lambda args: 0, options) == 2
        assert capsys.readouterr().err == f"try: error: {said}; see try --help\n"
    for error, said in (
        (ValueError("the first line\nand the second"), "the first line and the second"),
        (RuntimeError(), "RuntimeError"),
        (FileNotFoundError(2, "No such file", "a.obj"), "a.obj: No such file"),
        (sqlite3.OperationalError("database is locked"), "database is locked"),
    ):
        fail = mock.Mock(side_effect=error)
        assert run_program(parser, fail, []) == 2
        assert capsys.readouterr().err == f"try: error: {said}\n"
        with pytest.raises(type(error)):
            run_program(parser, fail, ["--debug"])
    assert run_program(parser, lambda args: args.steps, ["--steps", "3"]) == 3
    assert run_program(parser, lambda args: None, []) == 0
    assert run_program(argparse.ArgumentParser(), lambda args: 3, ["--help"]) == 0


def test_a_reader_that_has_gone_is_no_error():
    code = (
        "from gendr.cli.command_line import Parser, run_program\n"
        "def run(args):\n"
        "    for _ in range(10**6):\n"
        "        print('a long line that fills the pipe')\n"
        "raise SystemExit(run_program(Parser(prog='try'), run, []))\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 0
    assert ended.stderr == b""


def test_a_process_ends_without_being_taken_apart():
    """With its status, all output, and what waits for its end."""
    text = (
        "import atexit, sys\n"
        "from gendr.cli import program\n"
        "class Last: __del__ = lambda self: print('taken apart')\n"
        "kept = Last()\n"
        "atexit.register(print, 'at the end')\n"
        "sys.argv[0] = 'gendr'\n"
        "sys.exit(program())"
    )
    for given, status, said in (("--version", 0, f"gendr {__version__}\n"), ("--no", 2, "")):
        command = [sys.executable, "-c", text, given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, f"{said}at the end\n")
        assert len(done.stderr.splitlines()) == (status == 2)
    # Of a module, as profilers run it, they write what they found after its end.
    profiled = [sys.executable, "-m", "cProfile", "-m", "gendr", "--version"]
    assert " function calls " in subprocess.check_output(profiled, text=True)
