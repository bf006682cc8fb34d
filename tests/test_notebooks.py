"""The notebooks of the documentation: they run from top to bottom, and are kept without output."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))


def cells(path, kind):
    book = json.loads(path.read_text(encoding="utf-8"))
    return [c for c in book["cells"] if c["cell_type"] == kind]


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {
        "colours-and-texture",
        "depth-normals-batches",
        "find-a-pose",
        "fit-a-mesh",
        "learn-the-law",
        "sorting-supervision",
    }


@pytest.mark.slow
@pytest.mark.rotating(2)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path, "code")):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_small_and_their_links_exist(path):
    assert path.stat().st_size < 1e5
    assert all(not c["outputs"] and c["execution_count"] is None for c in cells(path, "code"))
    for cell in cells(path, "markdown"):
        for target in re.findall(r"\]\(([^)#\s]+)\)", "".join(cell["source"])):
            assert (path.parent / target).is_file(), target
