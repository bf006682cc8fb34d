"""The benchmark of the programs: what it compares, what it prints, when it stops."""

import pytest
import torch

from support.scripts import imported


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "relaxed_programs", "benchmarks")


def test_a_short_run_prints_a_table(bench, capsys):
    bench.main(["--quick", "--repeat", "1"])
    printed = capsys.readouterr().out
    for name, case in bench.cases().items():
        assert f"| `{name}` |" in printed
        assert len(case.shapes) in (1, 2)
    assert printed.count(" ms |") == 3 * len(bench.cases())


def test_an_implementation_that_is_off_stops_the_run(bench):
    case = bench.cases(quick=True)["levenshtein"]
    wrong = bench.Case(case.shapes, case.program, lambda s, t: case.hand(s, t) + 1, case.kernel)
    with pytest.raises(SystemExit, match=r"by hand is .* off the kernel"):
        bench.measure(wrong, 1)


def test_the_table_goes_into_the_page(bench, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"a\n<!-- begin {bench.MARK} -->\n<!-- end {bench.MARK} -->\nb\n")
    monkeypatch.setattr(bench, "PAGE", page)
    bench.main(["--quick", "--repeat", "1", "--programs", "dynamic_time_warping", "--docs"])
    text = page.read_text()
    assert "| `dynamic_time_warping` | 16 × 3, 16 × 3 |" in text
    assert f"torch {torch.__version__}" in text
