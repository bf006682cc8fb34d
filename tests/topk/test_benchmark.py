"""The benchmark: implementations agree, numbers and a table are written, bad input is refused."""

import json

import pytest

from support.scripts import imported


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "topk", "benchmarks")


def test_a_short_run_writes_numbers_and_a_table(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "peak_memory", lambda *_: 12_345_678)
    bench.main(["--device", "cpu", "--quick", "--repeat", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    rows = json.loads((tmp_path / "topk-cpu.json").read_text(encoding="utf-8"))["rows"]
    assert {row["name"] for row in rows} == {"loss/5x30", "mask/10000", "selection/40"}
    for row in rows:
        assert 0 < row["min_s"] <= row["median_s"]
        assert row["difference"] <= bench.AGREEMENT
    assert "| `mask/10000` | gendr, laplace |" in printed
    assert "plain cross-entropy" in printed
    assert "12 MB" in printed


def test_an_implementation_that_is_off_stops_the_run(bench, monkeypatch):
    right = bench.softsort_rows
    monkeypatch.setattr(bench, "softsort_rows", lambda k, scores: right(k, 1.01 * scores))
    with pytest.raises(SystemExit, match=r"paper, softsort is \S+ off"):
        bench.main(["--device", "cpu", "--quick", "--repeat", "1", "--cases", "loss"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cases", "nothing"], "matches none of loss/"),
        (["--cases", "("], "is no regular expression"),
        (["--repeat", "0"], "--repeat must be >= 1"),
        (["--probe", "loss/1x1/gendr"], "there is no 'loss/1x1/gendr'"),
    ],
)
def test_bad_options(bench, capsys, options, words):
    with pytest.raises(SystemExit) as end:
        bench.main(["--device", "cpu", "--quick", *options])
    assert end.value.code == 2
    assert words in capsys.readouterr().err
