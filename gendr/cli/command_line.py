"""What all programs have in common: how they read options, and how they end.

Options are declared once, as fields of a frozen dataclass: `option` says what a field may be, and
the first sentence of its entry in the docstring's table "Attributes" what it means.

    class Settings:
        steps: int = option(100, count(1), "N")

    add_options(parser, Settings)
    settings = read_options(Settings, vars(parser.parse_args()))

Exit status: what the program returns, by default 0; 2 for bad input, with one line on stderr that
says what is wrong; 130 after Ctrl-C. Imports nothing heavy, so that --help is instant.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any, NoReturn, TypeVar

from typing_extensions import Self

from gendr._common.names import unknown
from gendr._common.texts import first_few
from gendr.jobs.settings import Kind, Range, kinds

BAD_INPUT, INTERRUPTED = 2, 130

SettingsT = TypeVar("SettingsT")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr, and the end; of files that are too many it names a few."""
        _, told, rest = message.partition("unrecognized arguments: ")
        words = rest.split()
        options = any(word.startswith("-") for word in words)
        if told and not options and any(map(os.path.isfile, words)):  # as of photos/*.jpg
            several = "of several files give the folder that holds them"
            message = f"{told}{first_few(words)}; {several}"
        say(self.prog, f"error: {' '.join(message.split())}; see {self.prog} --help")
        raise SystemExit(BAD_INPUT)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices, as argparse does, but name the nearest of them."""
        if action.choices is None or value in action.choices:
            return
        what = action.metavar or action.dest
        names = [str(choice) for choice in action.choices]
        raise argparse.ArgumentError(None, unknown(str(what), value, names))


@dataclass(frozen=True)
class Number(Range):
    """Which numbers an option may be; called, it reads one from a text."""

    def __call__(self, text: str) -> float:
        """The number that a text says.

        Raises:
            ArgumentTypeError: if it says none, or one that is not allowed.
        """
        try:
            number = int(text) if self.whole else float(text)
        except ValueError:
            number = None
        if self.whole and (number is None or not self.low <= number < 2**63):
            most = "" if number is None or number < self.low else " and < 2^63"
            wanted = f"must be a whole number >= {self.low:g}{most}"
            raise argparse.ArgumentTypeError(f"{wanted}, got {text!r}")
        if number is None:
            raise argparse.ArgumentTypeError(f"must be a number, got {text!r}")
        low, high = self.low, self.high
        inside = low <= number <= high if self.closed else low < number < high
        if not inside or math.isinf(number):
            bounds = f"between {low:g} and {high:g}" + ("" if self.closed else ", ends excluded")
            if high == math.inf:
                bounds = f"{'>=' if self.closed else '>'} {low:g}" if low > -math.inf else "finite"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text}")
        return number


def count(least: int) -> Number:
    """The type of options that are whole numbers of at least `least`."""
    return Number(least, whole=True)


def above(low: float, high: float = math.inf) -> Number:
    """The type of options that are numbers in (low, high)."""
    return Number(low, high, closed=False)


def option(
    default: Any = MISSING,
    convert: Callable[[str], Any] | None = None,
    metavar: str | tuple[str, ...] | None = None,
    flags: str | tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """A field of settings that is an option of a command.

    Args:
        default: of the field; without one the option must be given.
        convert: its type for argparse.
        metavar: what stands for its value in the help; N and X for numbers.
        flags: what it is called if not --name, or "" for a positional argument.
        **more: further arguments of `add_argument`.
    """
    if metavar is None and isinstance(convert, Number):
        metavar = "N" if convert.whole else "X"
    flags = (flags,) if isinstance(flags, str) else flags
    arguments = {"type": convert, "metavar": metavar, **more}
    return field(default=default, metadata={"flags": flags, "arguments": arguments})


def seconds(text: str) -> float:
    """The type of options that are times such as 90, 90s, 2m or 1.5h."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        found = float(number) * units[unit]
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"must be a time > 0 such as 90s, 2m or 1h, got {text!r}")
    return found


def group(settings: type, **words: str | tuple[Callable[[str], Any], str]) -> Any:
    """A field that holds settings, whose options are options of the command.

    Args:
        settings: plain ones, of which those are options that the `groups` of the command name; or
            some with fields by `option`.
        **words: by the name of a plain setting, what stands for its value in the help, and how it
            is read from a text if its annotation does not say that.
    """
    return field(metadata={"settings": settings, "words": words})


def add_options(
    parser: argparse.ArgumentParser, settings: type, titles: Mapping[str, str] | None = None
) -> None:
    """Add the options of settings to a parser.

    Args:
        parser: that they are added to.
        settings: a dataclass with fields by `option` and `group`.
        titles: groups of options in the help: their titles, and the names of their fields.
    """
    found = dict(_options(settings))
    titled = {title: names.split() for title, names in (titles or {}).items()}
    inside = {name for names in titled.values() for name in names}
    _add(parser, settings, {name: found[name] for name in found if name not in inside})
    for title, names in titled.items():
        _add(parser.add_argument_group(title), settings, {name: found[name] for name in names})


