"""Hooks of MkDocs: the order of the pages, the API reference, and what is checked.

- The side bar has the pages that begin an item of the lists of docs/index.md, at most 25; its
  headings are the sections. Other pages are reached by links and by the search; one that the index
  does not link is an error.
- README, CONTRIBUTING and CHANGELOG, which lie outside of docs, are pages too. Links that leave
  docs go to them, any other one is an error.
- Every notebook of docs/examples is a page, with what its cells print and draw.
- A module with `__all__` beside `gendr/__init__.py` gets a page of the API reference. A name that
  has no docstring or no entry in the finished page is an error.
- No link of the finished site may lead nowhere, and no page may load anything from a network.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "experiments"), str(ROOT / "docs")]

from building import explorer, notebooks, site  # noqa: E402
from lab.pages import anchor, order  # noqa: E402
from lab.report import load_summaries, make_page  # noqa: E402

# Texts of the repository that are pages of the site: title, and their place there.
TEXTS = {
    "README.md": ("Read me", "project/readme.md"),
    "CONTRIBUTING.md": ("Contributing", "project/contributing.md"),
    "CHANGELOG.md": ("Changes", "project/changelog.md"),
    "LICENSE": ("Licence", "project/license.md"),
    "CITATION.cff": ("CITATION.cff", "project/citation.md"),
}
# The page that lists the notebooks, and the one that lists the modules of the API reference.
EXAMPLES = "examples.md"
API = "api/index.md"
# Pages that the search puts before others: those that say how to begin.
FIRST = ("getting-started.md", "rendering.md")
FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MARKER = re.compile(r"^(<!-- .*?-->)$\n?", re.M)
# The space between a number and its unit or error, in tables.
TOGETHER = re.compile(r"(?<=[\d²]) (?=(?:[mµn]?s|[kMG]?B|%)\b|[±×])|(?<=[±×+]) (?=\d)")
# What is said to those who read the file and not the site.
ONLY_THERE = re.compile(r"^<!-- only here: -->$.*?^<!-- up to here -->$", re.M | re.S)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The order of the pages, and anchors as Markdown hosts make them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, _: anchor(text)
    docs = Path(config.docs_dir)
    index = (docs / "index.md").read_text(encoding="utf-8")
    linked = {*LINK.findall(index), "index.md"}
    if missing := [page.name for page in sorted(docs.glob("*.md")) if page.name not in linked]:
        raise PluginError(
            f"docs/index.md does not link {', '.join(missing)}: add a line "
            "`- [Title](page.md): what it is about.`, or a link in such a line"
        )
    if silent := site.undocumented():
        raise PluginError(f"public names without a docstring: {', '.join(silent)}")
    sections = order(index)
    nav: list[Any] = [{"Home": "index.md"}]
    nav += [{title: [{name: page} for name, page in pages]} for title, pages in sections]
    nav[-1][sections[-1][0]].append({"API": API})
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the API reference and the texts of the repository."""
    home = site.home_of_names()
    made = {site.page_of(name): site.reference(name, home) for name in site.public_modules()}
    made[API] = site.contents()
    for name, (title, page) in _texts().items():
        text = (ROOT / name).read_text(encoding="utf-8")
        made[page] = text if name.endswith(".md") else f"# {title}\n\n```text\n{text}```\n"
    made |= {p: notebooks.as_markdown(f) for p, f in _notebooks(Path(config.docs_dir)).items()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_env(env: Any, config: MkDocsConfig, files: Files) -> None:
    """The reports of the grids, beside the pages."""
    results = ROOT / "docs" / "results"
    for source in (results / "grid-laptop.csv", results / "rounds"):
        page = make_page(load_summaries(source), source.name)
        path = Path(config.site_dir) / "results" / f"{source.stem}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """What other Markdown hosts take and Python-Markdown does not.

    Links that leave docs lead to pages of the site, a list may follow a comment at once, and a bar
    in the code of a table has no backslash.
    """
    here = page.file.src_uri
    if here in FIRST:
        page.meta.setdefault("search", {"boost": 2})
    if here.startswith("api/"):
        return markdown
    source = next((name for name, (_, there) in _texts().items() if there == here), f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        target, mark, name = match[1].partition("#")
        if target.endswith(".ipynb") and not here.startswith("examples/"):
            target = target.removesuffix(".ipynb") + ".md"
        if "://" in target or target.startswith("mailto:") or not target:
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if there in TEXTS:
            there = TEXTS[there][1]
        elif there.startswith("docs/"):
            there = there.removeprefix("docs/")
        else:
            raise PluginError(f"{source} links to {target}, which is not part of the site")
        return f"]({posixpath.relpath(there, posixpath.dirname(here) or '.')}{mark}{name})"

    parts = FENCED.split(ONLY_THERE.sub("", markdown))
    for i in range(0, len(parts), 2):
        text = MARKER.sub(r"\n\1\n\n", LINK.sub(moved, parts[i]))
        rows = [_row(row) if row.startswith("|") else row for row in text.split("\n")]
        parts[i] = "\n".join(rows)
    return "".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The explorer, where a page asks for it; such a page is wider."""
    if explorer.MARKER in html:
        page.meta["hide"] = ["toc"]
    return explorer.with_explorer(html)


def on_post_build(config: MkDocsConfig) -> None:
    """Look at the finished site.

    Raises:
        PluginError: that lists what is wrong.
    """
    folder = Path(config.site_dir)
    checks = (site.missing_entries, site.quotations, site.wrong_links)
    if wrong := [line for check in checks for line in check(folder)]:
        raise PluginError("\n".join(("the site has faults:", *wrong)))
    sys.stdout.write(f"built; open {folder / 'index.html'}\n")


def _texts() -> dict[str, tuple[str, str]]:
    return {name: page for name, page in TEXTS.items() if (ROOT / name).is_file()}


def _notebooks(docs: Path) -> dict[str, Path]:
    """The pages of the notebooks, and their files, in the order in which they are listed."""
    links = LINK.findall((docs / EXAMPLES).read_text(encoding="utf-8"))
    listed = [docs / link for link in dict.fromkeys(links) if link.endswith(".ipynb")]
    if missing := set((docs / "examples").glob("*.ipynb")) - set(listed):
        names = ", ".join(sorted(path.name for path in missing))
        raise PluginError(f"docs/{EXAMPLES} does not list {names}; add a row")
    return {f"examples/{path.stem}.md": path for path in listed}


def _row(row: str) -> str:
    """A row of a table: bars in its code have no backslash, numbers stay with their units."""
    parts = re.split(r"(`[^`]*`)", row)
    parts[1::2] = [code.replace(r"\|", "|") for code in parts[1::2]]
    parts[::2] = [TOGETHER.sub("\N{NO-BREAK SPACE}", text) for text in parts[::2]]
    return "".join(parts)
