"""The speed benchmark: what it counts, what it compares, what it writes, how it refuses."""

import importlib
import io
import json
import math
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

from support.backends import centres
from support.cases import for_each

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "speed.py"
# Keys of a case that was measured, beside those of `Case`, and their types.
ROW = {
    "faces": int, "pairs": int, "forward_s": float, "both_s": float, "floor_s": float,
    "memory_bytes": (int, type(None)), "brute_s": float, "brute_difference": float,
    "products": float, "dense_s": float, "pytorch3d_s": (float, type(None)), "skipped": type(None),
}  # fmt: skip


@pytest.fixture(scope="module")
def speed():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        return importlib.import_module("speed")


@pytest.fixture(scope="module")
def folder(speed, tmp_path_factory):
    """The results of a short run, without the limits of the machine and memory of processes."""
    out = tmp_path_factory.mktemp("results") / "new"
    options = ["--device", "cpu", "--quick", "--repeat", "1", "--scenes", "sphere_642/.*/uniform"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        limits = speed.Limits(1e11, 1e10, 0.1)
        patch.setattr(speed.Limits, "of", classmethod(lambda *_: limits))
        patch.setattr(speed, "peak_memory", lambda *_: 1000)
        speed.main([*options, "--out", str(out)])
    (out / "stdout").write_text(printed.getvalue())
    return out


def place(speed):
    return speed.Place("cpu", "cpu", None)


def scene(speed, mesh="sphere_642", views=2, size=32, dist="uniform"):
    case = speed.Case(mesh, views, size, dist, speed.SCALES[dist])
    return speed.Scene(case, place(speed))


@pytest.mark.slow
@pytest.mark.rotating(3)
@pytest.mark.every
def test_a_short_run_writes_numbers_and_a_table(folder):
    report = json.loads((folder / "speed-cpu.json").read_text(encoding="utf-8"))
    assert {"date", "commit", "device", "device_name", "threads"} <= set(report["run"])
    (row,) = report["cases"]
    assert row["name"] == "sphere_642/1x32/uniform"
    for key, kind in ROW.items():
        assert isinstance(row[key], kind), key
    # Which of them is faster is for benchmarks to say, not for tests on a busy machine.
    assert min(row[name] for name in ("floor_s", "both_s", "brute_s", "dense_s")) > 0
    assert row["brute_difference"] == 0.0
    assert "| sphere_642 | 1,280 | 1 × 32² |" in (folder / "stdout").read_text()


@torch.no_grad()
@for_each(dist=["uniform", "logistic.squared", "cauchy"])
def test_listed_pairs_are_those_of_the_dense_distances(speed, dist, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    rounding = importlib.import_module("rounding")
    case = scene(speed, views=1, size=16, dist=dist)
    mesh, camera = case.mesh.to(torch.float64), case.camera.to(torch.float64)
    corners, _ = camera.project(mesh.vertices[None])
    d = rounding.published_distance(centres((16, 16)), corners[0, mesh.faces])
    assert case.pairs() == int((d >= -case.radius()[0].double()).sum())


@for_each(dist=["uniform", "logistic.squared", "cauchy"], size=[64, 256])
def test_estimate_is_close_to_the_count(speed, dist, size):
    case = scene(speed, size=size, dist=dist)
    assert case.estimate() == pytest.approx(case.pairs(), rel=0.05)


def test_the_page_says_what_the_numbers_say(speed):
    """Its table, and that of all cases, are those of the file of numbers."""
    report = json.loads((ROOT / "docs/results/speed-cpu.json").read_text(encoding="utf-8"))
    for page, lines in (
        ("benchmarks.md", speed.summary(report)),
        ("results/speed.md", speed.markdown(report)),
    ):
        assert "\n".join(lines) in (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert len(speed.summary(report)) == len(speed.SHOWN) + 4


def test_floor_is_the_slower_of_operations_and_bytes(speed):
    case = scene(speed)
    nothing = case.case.views * (1280 * 3 * 24 + 32 * 32 * 3 * 4)  # faces and pixels pass thrice
    assert speed.Limits(1.0, 1e9, 1.0).floor(case, 0) == pytest.approx(nothing / 1e9)
    slow = speed.Limits(1e6, math.inf, 1.0)
    assert slow.floor(case, 2000) == pytest.approx(2 * slow.floor(case, 1000))


@pytest.mark.parametrize(
    ("mesh", "size", "dist", "reason"),
    [("bunny", 64, "uniform", "--meshes"), ("sphere_642", 2048, "cauchy", "about 5.4e+09 pairs")],
)
def test_what_cannot_be_measured_is_skipped_with_a_reason(speed, mesh, size, dist, reason):
    case = speed.Case(mesh, 1, size, dist, speed.SCALES[dist])
    row = speed.measure(case, place(speed), speed.Limits(1.0, 1.0, 1.0), 1)
    assert reason in row["skipped"]


@pytest.mark.parametrize(("seconds", "held"), [(0.03, True), (0.05, False)])
def test_targets_are_held_or_not(speed, seconds, held):
    target = speed.Target("cpu", "ball", "both_s", 0.04)
    assert target.result({"ball": {"skipped": None, "both_s": seconds}})["held"] is held
    assert target.result({"ball": {"skipped": "no mesh"}}) is None
    assert target.result({}) is None


def test_targets_name_cases(speed):
    assert {t.case for t in speed.TARGETS} <= {case.name for case in speed.cases(quick=False)}
