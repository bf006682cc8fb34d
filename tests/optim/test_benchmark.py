"""The benchmark of Newton losses: what it compares, what it writes, how it refuses."""

import json
import re

import pytest
import torch

from support.scripts import imported


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "optim", "benchmarks")


def test_a_short_run_writes_numbers_and_a_table(bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench.speed, "ROOT", tmp_path)
    page = tmp_path / "docs" / "optim.md"
    page.parent.mkdir()
    page.write_text("a\n<!-- begin newton-speed -->\nold\n<!-- end newton-speed -->\nz\n")
    threads = torch.get_num_threads()
    options = ["--device", "cpu", "--quick", "--repeat", "1", "--cases", "softsort"]
    bench.main([*options, "--docs", "--out", str(tmp_path / "new")])
    assert torch.get_num_threads() == threads
    rows = json.loads((tmp_path / "new" / "optim-cpu.json").read_text(encoding="utf-8"))["rows"]
    losses = [bench.PLAIN, bench.REPEATED, *bench.LOSSES]
    assert [(row["loss"], row["second"]) for row in rows] == losses
    for row in rows:
        assert 0 < row["min_s"] <= row["median_s"]
        assert row["ratio"] == pytest.approx(row["min_s"] / rows[0]["min_s"])
    text = page.read_text(encoding="utf-8")
    assert "| `softsort` | plain |  |" in text
    assert re.search(r"\| *\| plain, of 7 batches \|.* \| \d+\.\d \|  \|", text)
    assert "old" not in text
    assert "|  | elementwise | differences |" in capsys.readouterr().out


def test_differences_that_are_off_stop_the_run(bench, monkeypatch):
    monkeypatch.setattr(bench, "AGREEMENT", 0.0)
    with pytest.raises(SystemExit, match=r"neuralsort: differences are .* off autograd"):
        bench.measure("neuralsort", "cpu", 1, quick=True)
