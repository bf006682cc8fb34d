"""T-conorms as test cases, with their pairwise forms, from table B.2 of the thesis, in mpmath.

Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpmath import mp

from gendr.tnorms import Average, Parametric, TConorm, benchmark_tconorms, tconorm

__all__ = ["ARCHIMEDEAN", "EVERY", "FORMS", "PARAMETRIC", "TCONORMS", "folded", "pairwise"]

FORMS: dict[str, Any] = {
    "max": lambda a, b, p: max(a, b),
    "probabilistic": lambda a, b, p: a + b - a * b,
    "einstein": lambda a, b, p: (a + b) / (1 + a * b),
    "hamacher": lambda a, b, p: (a + b + (p - 2) * a * b) / (1 + (p - 1) * a * b),
    "frank": lambda a, b, p: (
        1 - mp.log(1 + (p ** (1 - a) - 1) * (p ** (1 - b) - 1) / (p - 1)) / mp.log(p)
    ),
    "yager": lambda a, b, p: min(mp.mpf(1), (a**p + b**p) ** (1 / p)),
    "aczel_alsina": lambda a, b, p: (
        1 - mp.exp(-((abs(mp.log(1 - a)) ** p + abs(mp.log(1 - b)) ** p) ** (1 / p)))
    ),
    "dombi": lambda a, b, p: 1 / (1 + ((a / (1 - a)) ** p + (b / (1 - b)) ** p) ** (-1 / p)),
    "schweizer_sklar": lambda a, b, p: 1 - ((1 - a) ** p + (1 - b) ** p - 1) ** (1 / p),
}

# The T-conorms of the benchmark, and further parameters.
TCONORMS = (
    *benchmark_tconorms(),
    *map(tconorm, ("hamacher(1)", "hamacher(0.01)", "frank(1.01)", "frank(1e-6)", "frank(1e6)")),
    *map(tconorm, ("yager(1.5)", "yager(30)", "aczel_alsina(1)", "aczel_alsina(0.1)")),
    *map(tconorm, ("dombi(0.2)", "dombi(30)", "schweizer_sklar(-0.01)", "schweizer_sklar(-30)")),
)
EVERY = (*TCONORMS, Average())
ARCHIMEDEAN = tuple(t for t in TCONORMS if t.kind == "archimedean")
PARAMETRIC = tuple(t for t in ARCHIMEDEAN if isinstance(t, Parametric))


def pairwise(t: TConorm, a: Any, b: Any) -> Any:
    """The published form; where it divides by 0, at the edges, the axioms give the value."""
    if a == 0 or b == 1:
        return b
    if b == 0 or a == 1:
        return a
    return FORMS[t.name](a, b, mp.mpf(getattr(t, "p", None) or 1))


def folded(t: TConorm, values: Iterable[float]) -> Any:
    """The published form over any number of values."""
    total = mp.mpf(0)
    for value in values:
        total = pairwise(t, total, mp.mpf(value))
    return total
