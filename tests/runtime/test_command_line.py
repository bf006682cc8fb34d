"""How programs read their options and how they end."""

import argparse
import os
import sqlite3
import subprocess
import sys

import pytest

from gendr._runtime.command_line import Parser, count, run_program


@pytest.fixture
def parser():
    parser = Parser(prog="try")
    parser.add_argument("--kind", choices=("plain", "squared", "both", "none"))
    parser.add_argument("--steps", type=count(2))
    parser.add_argument("--debug", action="store_true")
    return parser


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kind", "squard"], "unknown kind 'squard'; allowed: squared, both, none, plain"),
        (["--steps", "1"], "argument --steps: must be a whole number >= 2, got '1'"),
        (["--steps", "2.0"], "argument --steps: must be a whole number >= 2, got '2.0'"),
        (["--step5"], "unrecognized arguments: --step5"),
    ],
)
def test_mistakes_end_in_one_line_that_points_to_the_help(parser, options, said, capsys):
    assert run_program(parser, lambda args: 0, options) == 2
    assert capsys.readouterr().err == f"try: error: {said}; see try --help\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("the first line\nand the second"), "the first line and the second"),
        (RuntimeError(), "RuntimeError"),
        (FileNotFoundError(2, "No such file", "a.obj"), "a.obj: No such file"),
        (sqlite3.OperationalError("database is locked"), "database is locked"),
    ],
)
def test_errors_end_in_one_line_but_for_debug(parser, error, said, capsys):
    def fail(args):
        raise error

    assert run_program(parser, fail, []) == 2
    assert capsys.readouterr().err == f"try: error: {said}\n"
    with pytest.raises(type(error)):
        run_program(parser, fail, ["--debug"])


def test_the_status_is_what_the_program_returns(parser):
    assert run_program(parser, lambda args: args.steps, ["--steps", "3"]) == 3
    assert run_program(parser, lambda args: None, []) == 0
    assert run_program(argparse.ArgumentParser(), lambda args: 3, ["--help"]) == 0


def test_a_reader_that_has_gone_is_no_error():
    code = (
        "from gendr._runtime.command_line import Parser, run_program\n"
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
