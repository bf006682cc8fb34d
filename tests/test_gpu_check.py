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


# All stages, in two runs of which one is drawn.
HALVES = [
    ["smoke", "memcheck", "repeats", "targets", "rendering", "instances"],
    ["entries", "tests", "sweeps", "unbalanced", "graphs", "sorting", "logic"],
]


def test_the_halves_are_all_stages(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    stages = list(importlib.import_module("gpu_check").STAGES)
    assert sorted(stages) == sorted([*HALVES[0], *HALVES[1]])
    assert [sorted(half, key=stages.index) for half in HALVES] == HALVES


@pytest.mark.slow
@pytest.mark.rotating(2)
@pytest.mark.parametrize("half", HALVES, ids=["first", "second"])
def test_dry_run_passes_every_stage(tmp_path, half):
    command = [sys.executable, SCRIPT, "--dry-run", "--out", tmp_path / "dry", "--only", *half]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    found = report_of(tmp_path / "dry")
    assert run.returncode == 0, {name: x.get("log") for name, x in found.items()}
    assert list(found) == half
    assert {x["status"] for x in found.values()} == {"passed"}
    if "smoke" in half:
        assert len(found["smoke"]["checks"]) >= 12
        assert len(found["targets"]["tables"]["steps"]) == 2
    else:
        assert found["tests"]["tables"]["collected"][0]["tests"] > 500
        assert len(found["sweeps"]["tables"]) == 3
        launch = json.loads((tmp_path / "dry" / "launch.json").read_text())
        assert "gendr.sorting.backends.triton.backend" in launch
        assert "gendr.logic.backends.triton.backend" in launch
        assert len(found["logic"]["checks"]) >= 5
    text = (tmp_path / "dry" / "gpu-check.md").read_text(encoding="utf-8")
    for name, stage in found.items():
        assert f"| {name} | passed |" in text
        for picture in stage["pictures"]:
            assert (tmp_path / "dry" / picture).read_bytes().startswith(b"\x89PNG")
            assert picture in text


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
