"""The documentation: its code runs, its links and pictures exist, its tables are up to date."""

import re
from pathlib import Path

import pytest

import gendr
from gendr.testing.pages import anchor

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"(?:<!-- test: ?(?P<small>[^>]*?) ?-->\n)?```python\n(?P<code>.*?)```", re.S)
# What a comment `<!-- test: ... -->` above a block makes smaller, so that the tests stay fast.
SMALLER = {
    "views": lambda n: (r"torch\.arange\(24\) \* 15\.0", f"torch.arange({n}) * {360 / int(n)}"),
    "size": lambda n: (r"Renderer\(64", f"Renderer({n}"),
    "steps": lambda n: (r"steps=\d+", f"steps={n}"),
}


def blocks():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text[: match.start("code")].count("\n") + 1
            name = f"{page.relative_to(ROOT)}:{line}"
            yield pytest.param(match["code"], match["small"] or "", line, id=name)


@pytest.mark.parametrize(("code", "small", "line"), list(blocks()))
def test_code_of_the_pages_runs(code, small, line, tmp_path, monkeypatch):
    for item in small.split():
        key, value = item.split("=")
        pattern, replacement = SMALLER[key](value)
        code, count = re.subn(pattern, replacement, code)
        assert count, f"nothing to make smaller by {item}"
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "page.py"  # a relaxed program is rewritten from its file
    file.write_text("\n" * (line - 1) + code, encoding="utf-8")
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {"__name__": "page"})


def anchors(text):
    """The anchors of headings, as common Markdown hosts make them."""
    return map(anchor, re.findall(r"^#+ (.*)$", text, re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_pictures_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, place = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{page.name} links to {target}"
        if place:
            assert place in set(anchors(file.read_text(encoding="utf-8"))), target


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f"({p.name})" not in index]
    assert missing == ["index.md"]


def test_pictures_are_used_and_small():
    text = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert [p.name for p in pictures if f"images/{p.name})" not in text] == []
    assert sum(p.stat().st_size for p in pictures) < 2e6


def test_the_tables_name_every_member():
    laws = (ROOT / "docs" / "distributions.md").read_text(encoding="utf-8")
    tconorms = (ROOT / "docs" / "tconorms.md").read_text(encoding="utf-8")
    assert [n for n in gendr.distributions.names() if f"| `{n}`" not in laws] == []
    assert [n for n in gendr.tnorms.names() if f"| `{n}` |" not in tconorms] == []


def test_no_written_table_is_empty():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name, body in re.findall(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", text, re.S):
            assert body.strip(), f"{page.name}: run docs/make_figures.py {name}"
