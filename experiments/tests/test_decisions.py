"""Decisions by predicted costs: exact solvers, published data, what the script writes."""

import csv
import itertools
import shutil

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from lab.studies.decisions import PROBLEMS, Knapsack, RoundTrip, ShortestPath
from support.cases import for_each
from support.scripts import imported


def test_paths_are_the_cheapest_of_all(monkeypatch):
    monkeypatch.setattr(ShortestPath, "side", 3)
    costs = np.random.default_rng(0).normal(size=(20, 12))  # 3 x 3 nodes; any sign
    found = ShortestPath(10, 4, 0.5, 3).solve(costs)
    ways = []
    for moves in set(itertools.permutations("rrdd")):
        i, j, way = 0, 0, np.zeros(12)
        for move in moves:
            way[i * 5 + j + (2 if move == "d" else 0)] = 1
            i, j = i + (move == "d"), j + (move == "r")
        ways.append(way)
    np.testing.assert_allclose((costs * found).sum(1), (costs @ np.array(ways).T).min(1))
    assert all(any((way == one).all() for way in ways) for one in found)


def test_knapsacks_are_those_of_a_mixed_integer_programme():
    problem = Knapsack(100, 4, 0.5, 3)
    values = np.random.default_rng(1).normal(3, 3, (8, 32))
    found = problem.solve(values)
    assert (found @ problem.weights.T <= 20 + 1e-6).all()
    for value, one in zip(values, found, strict=True):
        best = milp(
            -value, constraints=LinearConstraint(problem.weights, ub=np.array(problem.limits)),
            integrality=np.ones(32), bounds=Bounds(0, 1), options={"mip_rel_gap": 0},
        )  # fmt: skip
        assert value @ one == pytest.approx(-best.fun)


def test_round_trips_are_the_shortest_of_all(monkeypatch):
    random = np.random.default_rng(2)
    for towns in (5, 7):
        costs = random.normal(2, 2, (10, towns * (towns - 1) // 2))
        monkeypatch.setattr(RoundTrip, "towns", towns)
        found = RoundTrip(10, 4, 0.5, 3).solve(costs)
        rows, columns = np.triu_indices(towns, 1)
        for cost, one in zip(costs, found, strict=True):
            apart, chosen = np.zeros((2, towns, towns))
            apart[rows, columns], chosen[rows, columns] = cost, one
            apart, chosen = apart + apart.T, chosen + chosen.T
            assert (chosen.sum(0) == 2).all()
            lengths = [
                sum(apart[a, b] for a, b in itertools.pairwise((0, *trip, 0)))
                for trip in itertools.permutations(range(1, towns))
            ]
            assert cost @ one == pytest.approx(min(lengths))


@for_each(
    "kind, published",
    [(ShortestPath, 0.12398), (Knapsack, 0.12150), (RoundTrip, 0.20698)],
    rotating=3,
)
def test_linear_regression_has_the_published_regret(kind, published, monkeypatch):
    """The published runs of the seed 0: the data are theirs."""
    script = imported(monkeypatch, "decisions")
    problem = kind(1000, 6, 0.5, 0)
    model = script.trained(problem, script.METHODS["two-stage"], 1)
    assert script.tested(problem, model) == pytest.approx(published, abs=1e-5)
    assert torch.equal(problem.splits[0].features[:3], kind(1000, 6, 0.5, 0).splits[0][0][:3])


def test_the_script_resumes_and_writes_the_page(monkeypatch, tmp_path, capsys):
    script = imported(monkeypatch, "decisions")
    options = ["--smoke", "-o", str(tmp_path / "a"), "--problems", "shortest path", "knapsack"]
    assert script.main(options) == 0
    rows = script.rows_of(tmp_path / "a" / "decisions.csv")
    assert {row["method"] for row in rows} == {*script.METHODS}
    assert all(0 <= float(row["regret"]) < 1 for row in rows)
    assert script.main(options) == 0
    assert script.rows_of(tmp_path / "a" / "decisions.csv") == rows
    page = tmp_path / "results" / "decisions.md"
    page.parent.mkdir()
    for each in (page, tmp_path / "decisions.md"):
        each.write_text("<!-- begin decisions -->\n<!-- end decisions -->\n")
    for name, value in (("KEPT", tmp_path / "a" / "decisions.csv"), ("DOCS", tmp_path)):
        monkeypatch.setattr(script, name, value)
    assert script.main(["--docs"]) == 0
    assert "| shortest path, 100 problems, degree 4, noise 0.5 | two-stage" in page.read_text()
    capsys.readouterr()
    assert script.main(["--counts", "7", "-o", str(tmp_path / "b")]) == 2
    assert "--counts are of 100, 1000, 5000" in capsys.readouterr().err


def test_the_pages_say_what_the_results_say(monkeypatch, tmp_path):
    """And the losses are as near to the published regret as the page says."""
    script, pages = imported(monkeypatch, "decisions"), ("decisions.md", "results/decisions.md")
    (tmp_path / "results").mkdir()
    for name in pages:
        shutil.copy(script.DOCS / name, tmp_path / name)
    written = [(tmp_path / name).read_text() for name in pages]
    ours, theirs = (script.regrets(script.rows_of(x)) for x in (script.KEPT, script.THEIRS))
    monkeypatch.setattr(script, "DOCS", tmp_path)
    script.write_docs()
    assert [(tmp_path / name).read_text() for name in pages] == written
    compared = 0
    for key in ours.keys() & theirs.keys():
        both = ours[key].keys() & theirs[key].keys()
        apart = np.mean([ours[key][seed] - theirs[key][seed] for seed in both])
        if key[1] == "1000" and key[-1] in ("spo+", "fenchel-young"):
            assert abs(apart) < 0.003, key
            compared += 1
        assert apart < 0.01, key  # of any method, none is worse by a point
    assert compared >= 12


def test_published_results_are_of_known_methods(monkeypatch):
    script = imported(monkeypatch, "decisions")
    with script.THEIRS.open(newline="") as lines:
        for row in csv.DictReader(lines):
            assert row["problem"] in PROBLEMS
            assert row["method"] in script.METHODS
