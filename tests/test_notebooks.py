"""The notebooks of the documentation: they run from top to bottom, and are kept without output."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from building import notebooks
from support.cases import for_each

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))
# What makes a notebook quicker, and changes no more than its numbers.
QUICKER = {"learn-the-distribution": [("cube(3)", "cube(2)"), ("Renderer(256", "Renderer(64")]}


def cells(path, kind):
    book = json.loads(path.read_text(encoding="utf-8"))
    return [c for c in book["cells"] if c["cell_type"] == kind]


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {
        "colours-and-texture",
        "depth-normals-batches",
        "find-a-pose",
        "fit-a-mesh",
        "learn-the-distribution",
        "sorting-supervision",
        "splat-a-scene",
    }


@pytest.mark.slow
@pytest.mark.rotating(len(NOTEBOOKS))
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = path.read_text(encoding="utf-8")
    for slow, quick in QUICKER.get(path.stem, ()):
        assert slow in text
        text = text.replace(slow, quick)
    (tmp_path / path.name).write_text(text, encoding="utf-8")
    found = dict(notebooks.run(tmp_path / path.name))
    assert len(found) == len(cells(path, "code"))
    # What the site shows is what the cells of today print and draw, but for the numbers and the
    # spaces that pad them for a sign.
    kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert {int(number) for number in kept} == {n for n, one in found.items() if one.text}
    for number, one in found.items():
        words = re.sub(r" *[-\d.e]+", "", kept.get(str(number), ""))
        assert re.sub(r" *[-\d.e]+", "", one.text) == words, number
        pictures = sorted(path.parent.glob(f"{path.stem}-{number}-*.png"))
        assert len(pictures) == len(one.pictures)
        for file, picture in zip(pictures, one.pictures, strict=True):
            with Image.open(file) as shown:
                assert shown.width * picture.height == shown.height * picture.width


@for_each(path=NOTEBOOKS)
def test_notebooks_are_kept_small_and_their_links_exist(path):
    assert path.stat().st_size < 1e5
    assert all(not c["outputs"] and c["execution_count"] is None for c in cells(path, "code"))
    for cell in cells(path, "markdown"):
        for target in re.findall(r"\]\(([^)#\s]+)\)", "".join(cell["source"])):
            assert (path.parent / target).is_file(), target


def test_notebooks_become_pages(tmp_path):
    book = {"cells": [{"cell_type": kind, "source": text} for kind, text in (
        ("markdown", ["# A title\n", "text"]),
        ("code", ["from PIL import Image\n", "x = 2\n", "print('hello')\n", "x + 1"]),
        ("code", ["Image.new('L', (4, 2), 255)"]),
        ("code", ["from matplotlib import pyplot\n", "pyplot.plot([1, 2])\n", "pyplot.show()"]),
        ("code", ["y = x"]),
    )]}  # fmt: skip
    path = tmp_path / "a-book.ipynb"
    path.write_text(json.dumps(book))
    assert notebooks.title(path) == "A title"
    found = dict(notebooks.run(path))
    assert [(n, one.text) for n, one in found.items()] == [
        (1, "hello\n3\n"),
        (2, ""),
        (3, ""),
        (4, ""),
    ]
    assert [[p.size for p in one.pictures] for one in found.values()][:2] == [[], [(4, 2)]]
    assert found[3].pictures[0].width > 100
    path.with_suffix(".json").write_text(json.dumps({"1": found[1].text}))
    found[2].pictures[0].save(tmp_path / "a-book-2-0.png")
    page = notebooks.as_markdown(path)
    assert page.startswith("# A title\ntext\n\n[This page as a notebook](a-book.ipynb)")
    assert "x + 1\n```\n\n```text\nhello\n3\n```\n" in page
    assert page.count("](a-book-2-0.png)") == 1


def test_the_pictures_of_the_examples_are_small():
    pictures = list((ROOT / "docs" / "examples").glob("*.png"))
    stems = tuple(f"{path.stem}-" for path in NOTEBOOKS)
    assert [p.name for p in pictures if not p.name.startswith(stems)] == []
    assert sum(p.stat().st_size for p in pictures) < 5e5
