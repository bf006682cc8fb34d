"""The comparison of renderers: one table, and nothing is trained twice."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lab.reconstruction import Training

SCRIPT = Path(__file__).parents[3] / "experiments" / "reconstruction.py"


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("reconstruction_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.mark.every
@pytest.mark.slow
def test_one_table_and_nothing_twice(program, folder, tmp_path, monkeypatch, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(folder, data)
    for path in list(data.glob("*_train_*")):
        shutil.copy(path, data / path.name.replace("_train_", "_test_"))
    common = ["--data", data, "-o", out, "--steps", 2, "--batch", 2, "--scale", "1px",
              "--views", 1]  # fmt: skip
    assert program([str(a) for a in [*common, "--renderers", "uniform/probabilistic"]]) == 0
    taken, step = [], Training.advance
    monkeypatch.setattr(Training, "advance", lambda self: taken.append(1) or step(self))
    both = "uniform/probabilistic", "logistic/max@2px"
    capsys.readouterr()
    assert program([str(a) for a in [*common, "--renderers", *both]]) == 0
    assert len(taken) == 2  # those of the new renderer
    table = (out / "table.md").read_text()
    assert capsys.readouterr().out.endswith(table)
    assert table.startswith("| method | flat | tall | mean | steps | minutes |")
    assert "| shapes: train + test | 3 + 3 | 2 + 2 | 5 + 5 |  |  |" in table
    found = json.loads((out / "table.json").read_text())
    rows = found["rows"]
    assert list(rows) == ["mean shape", *both]
    assert found["trained_on"] == {"flat": 3, "tall": 2}
    assert all(0 < score["iou"] < 1 for row in rows.values() for score in row["scores"])
    assert all(row["seconds"] > 0 and row["steps"] == 2 for row in rows.values())
    cells = table.splitlines()[9].strip("| ").split(" | ")
    assert cells[0] == both[0]
    for cell, a, b in zip(
        cells[1:], rows[both[0]]["scores"], rows["mean shape"]["scores"], strict=True
    ):
        gain, error = map(float, cell.split(" ± "))
        by = np.subtract(a["each"], b["each"])
        assert gain == pytest.approx(a["iou"] - b["iou"], abs=1e-4)
        assert error == pytest.approx(by.std(ddof=1) / len(by) ** 0.5, abs=1e-4)
    # The stronger encoder has rows of its own.
    more = ["--renderers", both[0], "--encoders", "published", "residual"]
    assert program([str(a) for a in [*common, *more]]) == 0
    assert "| uniform/probabilistic, residual encoder |" in (out / "table.md").read_text()
    # Trainings of other settings or classes are not mixed into the table.
    wrong = ["--renderers", "unifrm/max", "--no-baseline"]
    for more, message in ((["--steps", 3], "steps = 2, not 3"), (["--classes", "flat"], "on flat"),
                          (wrong, "unifrm")):  # fmt: skip
        assert program([str(a) for a in [*common, *more]]) == 2
        assert message in capsys.readouterr().err
