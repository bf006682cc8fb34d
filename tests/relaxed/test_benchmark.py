"""The benchmark of the ready-made algorithms: what it compares, what it writes, how it refuses."""

import json
from dataclasses import replace

import pytest

from support.scripts import imported


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "relaxed", "benchmarks")


@pytest.fixture
def short(bench, monkeypatch):
    """The script without its measurements of the machine."""
    limits = bench.speed.Limits(1.0, 1.0, 0.125)
    monkeypatch.setattr(bench.speed.Limits, "of", classmethod(lambda cls, device: limits))
    return bench


def test_a_short_run_writes_numbers_and_a_table(short, tmp_path, capsys):
    short.main(["--device", "cpu", "--quick", "--repeat", "1", "--out", str(tmp_path / "new")])
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "new" / "relaxed-cpu.json").read_text(encoding="utf-8"))
    assert [row["implementation"] for row in report["rows"]] == ["gendr", "reference"] * 4
    for row in report["rows"]:
        assert 0 < row["min_s"] <= row["median_s"]
        assert 0 <= row["difference"] <= short.AGREEMENT
    assert "| `bubble_sort` | 3 × 4 | gendr |" in printed


def test_a_kernel_that_is_off_stops_the_run(short):
    (case,) = [c for c in short.cases(quick=True) if c.algorithm == "bubble_sort"]

    def wrong(x, backend):
        return case.run(x, backend) * (1.01 if backend == "auto" else 1.0)

    with pytest.raises(SystemExit, match=r"bubble_sort/3x4: the kernel is .* off"):
        short.measure(replace(case, run=wrong), "cpu", 1)


def test_docs_get_the_table(short, tmp_path, monkeypatch):
    monkeypatch.setattr(short.speed, "ROOT", tmp_path)
    page = tmp_path / "docs" / "relaxed.md"
    page.parent.mkdir()
    page.write_text("a\n<!-- begin relaxed-speed -->\nold\n<!-- end relaxed-speed -->\nz\n")
    short.main(["--device", "cpu", "--quick", "--repeat", "1", "--cases", "leven", "--docs"])
    text = page.read_text(encoding="utf-8")
    assert "| `levenshtein` | 2 pairs of 4 | gendr |" in text
    assert "old" not in text


def test_bad_options_end_in_one_line(bench, capsys):
    for options, said in [
        (["--repeat", "0"], "--repeat"),
        (["--cases", "("], "regular"),
        (["--cases", "bogosort"], "bubble"),
    ]:
        with pytest.raises(SystemExit) as stop:
            bench.main(["--device", "cpu", *options])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err