def _add(to: Any, settings: type, options: Mapping[str, tuple[Field[Any], Any]]) -> None:
    texts = _texts(settings)
    for name, (each, (flags, arguments)) in options.items():
        help_text = re.split(r"\.(?:\s|$)", texts.get(name, ""), maxsplit=1)[0]
        arguments = {"help": help_text.replace("%", "%%"), **arguments}
        if flags == ("",):
            if each.default is not MISSING:
                arguments["default"] = each.default
            to.add_argument(name, **arguments)
            continue
        if str(each.type).removeprefix("<class '").startswith("bool"):
            is_plain = each.default is False
            action = "store_true" if is_plain else argparse.BooleanOptionalAction
            arguments = {"help": arguments["help"], "action": action}
        needed = each.default is MISSING
        default = {"required": True} if needed else {"default": each.default}
        flags = flags or (f"--{name.replace('_', '-')}",)
        to.add_argument(*flags, dest=name, **default, **arguments)


def _options(settings: type) -> Iterator[tuple[str, tuple[Field[Any], Any]]]:
    """The fields that are options, also those of settings inside; the outer ones come first.

    Each with its flags, and its arguments for argparse.
    """
    own = {each.name: each for each in fields(settings)}
    named = {name for names in getattr(settings, "groups", {}).values() for name in names.split()}
    for name, each in own.items():
        if "arguments" in each.metadata:
            yield name, (each, (each.metadata["flags"], each.metadata["arguments"]))
    for each in own.values():
        if inner := each.metadata.get("settings"):
            yield from ((name, found) for name, found in _options(inner) if name not in own)
            for plain in fields(inner):
                if plain.name in named - own.keys() and not plain.metadata:
                    words = each.metadata["words"].get(plain.name)
                    yield plain.name, (plain, ((), _arguments(kinds(inner)[plain.name], words)))


def _arguments(kind: Kind, words: Any) -> dict[str, Any]:
    """Those of a plain setting."""
    convert = None if kind.numbers is None else Number(**asdict(kind.numbers))
    metavar = None if convert is None else "N" if convert.whole else "X"
    convert, metavar = words if isinstance(words, tuple) else (convert, words or metavar)
    choices = {"choices": kind.choices} if kind.choices else {}
    return {"type": convert, "metavar": metavar, **choices}


def _texts(settings: type) -> dict[str, str]:
    """What the docstrings of settings, of their bases and of settings inside say of each field."""
    texts: dict[str, str] = {}
    for each in fields(settings):
        if inner := each.metadata.get("settings"):
            texts |= _texts(inner)
    for base in reversed(settings.__mro__):
        _, _, table = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", table, re.MULTILINE)
        texts |= {name: " ".join(text.split()) for name, text in entries}
    return texts


def read_options(settings: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Settings from the values of a parser's namespace.

    Args:
        settings: whose options were added to the parser.
        values: by name; lists become tuples.

    Raises:
        TypeError: as the settings themselves do.
        ValueError: as the settings themselves do.
    """
    own = {each.name: each for each in fields(settings)}  # pyright: ignore[reportArgumentType]
    left = {name: value for name, value in values.items() if name not in own}
    found: dict[str, Any] = {}
    for name, each in own.items():
        if inner := each.metadata.get("settings"):
            found[name] = read_options(inner, left)
        elif name in values:
            value = values[name]
            found[name] = tuple(value) if isinstance(value, list) else value
    return settings(**found)


class Stop:
    """What Ctrl-C and SIGTERM do: they wait for `check`, because half a step cannot be resumed.

    A second one does not wait, and none does while `at_once` is set: it raises KeyboardInterrupt.

    Args:
        at_once: whether signals wait.

    Attributes:
        asked: whether there was a signal.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.asked, self.at_once = False, at_once
        # Ctrl-C raises by itself.
        self._numbers = (signal.SIGTERM,) if at_once else (signal.SIGINT, signal.SIGTERM)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        try:
            for number in self._numbers:
                self._before[number] = signal.signal(number, self._caught)
        except ValueError:  # not in the main thread: signals go to that one only
            pass
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, *_: object) -> None:
        if self.asked or self.at_once:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a signal."""
        if self.asked:
            raise KeyboardInterrupt


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
    except KeyboardInterrupt as stop:
        hint = "; the same command with --resume goes on" if resumes(args) else ""
        say(parser.prog, str(stop) or f"stopped{hint}")  # a `Session` knows where
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
    """One line on stderr, above the bars that are shown there."""
    line = f"{program}: {text}"
    if (bars := sys.modules.get("tqdm")) is None:
        sys.stderr.write(f"{line}\n")
    else:
        bars.tqdm.write(line, file=sys.stderr)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
