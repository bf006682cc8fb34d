"""Settings: plain frozen dataclasses, whose annotations say what their fields may be.

    @dataclass(frozen=True)
    class Settings:
        steps: Annotated[int, Range(1)] = 100
        how: Literal["fast", "well"] = "fast"

        def __post_init__(self) -> None:
            check_settings(self)

Imports nothing heavy: the command line makes options of the same annotations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True)
class Range:
    """Which numbers a setting may be.

    Attributes:
        low: the smallest.
        high: the largest.
        closed: whether these two are allowed themselves.
        whole: whether it is an int, which has no largest.
    """

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True
    whole: bool = False

    def check(self, name: str, value: object) -> None:
        """Refuse a value.

        Raises:
            TypeError: if it is no number.
            ValueError: if it is one that is not allowed.
        """
        from gendr._common.checks import check_count, check_number

        if self.whole:
            check_count(name, value, least=int(self.low))
        elif self.closed:
            check_number(name, value, least=self.low)
        else:
            check_number(name, value, above=self.low, below=self.high)


@dataclass(frozen=True)
class Kind:
    """What a setting may be.

    Attributes:
        numbers: which ones, if it is a number.
        choices: if it is one of some texts.
        optional: whether it may be None.
    """

    numbers: Range | None
    choices: tuple[str, ...]
    optional: bool


@cache
def kinds(settings: type) -> Mapping[str, Kind]:
    """What the fields of settings may be, by their names."""
    hints = get_type_hints(settings, include_extras=True)
    return MappingProxyType({each.name: _kind(hints[each.name]) for each in fields(settings)})


def _kind(hint: Any) -> Kind:
    marks: Sequence[Any] = ()
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
    parts = [hint] if get_origin(hint) in (None, Literal, tuple) else list(get_args(hint))
    choices = tuple(x for part in parts if get_origin(part) is Literal for x in get_args(part))
    numbers = next((mark for mark in marks if isinstance(mark, Range)), None)
    if numbers is not None and int in parts:
        numbers = replace(numbers, whole=True)
    return Kind(numbers, choices, type(None) in parts)


def check_settings(settings: Any) -> None:
    """Refuse settings that are not what their annotations say: numbers out of range, other choices.

    Raises:
        TypeError: for a setting that is no number.
        ValueError: for one that is not allowed.
    """
    from gendr._common.checks import check_choice

    for name, kind in kinds(type(settings)).items():
        value = getattr(settings, name)
        if value is None and kind.optional:
            continue
        if kind.numbers is not None:
            kind.numbers.check(name, value)
        if kind.choices:
            check_choice(name, value, kind.choices)


def changed(settings: SettingsT, what: str, changes: Mapping[str, Any]) -> SettingsT:
    """Settings with some of them replaced.

    Args:
        settings: a dataclass.
        what: one of them is, for the message, such as "setting of a fit".
        changes: by name.

    Raises:
        TypeError: if the settings are something else, such as a dict.
        ValueError: for a setting that does not exist; the nearest names are listed.
    """
    from gendr._common.checks import check_choice

    if not is_dataclass(settings):
        kind = type(settings).__name__
        raise TypeError(f"settings must be a settings object, got {kind}; give each {what} by name")
    for name in changes:
        check_choice(what, name, [f.name for f in fields(type(settings))])  # pyright: ignore[reportArgumentType]
    return replace(settings, **changes)  # pyright: ignore[reportArgumentType]
