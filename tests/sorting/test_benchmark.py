"""The benchmark of the sorts: what it compares, how it times, what it writes, how it refuses."""

import json
import sys
import types
from pathlib import Path

import pytest
import torch

from support.scripts import imported

CPU = "cpu"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        yield imported(patch, "sorting", "benchmarks")


@pytest.fixture
def short(bench, monkeypatch):
    """The script without its measurements of the machine and of memory."""
    limits = bench.speed.Limits(1.0, 1.0, 0.125)
    monkeypatch.setattr(bench.speed.Limits, "of", classmethod(lambda cls, device: limits))
    monkeypatch.setattr(bench, "peak_memory", lambda *_: 12_345_678)
    return bench


def test_a_short_run_writes_numbers_and_a_table(short, tmp_path, capsys):
    out = tmp_path / "results" / "new"
    short.main(["--device", CPU, "--quick", "--repeat", "1", "--out", str(out)])
    printed = capsys.readouterr().out
    report = json.loads((out / "sorting-cpu.json").read_text(encoding="utf-8"))
    assert set(report) == {"run", "product_s", "rows"}
    assert {"date", "commit", "device_name", "threads", "torch", "load", "missing"} <= set(
        report["run"]
    )
    found = {}
    for row in report["rows"]:
        found.setdefault(row["name"], []).append(row["implementation"])
        assert 0 < row["min_s"] <= row["median_s"]
        assert row["runs"] >= 1
        assert 0 <= row["difference"] <= short.AGREEMENT
        assert (row["memory_bytes"] is None) == (row["name"] != "bitonic/1x16")
    networks = {"odd_even/3x8", "bitonic/3x8", "bitonic/1x16"}
    assert {name.split("/")[0] for name in found} == set(short.METHODS) == set(short.FORMULAS)
    for name, implementations in found.items():
        beside = ["reference", "paper"] if name in networks else ["paper"]
        assert [i for i in implementations if i not in short.PACKAGES] == ["gendr", *beside]
    assert "a 2048³ float32 matrix product in the same run 125 ms" in printed
    assert "| `permutahedron` | 3 × 8 | gendr |" in printed
    assert "12 MB" in printed


@pytest.mark.parametrize("part", ["result", "gradient"])
def test_an_implementation_that_is_off_stops_the_run(short, monkeypatch, part):
    right = short.FORMULAS["softsort"]

    def wrong(method, x):
        p = right(method, x)
        return p * 1.01 if part == "result" else p.detach() + 0.9 * (p - p.detach())

    monkeypatch.setitem(short.FORMULAS, "softsort", wrong)
    with pytest.raises(SystemExit, match=r"softsort/3x8: paper is .* off gendr"):
        short.measure(short.Case("softsort", 3, 8), CPU, 1)


def test_values_and_gradients_are_the_same_in_every_run(bench):
    case = bench.Case("bitonic", 4, 6)
    assert torch.equal(case.values(CPU), case.values(CPU))
    assert case.values(CPU).requires_grad
    assert case.gradient(CPU).shape == (4, 6, 6)
    assert bench.Case("permutahedron", 4, 6).gradient(CPU).shape == (4, 6)


def test_names_name_their_cases(bench):
    every = bench.cases(quick=False) + bench.cases(quick=True)
    assert {case.method for case in every} == set(bench.METHODS)
    for case in every:
        found = bench.Case.of(case.name)
        assert (found.method, found.batch, found.n) == (case.method, case.batch, case.n)
    for name in ("bitonic", "bitonic/1", "bitonic/0x4", "bogosort/1x4"):
        assert bench.Case.of(name) is None


def test_implementations_take_turns(bench, monkeypatch):
    seconds = {"fast": 0.008, "slow": 5.0}
    order = []

    def timed(run, device):
        order.append(run())
        return seconds[order[-1]]

    monkeypatch.setattr(bench.speed, "timed", timed)
    runs = {name: (lambda name=name: name) for name in seconds}
    times = bench.comparison.take_turns(runs, 5, CPU)
    # Bursts of 3 x 8 ms >= 20 ms; the slow one is over its budget at once, but runs 3 times.
    assert order == ["fast", "fast", "fast", "slow"] * 3 + ["fast"] * 6
    assert times == {"fast": [0.008] * 15, "slow": [5.0] * 3}


