"""The command for a first GPU: its dry run, and what it does when a stage fails."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_check.py"


@pytest.fixture
def check(monkeypatch):
    """The program, with two stages that the tests write, forked as in a dry run."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    module = importlib.import_module("gpu_check")
    monkeypatch.setattr(module, "STAGES", {"first": (1.0, "one"), "second": (1.0, "two")})
    run = {"commit": "a", "device": "cpu", "device_name": "CPU", "torch": "1", "triton": "2"}
    monkeypatch.setattr(module, "about", lambda device: run)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return module


def stages(monkeypatch, **functions):
    """A module of stages in the place of the real one."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    module = SimpleNamespace(
        warm=lambda: None, prepared=lambda place: nullcontext(), **functions
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "gpu_stages", module)


def good(place, report):
    report.row("numbers", x=1)
    report.check("it works", passed=True)


def wrong(place, report):
    report.check("it works", passed=False, detail="no")


def broken(place, report):
    report.row("numbers", x=2)
    raise ArithmeticError("of this stage")


def killed(place, report):
    report.row("numbers", x=3)
    os.kill(os.getpid(), 9)


def endless(place, report):
    report.row("numbers", x=4)
    while True:
        time.sleep(1)


def report_of(folder):
    return json.loads((folder / "gpu-check.json").read_text(encoding="utf-8"))["stages"]


# All stages, in runs of which one is drawn.
PARTS = [
    ["smoke", "entries"],
    ["tests", "memcheck"],
    ["repeats", "targets"],
    ["sweeps", "unbalanced"],
    ["graphs", "rendering"],
    ["sorting", "logic", "instances"],
]


def test_the_parts_are_all_stages(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    stages = importlib.import_module("gpu_check").STAGES
    assert list(stages) == [name for part in PARTS for name in part]


@pytest.mark.slow
@pytest.mark.rotating(len(PARTS))
@pytest.mark.parametrize("part", PARTS, ids="-".join)
def test_dry_run_passes_every_stage(tmp_path, part):
    command = [sys.executable, SCRIPT, "--dry-run", "--out", tmp_path / "dry", "--only", *part]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    found = report_of(tmp_path / "dry")
    assert run.returncode == 0, {name: x.get("log") for name, x in found.items()}
    assert list(found) == part
    assert {x["status"] for x in found.values()} == {"passed"}
    if "smoke" in part:
        assert len(found["smoke"]["checks"]) >= 12
    if "targets" in part:
        assert len(found["targets"]["tables"]["steps"]) == 2
    if "tests" in part:
        assert found["tests"]["tables"]["collected"][0]["tests"] > 100
    if "sweeps" in part:
        assert len(found["sweeps"]["tables"]) == 3
        launch = json.loads((tmp_path / "dry" / "launch.json").read_text())
        assert "gendr.sorting.backends.triton.backend" in launch
        assert "gendr.logic.backends.triton.backend" in launch
    if "logic" in part:
        assert len(found["logic"]["checks"]) >= 5
    text = (tmp_path / "dry" / "gpu-check.md").read_text(encoding="utf-8")
    for name, stage in found.items():
        assert f"| {name} | passed |" in text
        for picture in stage["pictures"]:
            assert (tmp_path / "dry" / picture).read_bytes().startswith(b"\x89PNG")
            assert picture in text


@pytest.fixture
def sweep(monkeypatch, tmp_path):
    """Sweeps over scenes of a GPU, of which nothing is launched."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    stages = importlib.import_module("gpu_stages")
    check, scenes = (importlib.import_module(name) for name in ("gpu_check", "scenes"))
    tiles = stages.tiles
    monkeypatch.setattr(stages.Launcher, "__call__", lambda *_: None)
    monkeypatch.setattr(tiles, "interpreted", lambda: False)  # so that warps are constants
    monkeypatch.setattr(tiles, "LAUNCH", tiles.TileLaunch(fits=True, walked=1 << 30))
    runs = {x.name: scenes.Step(x, scenes.INSTANCES[0], "cpu") for x in scenes.SETUPS[:3]}
    for run in runs.values():  # the first looks at the scene
        run()

    def swept(trials, milliseconds):
        """The best launch, and for every scene what was timed."""
        timed = {name: [] for name in runs}

        def measured(run, place, seconds=0.0):
            name = next(key for key, value in runs.items() if value is run)
            seen = []
            with stages.recorded(seen):
                run()
            timed[name].append(seen)
            return {"steady_ms": milliseconds(name, seen)}

        monkeypatch.setattr(stages, "milliseconds", measured)
        place = check.Place("cpu", False, tmp_path, 100.0)
        report = check.Report(tmp_path / "report.json")
        best = stages.descend(tiles, trials, runs, place, report, time.monotonic() + 100)
        (table,) = report.found["tables"].values()
        return best, timed, table

    return stages, tiles, swept


def options_of(seen, kernel, name):
    """The values of an option of a kernel in what was launched."""
    return {dict(options)[name] for k, _grid, *options in seen if k.fn.__name__ == kernel}


