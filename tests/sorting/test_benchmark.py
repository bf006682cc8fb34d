"""The benchmark of the sorts: a short run, an implementation that is off, bad options."""

import json

import pytest

from support.scripts import imported

CPU = "cpu"


@pytest.fixture(scope="module")
def bench():
    """The script without its measurements of the machine and of memory."""
    with pytest.MonkeyPatch.context() as patch:
        script = imported(patch, "sorting", "benchmarks")
        limits = script.speed.Limits(1.0, 1.0, 0.125)
        patch.setattr(script.speed.Limits, "of", classmethod(lambda cls, device: limits))
        patch.setattr(script, "peak_memory", lambda *_: 12_345_678)
        yield script


def test_a_short_run_writes_numbers_and_a_table(bench, tmp_path, capsys):
    bench.main(["--device", CPU, "--quick", "--repeat", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    rows = json.loads((tmp_path / "sorting-cpu.json").read_text(encoding="utf-8"))["rows"]
    found = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row["implementation"])
        assert 0 < row["min_s"] <= row["median_s"]
        assert 0 <= row["difference"] <= bench.AGREEMENT
    networks = {"odd_even/3x8", "bitonic/3x8", "bitonic/1x16"}
    assert {name.split("/")[0] for name in found} == set(bench.METHODS) == set(bench.FORMULAS)
    for name, implementations in found.items():
        beside = ["reference", "paper"] if name in networks else ["paper"]
        assert [i for i in implementations if i not in bench.PACKAGES] == ["gendr", *beside]
    assert "| `permutahedron` | 3 × 8 | gendr |" in printed


def test_an_implementation_that_is_off_stops_the_run(bench, monkeypatch):
    right = bench.FORMULAS["softsort"]
    for wrong in (
        lambda method, x: right(method, x) * 1.01,
        lambda method, x: 0.1 * right(method, x).detach() + 0.9 * right(method, x),
    ):
        monkeypatch.setitem(bench.FORMULAS, "softsort", wrong)
        with pytest.raises(SystemExit, match=r"softsort/3x8: paper is .* off gendr"):
            bench.measure(bench.Case("softsort", 3, 8), CPU, 1)


def test_bad_options_end_in_one_line(bench, capsys):
    for options, said in (
        (["--repeat", "0"], "--repeat"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--device", CPU, "--cases", "("], "regular expression"),
        (["--device", CPU, "--cases", "bogosort"], "bogosort"),
        (["--device", CPU, "--probe", "bogosort/1x4/gendr"], "bogosort/1x4"),
        (["--device", CPU, "--probe", "softsort/1x4/reference"], "gendr, paper"),
    ):
        with pytest.raises(SystemExit) as stop:
            bench.main(options)
        assert stop.value.code == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert said in printed.err
        assert printed.err.count("\n") == 1
