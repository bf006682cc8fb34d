"""Sorting networks side by side: their rows, the tables."""

from typing import Any

import pytest
import torch

from gendr.distributions import get
from lab.report.ranking import PUBLISHED, ROWS, figure, readings, table
from lab.studies.ranking import published_steepness


def result(row, em, seed=0, factor=1.0, steps=10) -> dict[str, Any]:
    dist = ROWS[row]
    settings = {
        "network": "digits", "method": "odd_even", "n": 5, "steps": steps, "batch": 100,
        "learning_rate": 1e-3, "seed": seed, "steepness": 7.0 * factor, "dist": dist.dist,
    }  # fmt: skip
    history = [{"step": k, "loss": 1.0, "em": em * k / steps} for k in (steps // 2, steps)]
    return {
        "settings": settings, "test": {"em": em, "ew": em, "em5": em}, "history": history,
        "example": {"row": row, "factor": factor},
    }  # fmt: skip


def test_the_two_readings_of_the_reciprocal():
    """(3.22) is beta x / (1 + 2 beta |x|) + 1/2, the code v / (2 + |v|) / 2 + 1/2, v = beta x."""
    beta, dist = 60.0, get("reciprocal")
    d = torch.linspace(-0.2, 0.2, 11, dtype=torch.float64)
    thesis = beta * d / (1 + 2 * beta * d.abs()) + 0.5
    code = beta * d / (2 + (beta * d).abs()) / 2 + 0.5
    for name, want in (("reciprocal", thesis), ("reciprocal-code", code)):
        steepness = published_steepness("odd_even", 5, "reciprocal") * ROWS[name].factor
        torch.testing.assert_close(dist(d, 1 / steepness), want)
    assert PUBLISHED["cauchy", "odd_even", 5] == 84.9
    assert PUBLISHED["logistic-art", "bitonic", 16] == 19.0


def test_tables_have_means_errors_and_paired_differences():
    runs = [result("cauchy", 0.5), result("cauchy", 0.54, 1), result("optimal", 0.55, 1)]
    runs += [result("optimal", 0.52), result("logistic", 0.3), result("logistic", 0.9, steps=20)]
    lines = table(runs)
    cauchy = next(line for line in lines if line.startswith("| cauchy"))
    # The standard error of 50 and 54 is 4 / sqrt(2) / sqrt(2).
    assert [c.strip() for c in cauchy.split("|")[3:6]] == ["2", "52.0 ± 2.0", ""]
    optimal = next(line for line in lines if line.startswith("| optimal"))
    assert "| 53.5 ± 1.5 | +1.5 ± 0.5 |" in optimal  # 2 and 1 more than cauchy with that seed
    assert optimal.endswith("| 85.0 |")
    # Another number of steps is another table.
    heads = [line for line in lines if line.startswith("`odd_even`")]
    assert ["10 steps" in heads[0], "20 steps" in heads[1]] == [True, True]
    alone = next(line for line in lines if "90.0" in line)
    assert "±" not in alone


def test_readings_of_the_reciprocal_are_compared_with_equal_seeds():
    runs = [result("reciprocal", 0.5), result("reciprocal", 0.54, 1)]
    assert readings(runs) == []
    code = result("reciprocal-code", 0.49)
    code["settings"]["steepness"] = 2.0
    other = result("reciprocal", 0.6, factor=4.0)
    cauchy = result("cauchy", 0.52)
    (line,) = readings([*runs, code, other, cauchy])
    assert "less that of the code +1.0 (1 seeds)" in line
    assert "less cauchy -2.0 and -3.0, published +0.1; the best of 3 steepnesses is 28." in line
    more = [result("reciprocal", 0.7, steps=20), result("reciprocal-code", 0.64, steps=20)]
    *_, every = readings([*more, *runs, code])
    assert every == "- All 2 pairs: +3.5 ± 2.5."  # 1 and 6


def test_the_picture_has_curves_over_steps_and_over_steepness():
    pytest.importorskip("matplotlib")
    runs = [result("cauchy", 0.5), result("reciprocal", 0.4), result("reciprocal-code", 0.45)]
    drawn = figure(runs)
    assert [len(ax.lines) for ax in drawn.axes] == [3]
    runs += [result("reciprocal", 0.2, factor=4.0), result("reciprocal", 0.3, factor=2.0)]
    first, second = figure(runs).axes[:2]
    assert len(first.lines) == 3
    (curve,) = [line for line in second.lines if len(line.get_xdata()) > 2]
    assert list(curve.get_xdata()) == [7.0, 14.0, 28.0]
