"""T-conorms as test cases, with oracles in mpmath that share no code with them.

Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mpmath import mp

from gendr.tnorms import Parametric, TConorm, family, names


class Oracle(NamedTuple):
    """A family as it is published (table B.2 of the thesis unless it says otherwise).

    Attributes:
        form: the pairwise form, from (a, b, p).
        generator: g from (a, p), for families with p.
        power: whether g takes powers to p, which cost digits.
        nilpotent: whether g(1) is finite, so that several members below 1 may reach 1.
    """

    form: Any
    generator: Any = None
    power: bool = True
    nilpotent: bool = False


ORACLES: dict[str, Oracle] = {
    "max": Oracle(lambda a, b, p: max(a, b)),
    "probabilistic": Oracle(lambda a, b, p: a + b - a * b),
    "einstein": Oracle(lambda a, b, p: (a + b) / (1 + a * b)),
    "hamacher": Oracle(
        lambda a, b, p: (a + b + (p - 2) * a * b) / (1 + (p - 1) * a * b),
        lambda a, p: mp.log((1 + (p - 1) * a) / (1 - a)),
        power=False,
    ),
    "frank": Oracle(
        lambda a, b, p: (
            1 - mp.log(1 + (p ** (1 - a) - 1) * (p ** (1 - b) - 1) / (p - 1)) / mp.log(p)
        ),
        lambda a, p: -mp.log((p ** (1 - a) - 1) / (p - 1)),
        power=False,
    ),
    "yager": Oracle(
        lambda a, b, p: min(mp.mpf(1), (a**p + b**p) ** (1 / p)), lambda a, p: a**p, nilpotent=True
    ),
    "aczel_alsina": Oracle(
        lambda a, b, p: (
            1 - mp.exp(-((abs(mp.log(1 - a)) ** p + abs(mp.log(1 - b)) ** p) ** (1 / p)))
        ),
        lambda a, p: (-mp.log(1 - a)) ** p,
    ),
    "dombi": Oracle(
        lambda a, b, p: 1 / (1 + ((a / (1 - a)) ** p + (b / (1 - b)) ** p) ** (-1 / p)),
        lambda a, p: (a / (1 - a)) ** p,
    ),
    "schweizer_sklar": Oracle(
        lambda a, b, p: 1 - ((1 - a) ** p + (1 - b) ** p - 1) ** (1 / p),
        lambda a, p: (1 - a) ** p - 1,
    ),
    # Nelsen, An introduction to copulas, table 4.1, number 6.
    "joe": Oracle(
        lambda a, b, p: (a**p + b**p - (a * b) ** p) ** (1 / p), lambda a, p: -mp.log(1 - a**p)
    ),
}

# Every family with the parameters that its class gives as examples.
EVERY = tuple(t for name in names() for t in family(name).examples())
TCONORMS = tuple(t for t in EVERY if t.kind != "mean")
ARCHIMEDEAN = tuple(t for t in TCONORMS if t.kind == "archimedean")
PARAMETRIC = tuple(t for t in ARCHIMEDEAN if isinstance(t, Parametric))


def is_nilpotent(t: TConorm) -> bool:
    """Whether several members below 1 may reach 1 together."""
    return t.name in ORACLES and ORACLES[t.name].nilpotent


def pairwise(t: TConorm, a: Any, b: Any) -> Any:
    """The published form; where it divides by 0, at the edges, the axioms give the value."""
    if a == 0 or b == 1:
        return b
    if b == 0 or a == 1:
        return a
    return ORACLES[t.name].form(a, b, mp.mpf(getattr(t, "p", None) or 1))


def folded(t: TConorm, values: Iterable[float]) -> Any:
    """The published form over any number of values."""
    total = mp.mpf(0)
    for value in values:
        total = pairwise(t, total, mp.mpf(value))
    return total
