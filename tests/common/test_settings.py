"""Settings that their annotations check, and that the command line reads."""

import argparse
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest

from gendr.cli.command_line import add_options, group, read_options, seconds
from gendr.jobs.settings import Range, changed, check_settings


@dataclass(frozen=True)
class Plain:
    """Settings of a test.

    Attributes:
        steps: how many.
        rate: of them.
        how: they are done.
        also: or not at all.
        time: after which it ends.
        inner: no option.
    """

    steps: Annotated[int, Range(1)] = 5
    rate: Annotated[float | None, Range(0, 1, closed=False)] = None
    how: Literal["fast", "well"] = "fast"
    also: Literal["a", "b"] | None = None
    time: Annotated[float | None, Range(0, closed=False)] = None
    inner: Annotated[int, Range(0)] = 0

    def __post_init__(self):
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class Command:
    groups: ClassVar = {"some": "steps rate how also time"}

    settings: Plain = group(Plain, time=(seconds, "TIME"))


def test_annotations_are_checked():
    Plain(rate=0.5, also="b", time=1e-3)
    for values, error, said in (
        ({"steps": 0}, ValueError, "steps must be >= 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an int"),
        ({"steps": None}, TypeError, "steps must be an int"),
        ({"rate": 1}, ValueError, "rate must be"),
        ({"rate": "x"}, TypeError, "rate must be a number"),
        ({"time": 0}, ValueError, "time must be > 0, got 0"),
        ({"how": "slow"}, ValueError, "unknown how 'slow'"),
        ({"how": None}, ValueError, "unknown how None"),
        ({"also": "c"}, ValueError, "unknown also 'c'"),
        ({"inner": -1}, ValueError, "inner must be >= 0"),
    ):
        with pytest.raises(error, match=said):
            Plain(**values)
    assert changed(Plain(), "setting", {"steps": 7}) == Plain(steps=7)
    with pytest.raises(ValueError, match="unknown setting 'step'; allowed: steps"):
        changed(Plain(), "setting", {"step": 7})


def test_the_command_line_reads_plain_settings(capsys):
    parser = argparse.ArgumentParser()
    add_options(parser, Command, Command.groups)
    words = "--steps 7 --rate 0.5 --how well --also b --time 2m".split()
    found = read_options(Command, vars(parser.parse_args(words)))
    assert found.settings == Plain(7, 0.5, "well", "b", 120.0)
    assert read_options(Command, vars(parser.parse_args([]))).settings == Plain()
    for words, said in (
        ("--steps 1.5", "must be a whole number >= 1, got '1.5'"),
        ("--rate 1", "must be between 0 and 1, ends excluded"),
        ("--how slow", "invalid choice: 'slow'"),
        ("--inner 3", "unrecognized arguments"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(words.split())
        assert said in capsys.readouterr().err
    text = parser.format_help()
    assert all(each in text for each in ("--steps N", "--rate X", "--time TIME", "how many"))
