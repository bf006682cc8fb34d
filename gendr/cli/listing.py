"""`gendr list`."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any, cast

from gendr.cli.parser import List


def run(args: List) -> int:
    """Run `gendr list`: print the table that was asked for, and return the exit status."""
    sections = {"distributions": _distributions, "tconorms": _tconorms, "backends": _backends}
    chosen = list(sections) if args.what == "all" else [args.what]
    sys.stdout.write("\n\n".join(sections[name]() for name in chosen) + "\n")
    return 0


def _table(rows: list[tuple[str, ...]]) -> str:
    """Rows as text with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join("  " + line.rstrip() for line in lines)


def _distributions() -> str:
    from gendr import distributions

    rows = []
    for name, dist in distributions.standard_distributions().items():
        given = ", ".join(f"{f.name}={f.default:g}" for f in fields(cast("Any", dist)))
        also = f"  also {', '.join(dist.aliases)}" if dist.aliases else ""
        rows.append((f"{name}({given})" if given else name, dist.formula + also))
    return f"""\
Distributions: F(z), z = distance / scale, makes the edge of a face soft
{_table(rows)}

  Append, in any order: .reversed  .centred  .shifted(s)  .squared  .art(exponent)
  for example --dist "gamma(shape=0.5).reversed.centred\""""


def _tconorms() -> str:
    from gendr import tnorms

    rows = []
    for name in tnorms.names():
        family = tnorms.family(name)
        allowed = str(getattr(family, "parameter", "") or "")
        rows.append((f"{name}(p)" if allowed else name, family.formula, allowed))
    return f"""\
T-conorms: how the faces that cover a pixel are joined, here two
{_table(rows)}

  for example --tconorm "yager(p=2)\""""


def _backends() -> str:
    from gendr import backends

    systems = {
        "renderers": backends(), "primitives": backends("primitives"),
        "sorting, top-k": backends("sorting"), "logic networks": backends("logic"),
    }  # fmt: skip
    rows = [
        (system * (k == 0), name, "usable" if why is None else why)
        for system, found in systems.items()
        for k, (name, why) in enumerate(found.items())
    ]
    return f"Backends: what computes, auto takes the first that serves the device\n{_table(rows)}"
