"""The command for a first GPU: its dry run, and what it does when a stage fails."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_check.py"
STAGES = (
    "smoke", "entries", "tests", "targets", "launches", "graphs", "layers", "rendering", "sorting",
    "logic", "primitives", "lists", "instances",
)  # fmt: skip
# The same program with stages that fail in all ways.
FAILING = """
import os, sys, time
sys.path.insert(0, {folder!r})
import gpu_check

def wrong(place):
    place.check("it works", passed=False, detail="no")

def broken(place):
    place.row("numbers", x=2)
    raise ArithmeticError("of this stage")

def killed(place):
    place.row("numbers", x=3)
    os.kill(os.getpid(), 9)

def endless(place):
    place.row("numbers", x=4)
    time.sleep(600)

def good(place):
    place.check("it works", passed=True)

functions = wrong, broken, killed, endless, good
gpu_check.STAGES = {{f.__name__: (0.1 if f is endless else 1.0, f, "") for f in functions}}
gpu_check.__file__ = __file__
sys.exit(gpu_check.main())
"""


@pytest.fixture(scope="module")
def gpu_check():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        patch.setenv("TRITON_INTERPRET", "1")
        yield importlib.import_module("gpu_check")


def run(script, *options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, script, "--dry-run", *map(str, options)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


def stages_of(folder):
    return json.loads((folder / "gpu-check.json").read_text(encoding="utf-8"))["stages"]


@pytest.mark.slow
@pytest.mark.every
@pytest.mark.parametrize("name", STAGES)
def test_dry_run_passes_every_stage(tmp_path, gpu_check, name):
    assert tuple(gpu_check.STAGES) == STAGES
    done = run(SCRIPT, "--out", tmp_path, "--only", name)
    stages = stages_of(tmp_path)
    assert done.returncode == 0, stages[name].get("log")
    assert list(stages) == [name]
    assert stages[name]["checks"] or stages[name]["tables"]
    assert f"| {name} | passed |" in (tmp_path / "gpu-check.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.every
def test_others_go_on_when_a_stage_fails(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(folder=str(SCRIPT.parent)))
    done = run(script, "--out", tmp_path / "out", "--minutes", "2")
    stages = stages_of(tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert stages.pop("endless")["status"].startswith("stopped after")
    assert {name: x["status"] for name, x in stages.items()} == {
        "wrong": "1 wrong", "broken": "crashed with 1", "killed": "crashed with -9",
        "good": "passed",
    }  # fmt: skip
    assert stages["killed"]["tables"] == {"numbers": [{"x": 3}]}
    assert "ArithmeticError: of this stage" in (tmp_path / "out" / "gpu-check.md").read_text()


def test_a_resumed_run_is_of_the_same_commit_and_does_what_failed(
    gpu_check, monkeypatch, tmp_path, capsys
):
    status = {"smoke": "passed", "entries": "1 wrong"}
    ran = []

    def outcome(name, *_):
        ran.append(name)
        return {"status": status[name], "seconds": 1.0}

    about = {"commit": "a", "device_name": "CPU", "torch": "1", "triton": "2"}
    monkeypatch.setattr(gpu_check, "outcome_of", outcome)
    monkeypatch.setattr(gpu_check, "about", lambda device: about)
    command = ["--dry-run", "--out", str(tmp_path), "--only", "smoke", "entries"]
    assert gpu_check.main(command) == 1
    status["entries"] = "passed"
    assert gpu_check.main([*command, "--resume"]) == 0
    assert ran == ["smoke", "entries", "entries"]
    about = {**about, "commit": "b"}
    assert gpu_check.main([*command, "--resume"]) == 2
    assert "has another commit" in capsys.readouterr().err


def test_the_fastest_launch_is_found_and_the_old_one_restored(gpu_check, monkeypatch, tmp_path):
    place = gpu_check.Place("cuda", tmp_path, tmp_path / "a.json", 10.0)
    launches = make_dataclass("Launch", [("warps", int), ("programs", int)], frozen=True)
    before = launches(4, 1024)
    tiles = SimpleNamespace(__name__="gendr.tiles", LAUNCH=before)

    def busy(run, place):
        launch = tiles.LAUNCH
        return {1: 2.0, 4: 1.5}.get(launch.warps, 1.0) * (0.9 if launch.programs == 4096 else 1.0)

    monkeypatch.setattr(gpu_check, "_busy", busy)
    trials = {"warps": (1, 2, 4), "programs": (1024, 4096)}
    best = gpu_check.descend(tiles, trials, [lambda: None], place, float("inf"))
    assert tiles.LAUNCH is before
    assert best.warps == 2
    assert best.programs == 4096
    assert "'programs': 4096" in place.file.read_text()


def test_outcomes_are_read_with_and_without_workers(gpu_check):
    for line in (
        "tests/a/test_b.py::test_c[x y/z-1] PASSED    [ 12%]",
        "[gw3] [  7%] PASSED tests/a/test_b.py::test_c[x y/z-1] ",
    ):
        assert gpu_check.pytest_outcomes(line) == {"tests/a/test_b.py::test_c[x y/z-1]": "PASSED"}
    assert gpu_check.pytest_outcomes("tests/a/test_b.py::test_c") == {}