def test_ratios_are_those_of_the_same_case(bench):
    rows = [
        dict(name=name, method="softsort", batch=3, n=8, implementation=who, median_s=median,
             min_s=least, runs=7, memory_bytes=None)
        for name, who, median, least in [
            ("a", "gendr", 1e-3, 8e-4), ("a", "paper", 2.5e-3, 1.6e-3), ("b", "gendr", 1.0, 1.0),
        ]
    ]  # fmt: skip
    assert bench.cells(rows[0], rows) == [
        "`softsort`", "3 × 8", "gendr", "1.0 ms", "0.800 ms", "", "", "", "7",
    ]  # fmt: skip
    assert bench.cells(rows[1], rows) == [
        "", "", "paper", "2.5 ms", "1.6 ms", "", "2.5×", "2×", "7",
    ]  # fmt: skip


def test_published_packages_are_compared_where_they_exist(bench, monkeypatch):
    class DiffSortNet:
        def __init__(self, kind, size, *, device, steepness, distribution):
            assert (kind, size, distribution) == ("bitonic", 8, "cauchy")
            method = bench.BitonicSort(steepness, "cauchy", backend="reference")
            self.permutation = method.permutation

        def __call__(self, x):
            p = self.permutation(x)
            return None, p.mT  # ranks are its columns

    def soft_rank(x, regularization_strength):
        return bench.FastSort(1 / regularization_strength).ranks(x)

    packages = {
        "diffsort": types.SimpleNamespace(DiffSortNet=DiffSortNet),
        "torchsort": types.SimpleNamespace(soft_rank=soft_rank),
    }
    monkeypatch.setattr(bench, "missing", lambda package: None)
    for package, module in packages.items():
        monkeypatch.setitem(sys.modules, package, module)
    for method, package in (("bitonic", "diffsort"), ("permutahedron", "torchsort")):
        rows = bench.measure(bench.Case(method, 3, 8), CPU, 1)
        assert package in [row["implementation"] for row in rows]


def test_missing_packages_say_why(bench):
    assert bench.missing("torch") is None
    assert "no_such_package" in bench.missing("no_such_package")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="read from Linux's /proc")
@pytest.mark.slow
def test_memory_is_that_of_a_fresh_process(bench):
    # P and the gradient to P: at least two matrices of float32, and no third one per layer.
    peak = bench.peak_memory(bench.Case("bitonic", 4, 512), "gendr", CPU)
    matrices = 4 * 512 * 512 * 4
    assert matrices <= peak <= 8 * matrices


def test_docs_get_the_table(short, tmp_path, monkeypatch):
    monkeypatch.setattr(short.speed, "ROOT", tmp_path)
    page = tmp_path / "docs" / "sorting.md"
    page.parent.mkdir()
    page.write_text("a\n<!-- begin sorting-speed -->\nold\n<!-- end sorting-speed -->\nz\n")
    options = ["--device", CPU, "--quick", "--repeat", "1", "--cases", "softsort", "--docs"]
    short.main(options)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("a\n<!-- begin sorting-speed -->\nMeasured on ")
    assert "| `softsort` | 3 × 8 | gendr |" in text
    assert "old" not in text
    assert text.endswith("\n<!-- end sorting-speed -->\nz\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--repeat", "0"], "--repeat"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--device", CPU, "--cases", "("], "regular expression"),
        (["--device", CPU, "--cases", "bogosort"], "bogosort"),
        (["--device", CPU, "--probe", "bogosort/1x4/gendr"], "bogosort/1x4"),
        (["--device", CPU, "--probe", "softsort/1x4/reference"], "gendr, paper"),
    ],
)
def test_bad_options_end_in_one_line(bench, options, said, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.main(options)
    assert stop.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
