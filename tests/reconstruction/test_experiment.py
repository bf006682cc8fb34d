"""The comparison of renderers: one table, and nothing is trained twice."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from gendr.reconstruction import Training

SCRIPT = Path(__file__).parents[2] / "experiments" / "reconstruction.py"


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("reconstruction_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_one_table_and_nothing_twice(program, folder, tmp_path, monkeypatch, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(folder, data)
    for path in list(data.glob("*_train_*")):
        shutil.copy(path, data / path.name.replace("_train_", "_test_"))
    common = ["--data", data, "-o", out, "--steps", 2, "--batch", 2, "--scale", "1px",
              "--views", 1]  # fmt: skip
    assert program([str(a) for a in [*common, "--renderers", "uniform/probabilistic"]]) == 0
    taken, step = [], Training.step
    monkeypatch.setattr(Training, "step", lambda self: taken.append(1) or step(self))
    both = "uniform/probabilistic", "logistic/max"
    capsys.readouterr()
    assert program([str(a) for a in [*common, "--renderers", *both]]) == 0
    assert len(taken) == 2  # those of the new renderer
    lines = (out / "table.md").read_text().splitlines()
    assert lines[0] == "| renderer | flat | tall | mean |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| mean shape", "| uniform/probabilistic", "| logistic/max"
    ]  # fmt: skip
    assert capsys.readouterr().out.endswith((out / "table.md").read_text())
    rows = json.loads((out / "table.json").read_text())
    assert all(0 < score["iou"] < 1 for row in rows.values() for score in row)
    assert [score["shapes"] for score in rows["mean shape"]] == [3, 2]
    # Trainings of other settings or classes are not mixed into the table.
    for more, message in ((["--steps", 3], "steps = 2, not 3"), (["--classes", "flat"], "on flat")):
        assert program([str(a) for a in [*common, *more]]) == 2
        assert message in capsys.readouterr().err


def test_an_unknown_renderer_ends_it(program, folder, tmp_path, capsys):
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    for path in list(data.glob("*_train_*")):
        shutil.copy(path, data / path.name.replace("_train_", "_test_"))
    words = ["--data", data, "-o", tmp_path / "out", "--renderers", "unifrm/max", "--no-baseline"]
    assert program([str(a) for a in words]) == 2
    assert "unifrm" in capsys.readouterr().err
