"""The site of the documentation: its order and its API reference."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gendr
from building import site
from lab.pages import anchor, order

ROOT = Path(__file__).parents[1]
MISSING = [n for n in ("mkdocs", "material", "mkdocstrings") if not importlib.util.find_spec(n)]


def test_every_public_name_has_a_place_in_the_reference():
    home = site.home_of_names()
    pages = {module: site.reference(module, home) for module in site.public_modules()}
    for module in ("gendr.mesh", "gendr.distributions", "gendr.tnorms", "gendr.sorting.losses"):
        assert module in pages
    for module, text in pages.items():
        for name in sys.modules[module].__all__:
            assert f"heading: {module}.{name}\n" in text or f"| [`{name}`]" in text, name
    # What comes from several places is described once, where it stands closest.
    assert home["gendr.Camera"] == "gendr.mesh.Camera"
    assert home["gendr.instances"] == "gendr.instances"
    assert "::: gendr.mesh.cameras.Camera\n" in pages["gendr.mesh"]
    assert "::: gendr.mesh.cameras.Camera\n" not in pages["gendr"]
    # A distribution that only its file names, too.
    assert "heading: gendr.distributions.StudentT\n" in pages["gendr.distributions"]


def test_public_names_have_docstrings(monkeypatch):
    assert site.undocumented() == []
    monkeypatch.setattr(gendr.losses.iou, "__doc__", None)
    assert site.undocumented() == ["gendr.losses.iou"]


def test_the_index_orders_the_pages():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page for _, pages in order(index) for _, page in pages]
    assert pages[0] == "getting-started.md"
    assert len(pages) + 2 <= 25  # with the index itself and the API reference
    assert all(f"[`{name}`]({name}.md)" in site.contents() for name in site.public_modules())
    text = "- [A](a.md): see [b](b.md).\n\n## Two\n\n- **[B](b.md)**\n- [A again](a.md)\n- none\n"
    assert order(text) == [("Pages", [("A", "a.md")]), ("Two", [("B", "b.md")])]


def test_anchors_are_those_of_markdown_hosts():
    assert anchor("All 1242") == "all-1242"
    assert anchor("`--protocol paper`: what's new?") == "--protocol-paper-whats-new"


def test_docstrings_hold_no_quotations(tmp_path):
    text = "One.\n\n>>> f(1)\n2\n\n>>> f(2)\n3\n\nTwo:\n\n    >>> indented(1)"
    assert site.unquoted(text) == (
        "One.\n\n```pycon\n>>> f(1)\n2\n```\n\n```pycon\n>>> f(2)\n3\n```\n\nTwo:\n\n"
        "    >>> indented(1)"
    )
    text = "Args:\n    steps: >= 1, number\n        > 0.\n    **k: > 2"
    assert site.unquoted(text) == text.replace(" >", r" \>")
    assert site.unquoted("Source: A,\n    B;\n    C.\n\nD") == "Source: A,\nB;\nC.\n\nD"
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "gendr.html").write_text("<blockquote>f(1)</blockquote><details>")
    quotations, boxes = site.quotations(tmp_path)
    assert quotations.startswith("gendr.html has 1 quotations")
    assert boxes.startswith("gendr.html has 1 boxes")


def test_faults_of_a_site_are_found(tmp_path, monkeypatch):
    page, name = tmp_path / "gendr.mesh.html", "gendr.mesh.Camera"
    monkeypatch.setattr(site, "public_modules", lambda: ["gendr.mesh"])
    monkeypatch.setattr(site, "page_of", lambda module: "gendr.mesh.md")
    monkeypatch.setattr(site, "home_of_names", lambda: {"gendr.Camera": name})
    page.write_text(f'<a href="no.html" id="{name}"></a><a href="#no"></a><img src="//a.b/c">')
    assert [*site.missing_entries(tmp_path)] == ["gendr.Camera has no entry in the API reference"]
    assert [line.partition(" ")[2] for line in site.wrong_links(tmp_path)] == [
        "loads //a.b/c from a network",
        "links to no.html, which is not there",
        "links to #no, whose anchor is not there",
    ]
    page.write_text(f'<a href="#{name}" id="{name}"></a><i id="gendr.mesh.cameras.Camera"></i>')
    assert not [*site.missing_entries(tmp_path), *site.wrong_links(tmp_path)]


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make docs-site)")
def test_the_site_builds(tmp_path):
    folder = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "search" / "search_index.js").is_file()  # what a file's search reads
    if node := shutil.which("node"):
        script = ROOT / "tests" / "support" / "search.js"
        found = subprocess.run(
            [node, str(script), str(folder), "Renderer", "how to install", "GPU"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.split() == [
            "rendering.html",
            "getting-started.html#how-to-install",
            "rendering.html#gpu",
        ]
    assert "gendr.mesh.Camera" in (folder / "api" / "gendr.mesh.html").read_text(encoding="utf-8")