def test_every_trial_of_a_sweep_launches_something_else(sweep):
    stages, tiles, swept = sweep
    best, timed, table = swept(stages.RENDERING_TRIALS, lambda name, seen: 1.0)
    assert best is tiles.LAUNCH
    assert not any("error" in row for row in table)
    for name, launches in timed.items():
        for k, seen in enumerate(launches):
            assert seen not in launches[:k], (name, k)
    changed = {name for row in table[1:] for name in row["changed"].replace(",", "").split()}
    # Each of these scenes has more faces than share programs.
    known = {x.name for x in stages.fields(tiles.LAUNCH)} - {"programs", "walked", "fits"}
    assert known <= changed
    small, large, wall = timed.values()
    for kernel, launches, warps in (
        ("alpha_tiles", small, {1, 2, 4}),
        ("alpha_tiles", large, {1, 2, 4}),
        ("alpha_gradients", small, {1, 2, 4}),
        ("alpha_gradients", wall, {1, 2, 4, 8}),
        ("face_tables", large, {1, 2, 4, 8}),
    ):
        assert set.union(*(options_of(x, kernel, "num_warps") for x in launches)) == warps
    assert set.union(*(options_of(x, "alpha_tiles", "TILE_W") for x in large)) == {8, 16, 32}


def test_what_a_sweep_chooses_is_launched(sweep):
    stages, tiles, swept = sweep

    def milliseconds(name, seen):
        fast = options_of(seen, "alpha_tiles", "num_warps") == {4}
        return 0.5 if name == next(iter(runs)) and fast else 1.0

    runs = {x.name: x for x in stages.SETUPS}
    best, timed, _ = swept(stages.RENDERING_TRIALS, milliseconds)
    assert best.small_tile_warps == 4
    again = eval(stages.line_of(best), {"TileLaunch": tiles.TileLaunch})
    values = [getattr(best, x.name) for x in stages.fields(best)]
    assert [getattr(again, x.name) for x in stages.fields(again)] == values
    seen = []
    tiles.LAUNCH = again
    step = stages.Step(stages.SETUPS[0], stages.INSTANCES[0], "cpu")
    with stages.recorded(seen):
        step()
    assert options_of(seen, "alpha_tiles", "num_warps") == {4}
    assert options_of(timed[next(iter(runs))][0], "alpha_tiles", "num_warps") == {1}


@pytest.mark.parametrize(
    ("function", "status", "kept"),
    [
        (wrong, "1 wrong", None),
        (broken, "crashed with 2", 2),
        (killed, "crashed with -9", 3),
        (endless, "stopped after", 4),
    ],
)
def test_others_go_on_when_a_stage_fails(check, monkeypatch, tmp_path, function, status, kept):
    stages(monkeypatch, first=function, second=good)
    code = check.main(["--dry-run", "--out", str(tmp_path), "--minutes", "0.1"])
    found = report_of(tmp_path)
    assert code == 1
    assert found["first"]["status"].startswith(status)
    rows = found["first"]["tables"].get("numbers")
    assert rows == (None if kept is None else [{"x": kept}])
    assert found["second"]["status"] == "passed"
    if function is broken:
        assert "ArithmeticError: of this stage" in (tmp_path / "gpu-check.md").read_text()


def test_resume_keeps_what_passed(check, monkeypatch, tmp_path):
    stages(monkeypatch, first=good, second=wrong)
    command = ["--dry-run", "--out", str(tmp_path)]
    assert check.main(command) == 1
    stages(monkeypatch, first=broken, second=good)
    assert check.main([*command, "--resume"]) == 0
    assert {x["status"] for x in report_of(tmp_path).values()} == {"passed"}
    assert check.main(command) == 1  # anew


def test_resume_refuses_the_report_of_another_commit(check, monkeypatch, tmp_path, capsys):
    stages(monkeypatch, first=good, second=good)
    command = ["--dry-run", "--out", str(tmp_path), "--only", "first"]
    assert check.main(command) == 0
    assert list(report_of(tmp_path)) == ["first"]
    now = check.about("cpu") | {"commit": "b"}
    monkeypatch.setattr(check, "about", lambda device: now)
    assert check.main([*command, "--resume"]) == 2
    assert "is of another commit" in capsys.readouterr().err


def test_without_a_gpu_it_says_so(check, monkeypatch, tmp_path, capsys):
    none = check.about("cuda") | {"capability": None}
    monkeypatch.setattr(check, "about", lambda device: none)
    assert check.main(["--out", str(tmp_path)]) == 2
    assert "--dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "tests/a/test_b.py::test_c[x y/z-1] PASSED    [ 12%]",
        "[gw3] [  7%] PASSED tests/a/test_b.py::test_c[x y/z-1] ",
    ],
)
def test_outcomes_are_read_with_and_without_workers(line, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    read = importlib.import_module("gpu_stages").pytest_outcomes
    assert {k.strip(): v for k, v in read(line).items()} == {
        "tests/a/test_b.py::test_c[x y/z-1]": "PASSED"
    }
    assert read("tests/a/test_b.py::test_c") == {}
