"""Settings of studies, whose fields are options (`gendr.cli.command_line.option`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gendr.cli.command_line import Number


def check_options(settings: Any) -> None:
    """Refuse settings that are out of the range of their option; None is allowed as a default.

    Raises:
        TypeError: for a setting that is no number.
        ValueError: for one that is out of range.
    """
    for each in fields(settings):
        value, convert = (
            getattr(settings, each.name),
            each.metadata.get("arguments", {}).get("type"),
        )
        if isinstance(convert, Number) and (value is not None or each.default is not None):
            convert.check(each.name, value)
