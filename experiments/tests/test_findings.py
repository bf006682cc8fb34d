"""The scripts behind the results in the documentation."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from support.scripts import imported

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = (
    "study.md", "experiments.md", "results/study.md", "results/sorting.md", "which-renderer.md"
)  # fmt: skip


@pytest.mark.rotating(4, group="long")
@pytest.mark.parametrize("script", ["make_findings", "make_rounds"])
def test_pages_say_what_the_results_say(script, tmp_path, monkeypatch):
    module = imported(monkeypatch, script, "docs")
    (tmp_path / "results").mkdir()
    for name in PAGES:
        shutil.copy(ROOT / "docs" / name, tmp_path / name)
    for path in RESULTS.iterdir():
        if f"results/{path.name}" not in PAGES:
            (tmp_path / "results" / path.name).symlink_to(path)
    monkeypatch.setattr(module, "DOCS", tmp_path)
    options = ["--claims", str(tmp_path / "claims.csv")] if script == "make_rounds" else []
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *options])
    module.main()
    for name in PAGES:
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()
    if options:
        assert (tmp_path / "claims.csv").read_text() == (RESULTS / "claims.csv").read_text()


def test_equal_counts_have_one_place(monkeypatch):
    """However their sum was rounded: means are as many different numbers as the counts are."""
    module = imported(monkeypatch, "make_rounds", "docs")
    grid = module.grid_of("pose", ROOT / "docs" / "results" / "rounds")
    counts = grid.draws.sum((0, -1)).astype(int)
    assert len(np.unique(grid.quality)) == len(np.unique(counts))


def test_defaults_are_those_that_the_page_recommends():
    from gendr.photos.fitting import FitSettings, PoseSettings

    rows = [
        line.split("|") for line in (ROOT / "docs" / "which-renderer.md").read_text().splitlines()
    ]
    advice = {row[1].strip(): row[2].strip(" `") for row in rows if len(row) > 3}
    for goal, settings in (
        ("shape from silhouettes", FitSettings()), ("pose from a silhouette", PoseSettings()),
    ):  # fmt: skip
        assert advice[goal] == f"{settings.dist}/{settings.tconorm}"
