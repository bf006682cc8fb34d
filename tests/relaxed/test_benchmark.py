"""The benchmarks of algorithms and programs: what they compare and write, when they stop."""

import json
from dataclasses import replace

import pytest

from support.scripts import imported


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "relaxed", "benchmarks")


def test_a_short_run_writes_numbers_and_a_table(bench, tmp_path, monkeypatch):
    limits = bench.speed.Limits(1.0, 1.0, 0.125)  # of the machine, which are not measured
    monkeypatch.setattr(bench.speed.Limits, "of", classmethod(lambda cls, device: limits))
    monkeypatch.setattr(bench.speed, "ROOT", tmp_path)
    page = tmp_path / "docs" / "relaxed.md"
    page.parent.mkdir()
    page.write_text("a\n<!-- begin relaxed-speed -->\nold\n<!-- end relaxed-speed -->\nz\n")
    options = ["--device", "cpu", "--quick", "--repeat", "1"]
    bench.main([*options, "--docs", "--out", str(tmp_path / "new")])
    report = json.loads((tmp_path / "new" / "relaxed-cpu.json").read_text(encoding="utf-8"))
    assert [row["implementation"] for row in report["rows"]] == ["gendr", "reference"] * 4
    for row in report["rows"]:
        assert 0 < row["min_s"] <= row["median_s"]
        assert 0 <= row["difference"] <= bench.AGREEMENT
    text = page.read_text(encoding="utf-8")
    assert "| `bubble_sort` | 3 × 4 | gendr |" in text
    assert "old" not in text
    with pytest.raises(SystemExit):
        bench.main([*options, "--cases", "bogosort"])


def test_what_is_off_stops_the_run(bench, monkeypatch):
    (case,) = [c for c in bench.cases(quick=True) if c.algorithm == "bubble_sort"]

    def wrong(x, backend):
        return case.run(x, backend) * (1.01 if backend == "auto" else 1.0)

    with pytest.raises(SystemExit, match=r"bubble_sort/3x4: the kernel is .* off"):
        bench.measure(replace(case, run=wrong), "cpu", 1)
    programs = imported(monkeypatch, "relaxed_programs", "benchmarks")
    case = programs.cases(quick=True)["levenshtein"]
    assert list(programs.measure(case, 1)) == ["program", "by hand", "kernel"]
    wrong = programs.Case(case.shapes, case.program, lambda s, t: case.hand(s, t) + 1, case.kernel)
    with pytest.raises(SystemExit, match=r"by hand is .* off the kernel"):
        programs.measure(wrong, 1)
