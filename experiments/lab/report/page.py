"""The report of a results file: one self-contained page.

The page (report.html, report.css, report.js) draws what it finds in embedded JSON. This file makes
that JSON: names, formulas and ranks; and, behind the script, so that the page draws before they
have come, the pictures of each run, read when one is shown. It needs no network and no server.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.resources import files
from string import Template
from typing import Any

import gendr
from gendr.distributions import Distribution, StandardDistribution
from gendr.tnorms import Parametric, TConorm
from lab.report.details import TWICE
from lab.report.summary import Entry, HeatMap, Summary, group_starts, label

# The colours of Matplotlib's viridis (CC0) at even places, dark to bright. The page interpolates
# between them, which no eye can tell from the original.
VIRIDIS = (
    "#440154 #48186a #472d7b #424086 #3b528b #33638d #2c728e #26828e #21918c "
    "#1fa088 #28ae80 #3fbc73 #5ec962 #84d44b #addc30 #d8e219 #fde725"
).split()


def make_page(summaries: Sequence[Summary], source: str) -> str:
    """The report as HTML.

    Args:
        summaries: The runs to show, at least one.
        source: Name of the results file.
    """
    made = datetime.now(tz=timezone.utc).isoformat(timespec="minutes")
    data = {
        "about": f"{source}, shown by gendr {gendr.__version__} on {_date(made)}",
        "colours": VIRIDIS,
        "runs": [_run(summary) for summary in summaries],
    }
    return Template(_file("report.html")).substitute(
        style=_file("report.css"),
        script=_file("report.js"),
        data=_embedded(data),
        pictures="\n".join(map(_pictures, summaries)),
    )


def _embedded(data: object) -> str:
    """JSON in which no text can close the HTML element that holds it."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _pictures(summary: Summary) -> str:
    """The pictures of a run, in the order of its results."""
    found = [entry.result.picture for entry in summary.entries]
    texts = [None if each is None else base64.b64encode(each).decode("ascii") for each in found]
    start = f'<script type="application/json" id="pictures-{summary.run.id}">'
    return f"{start}{_embedded(texts)}</script>"


def _file(name: str) -> str:
    return files("lab.report").joinpath(name).read_text(encoding="utf-8")


def _date(iso: str) -> str:
    """An ISO time shortened to minutes, UTC."""
    return f"{iso[:16].replace('T', ' ')} UTC"


# ---------------------------------------------------------------------------------------------
# the data of the page


def _run(summary: Summary) -> dict[str, Any]:
    run = summary.run
    best, worst = summary.limits or (None, None)
    return {
        "id": run.id,
        "title": " · ".join(filter(None, (summary.title, run.protocol_name))),
        "unit": summary.unit,
        "task": run.task,
        "scale": "start of the scales τ" if run.task == "pose" else "best scale τ",
        "better": summary.better,
        "seed": run.seed,
        "version": run.version,
        "created": _date(run.created) if run.created else None,
        "protocol": json.loads(run.protocol),
        "total": summary.total,
        "limits": {"best": best, "worst": worst, "clipped": worst != _or_none(summary.worst)},
        "rows": [
            {**head, "formula": _conorm_formula(tconorm)}
            for head, tconorm in zip(_heads(summary.rows), summary.rows, strict=True)
        ],
        "columns": [
            {**head, "distribution": _distribution(dist)}
            for head, dist in zip(_heads(summary.columns), summary.columns, strict=True)
        ],
        "maps": [_map(heat_map) for heat_map in summary.maps],
        "results": [_result(entry) for entry in summary.entries],
        "failures": {failure.instance: failure.reason for failure in summary.failures},
    }


def _heads(members: Sequence[Distribution] | Sequence[TConorm]) -> list[dict[str, Any]]:
    return [
        {"name": str(member), "label": label(member), "first": first}
        for member, first in zip(members, group_starts(members), strict=True)
    ]


def _map(heat_map: HeatMap) -> dict[str, Any]:
    return {
        "squared": heat_map.squared,
        "title": "squared" if heat_map.squared else "plain",
        "formula": "a = F(d·|d| / τ)" if heat_map.squared else "a = F(d / τ)",
        "places": [[p if p >= 0 else None for p in row] for row in heat_map.places.tolist()],
        "counted": int(heat_map.top.sum()),
        "by_row": heat_map.top.sum(1).tolist(),
        "by_column": heat_map.top.sum(0).tolist(),
    }


def _result(entry: Entry) -> dict[str, Any]:
    result = entry.result
    return {
        "name": result.instance,
        "row": entry.row,
        "column": entry.column,
        "squared": entry.instance.dist.is_squared,
        "coverage": coverage_formula(entry.instance.dist),
        "rank": entry.rank,
        "score": _or_none(result.score),
        "scale": _or_none(result.scale),
        "learning_rate": _or_none(result.learning_rate),
        "seconds": result.seconds,
        "error": _or_none(entry.detail.error),
        "curve": [[x, round(y, 4)] for x, y in entry.detail.curve],
        "same": _same(entry.instance.tconorm),
    }


def _same(tconorm: TConorm) -> str | None:
    """The other name of a T-conorm that is one function under two names: the one that counts."""
    return TWICE.get(str(tconorm))


def _or_none(value: float) -> float | None:
    """The value, or None for NaN, which JSON lacks."""
    return None if math.isnan(value) else value


# ---------------------------------------------------------------------------------------------
# formulas


def coverage_formula(dist: Distribution) -> str:
    """How a distance becomes a coverage: the transforms of a distribution, in one line."""
    argument = "d·|d|/τ" if dist.is_squared else "d/τ"
    if dist.art_exponent:
        argument = f"d/(|d|^{dist.art_exponent:g} τ)"
    shift = "m" if dist.is_centred else f"{float(dist.total_shift()):g}"
    if shift == "0":
        return f"a = 1 − F(−{argument})" if dist.is_reversed else f"a = F({argument})"
    if dist.is_reversed:
        return f"a = 1 − F({shift} − {argument})"
    return f"a = F({argument} + {shift})".replace("+ -", "− ")


def _distribution(dist: Distribution) -> str:
    """The formula of F with its parameters."""
    base = dist.base
    parts = [f"F(z) = {base.formula}" if isinstance(base, StandardDistribution) else f"F is {base}"]
    if dist.shape_parameter is not None:
        parts.append(f"shape = {float(dist.shape_parameter):g}")
    if dist.is_centred:
        parts.append(f"m = {float(dist.total_shift()):.4g}, the median")
    return "; ".join(parts)


def _conorm_formula(tconorm: TConorm) -> str:
    text = f"a ⊥ b = {tconorm.formula}"
    return f"{text}; p = {float(tconorm.p):g}" if isinstance(tconorm, Parametric) else text
