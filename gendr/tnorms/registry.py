"""Names: which families there are, and the text form of a T-conorm."""

from __future__ import annotations

import re

from torch import Tensor

from gendr._common.checks import check_choice
from gendr._common.registry import members, memoized
from gendr.tnorms.base import TConorm, TNorm, has_parameter

# The 23 of the benchmark.
_BENCHMARK = (
    "max", "probabilistic", "einstein", "hamacher(0.5)", "hamacher(4)",
    "frank(0.5)", "frank(2)", "frank(4)", "yager(0.5)", "yager(1)", "yager(2)", "yager(4)",
    "aczel_alsina(0.5)", "aczel_alsina(2)", "aczel_alsina(4)",
    "dombi(0.5)", "dombi(1)", "dombi(2)", "dombi(4)",
    "schweizer_sklar(-0.5)", "schweizer_sklar(-1)", "schweizer_sklar(-2)", "schweizer_sklar(-4)",
)  # fmt: skip

_TEXT = re.compile(r"\s*(\w+)\s*(?:\(\s*(?:p\s*=\s*)?([^()=]*?)\s*\))?\s*")


def names() -> tuple[str, ...]:
    """The families, `average` included, in alphabetical order."""
    return tuple(sorted(members(TConorm)))


def family(name: str) -> type[TConorm]:
    """The class of a family, with its `formula` and the range of its `parameter`.

    Raises:
        ValueError: there is none of that name; the message lists the nearest.
    """
    known = members(TConorm)
    return known[check_choice("T-conorm", name, sorted(known))]


def tconorm(name: str, p: float | Tensor | None = None) -> TConorm:
    """A T-conorm by name.

    Args:
        name: one of `names()`, or a text with its parameter: "yager(p=2)", "yager(2)".
        p: the parameter, for families that have one: a number, or a 0-dim tensor to learn it.

    Raises:
        TypeError: the name is no text, or p no number.
        ValueError: an unknown name, a parameter that is missing, not wanted or out of range.
    """
    if not isinstance(name, str):
        raise TypeError(f"a T-conorm goes by its name, such as 'yager', got {type(name).__name__}")
    match = _TEXT.fullmatch(name.lower().replace("-", "_") if "(" not in name else name)
    if match is None:
        raise ValueError(f"{name!r} is no T-conorm; write 'yager(p=2)' or 'probabilistic'")
    cls = family(match[1])
    if match[2]:
        if p is not None:
            raise ValueError(f"{name!r} has its parameter already; leave out p = {p}")
        try:
            p = float(match[2])
        except ValueError:
            raise ValueError(f"{name!r}: p must be a number, got {match[2]!r}") from None
    if not has_parameter(cls):
        if p is not None:
            raise ValueError(f"{cls.name} takes no parameter, got p = {p}; leave it out")
        return cls()
    if p is None:
        raise ValueError(
            f"{cls.name} needs a parameter, {cls.parameter}; write it like {cls.examples()[0]}"
        )
    return cls(p)  # pyright: ignore[reportCallIssue]


def tnorm(name: str, p: float | Tensor | None = None) -> TNorm:
    """A T-norm by the name of its dual: 'max' gives the minimum.

    Args:
        name: as for `tconorm`.
        p: as for `tconorm`.

    Raises:
        TypeError: the name is no text, or p no number.
        ValueError: an unknown name, a parameter that is missing, not wanted or out of range.
    """
    return tconorm(name, p).dual


_of_text = memoized(tconorm)


def as_tconorm(x: str | TConorm) -> TConorm:
    """A T-conorm from its text, or the object itself.

    Raises:
        TypeError: x is neither; a T-norm has the T-conorm as its `dual`.
        ValueError: there is no such family, or p is out of its range.
    """
    if isinstance(x, TConorm):
        return x
    if isinstance(x, TNorm):
        raise TypeError(f"needed a T-conorm, got the T-norm {x}; its .dual is the T-conorm")
    return _of_text(x)


def benchmark_tconorms() -> tuple[TConorm, ...]:
    """The 23 of the benchmark, in its order: the T-conorm axis of the 1242 renderers."""
    return tuple(map(tconorm, _BENCHMARK))
