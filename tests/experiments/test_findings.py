"""The scripts behind the results in the documentation."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


def test_pages_say_what_the_results_say(tmp_path, monkeypatch):
    module = load(ROOT / "docs" / "make_findings.py")
    for name in ("experiments.md", "sorting.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / name)
    (tmp_path / "results").symlink_to(ROOT / "docs" / "results")
    monkeypatch.setattr(module, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_findings.py"])
    module.main()
    for name in ("experiments.md", "sorting.md"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()


def test_all_1242_are_in_the_table():
    module = load(ROOT / "docs" / "make_findings.py")
    for task in ("shape", "pose"):
        grid = module.Grid.read(ROOT / "docs" / "results" / "grid-laptop.csv", task)
        assert len(grid.quality) == 1242
        assert 0.5 < max(grid.quality.values()) < 1


@pytest.mark.parametrize("extra", [["--instances", "logistik/max"], ["--best", "0"], []])
def test_best_again_refuses_in_one_line(extra, tmp_path, capsys):
    module = load(ROOT / "experiments" / "best_again.py")
    out = tmp_path / "again.csv"
    assert module.main([str(tmp_path / "none.sqlite"), "shape", "-o", str(out), *extra]) == 2
    said = capsys.readouterr().err
    assert said.startswith("best_again.py: error: ")
    assert said.count("\n") == 1
    assert not out.exists()
