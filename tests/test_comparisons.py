"""The scripts that compare implementations: they agree, take turns, are written down."""

import json
import re
from pathlib import Path

import pytest
import torch

from support.processes import run_python
from support.scripts import imported

SCRIPTS = ("sorting", "topk", "relaxed", "optim", "logic", "colours")


@pytest.fixture(scope="module")
def bench():
    """Imports a script; what they share does not measure the machine or other processes."""
    with pytest.MonkeyPatch.context() as patch:
        comparison = imported(patch, "comparison", "benchmarks")
        limits = comparison.speed.Limits(1.0, 1.0, 0.125)
        patch.setattr(comparison.speed.Limits, "of", classmethod(lambda cls, device: limits))
        patch.setattr(comparison.Comparison, "_peak", lambda *_: 12_345_678)
        known = {"comparison": comparison, "speed": comparison.speed}
        yield lambda name: known.get(name) or imported(patch, name, "benchmarks")


@pytest.mark.slow
@pytest.mark.rotating(len(SCRIPTS))
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_short_run_writes_numbers_and_a_table(bench, name, seed, tmp_path, monkeypatch, capsys):
    """Of one case, another with other seeds."""
    script = bench(name)
    comparison = script.main.__self__
    page, mark = comparison.page or name, comparison.mark or f"{name}-speed"
    monkeypatch.setattr(bench("speed"), "ROOT", tmp_path)
    text = tmp_path / "docs" / f"{page}.md"
    text.parent.mkdir(parents=True)
    text.write_text(f"a\n<!-- begin {mark} -->\nold\n<!-- end {mark} -->\nz\n")
    threads, names = torch.get_num_threads(), [case.name for case in script.cases(True, "cpu")]
    one = names[seed // len(SCRIPTS) % len(names)]
    options = [
        "--device",
        "cpu",
        "--quick",
        "--repeat",
        "1",
        "--docs",
        "--out",
        str(tmp_path / "a"),
    ]
    script.main([*options, "--cases", f"^{re.escape(one)}$"])
    assert torch.get_num_threads() == threads
    report = json.loads((tmp_path / "a" / f"{name}-cpu.json").read_text(encoding="utf-8"))
    assert {row["name"] for row in report["rows"]} == {one}
    for row in report["rows"]:
        assert 0 < row["min_s"] <= row["median_s"]
        assert row["difference"] <= comparison.agreement
    printed, written = capsys.readouterr().out, text.read_text(encoding="utf-8")
    assert written == f"a\n<!-- begin {mark} -->\n{printed}<!-- end {mark} -->\nz\n"
    assert "product in the same run 125 ms" in printed
    assert any(row["memory_bytes"] for row in report["rows"]) == ("12 MB" in printed)


def test_an_implementation_that_is_off_stops_the_run(bench):
    comparison, x = bench("comparison"), torch.ones(3, requires_grad=True)

    def report(**runs):
        group = comparison.outcomes(runs, [x], torch.ones(3))
        case = comparison.Case("a", lambda: [group])
        return comparison.Comparison("a", "", lambda *_: [case]).measure(case, "cpu", 1, True)

    assert [row["difference"] for row in report(one=torch.exp, other=torch.exp)] == [0.0, 0.0]
    for wrong in (lambda x: 1.01 * x.exp(), lambda x: x.exp().detach() + 0.9 * (x - x.detach())):
        with pytest.raises(SystemExit, match=r"a: other is .* off"):
            report(one=torch.exp, other=wrong)


def test_implementations_take_turns(bench, monkeypatch):
    comparison, seconds, order = bench("comparison"), {"fast": 0.008, "slow": 5.0}, []

    def timed(run, device, processor):
        order.append(run())
        return seconds[order[-1]]

    monkeypatch.setattr(comparison.speed, "timed", timed)
    runs = {name: (lambda name=name: name) for name in seconds}
    times = comparison.take_turns(runs, 5, "cpu")
    # Bursts of 3 x 8 ms >= 20 ms; the slow one is over its budget at once, but runs 3 times.
    assert order == ["fast", "fast", "fast", "slow"] * 3 + ["fast"] * 6
    assert times == {"fast": [0.008] * 15, "slow": [5.0] * 3}


def test_ratios_are_those_of_the_same_case(bench):
    rows = [
        {"name": name, "implementation": who, "median_s": 2 * least, "min_s": least, "runs": 7,
         "memory_bytes": None, "target": None}
        for name, who, least in [("a", "gendr", 8e-4), ("a", "paper", 1.6e-3), ("b", "gendr", 1.0)]
    ]  # fmt: skip
    run = dict.fromkeys(("date", "commit", "device", "device_name", "torch", "python"), "x")
    text = bench("comparison").markdown({"run": {**run, "load": 0.0}, "product_s": 1, "rows": rows})
    assert text[2:] == [
        "| case | implementation | median | minimum | minimum / first | runs |",
        "| --- | --- | --- | --- | --- | --- |",
        "| `a` | gendr | 1.6 ms | 0.800 ms |  | 7 |",
        "|  | paper | 3.2 ms | 1.6 ms | 2× | 7 |",
        "| `b` | gendr | 2,000.0 ms | 1,000.0 ms |  | 7 |",
    ]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="read from Linux's /proc")
@pytest.mark.slow
@pytest.mark.every
def test_memory_is_that_of_a_fresh_process():
    # P and the gradient to P: at least two matrices of float32, and no third one per layer.
    code = "import sys; sys.path.insert(0, sys.argv[1]); import sorting as s, comparison\n"
    code += "print(comparison.peak_of(s._case('bitonic', 1, 1024, 'cpu'), 'gendr', 'cpu'))"
    run = run_python(code, str(Path(__file__).parents[1] / "benchmarks"), check=True)
    matrix = 1024 * 1024 * 4
    assert matrix <= int(run.stdout) <= 8 * matrix
