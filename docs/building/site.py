"""The site of the documentation: which modules its API reference has, and what is checked.

It knows nothing of the program that makes the site; docs/site/hooks.py does.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

# `splatting` is `gendr.photos.splatting`.
NOT_IN_THE_REFERENCE = ("splatting",)
# What is typed at a prompt, up to the next empty line.
PROMPT = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.M)
# "> 0" where a text begins: a line, or what is said of a parameter.
GREATER = re.compile(r"^(\s*(?:\**\w+: )?)>(?!>> )", re.M)
# A source of several lines.
SOURCE = re.compile(r"^Source: .*(?:\n +\S.*)+", re.M)
# Public modules further down that the pages speak of.
DEEPER = (
    "lab.data",
    "lab.reconstruction",
    "lab.reconstruction.voxels",
    "gendr.logic.estimators",
    "gendr.relaxed.estimators",
    "gendr.relaxed.programs",
    "gendr.rendering.ordered",
    "lab.report",
)


# ---------------------------------------------------------------------------------------------
# the API reference


def public_modules() -> list[str]:
    """`gendr`, the modules beside it that have `__all__`, and some further down.

    A module that another one has in its `__all__` is public too.
    """
    beside = [
        f"gendr.{found.name}"
        for found in pkgutil.iter_modules(_load("gendr").__path__)
        if not found.name.startswith("_") and found.name not in NOT_IN_THE_REFERENCE
    ]
    named = [name for name in (*sorted(beside), *DEEPER) if hasattr(_load(name), "__all__")]
    inner = [_value(f"{name}.{each}").__name__ for name in named for each in _inner(name)]
    return ["gendr", *sorted({*named, *inner})]


def home_of_names() -> dict[str, str]:
    """Where each public object is described: "gendr.Camera" -> "gendr.mesh.Camera".

    The page of `gendr` describes only what no other module offers.
    """
    out: dict[str, str] = {}
    first: dict[int, str] = {}
    listed = public_modules()
    for module in (*listed[1:], listed[0]):
        for name in _load(module).__all__:
            value, path = getattr(_load(module), name), f"{module}.{name}"
            if not inspect.ismodule(value):
                out[path] = first.setdefault(id(value), path) if _is_written(value) else path
    return out


def undocumented() -> list[str]:
    """Public classes and functions without a docstring."""
    values = {path: _value(path) for path in home_of_names()}
    return [path for path, value in values.items() if _is_written(value) and not _doc(value)]


def page_of(module: str) -> str:
    """The place of a module's page, below docs and, but for the suffix, in the site."""
    return f"api/{module}.md"


def reference(module: str, home: dict[str, str]) -> str:
    """The Markdown of a module's page: mkdocstrings puts the docstrings in.

    Args:
        module: One of `public_modules`.
        home: What `home_of_names` says.
    """
    # By its own name: that of a second one, `gendr.splatting`, is another.
    inner = {n: f"[`{n}`]({_value(f'{module}.{n}').__name__}.md)" for n in _inner(module)}
    own: list[str] = []
    lent: dict[str, str] = {}
    for name in _load(module).__all__:
        path = f"{module}.{name}"
        if home.get(path) == path:
            own.append(name)
        elif name not in inner:
            lent[name] = f"[`{name}`][{home[path]}]"
    lines = [f"# `{module}`", "", f"::: {module}", "    options:", "      members: false"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false", ""]
    if inner or lent:
        lines += ["| name | |", "| --- | --- |"]
        for name, link in (inner | lent).items():
            text = _doc(_value(f"{module}.{name}")).partition("\n")[0].replace("|", r"\|")
            lines += [f"| {link} | {text} |"]
        lines += [""]
    for name in own:
        path = f"{module}.{name}"
        lines += [f"[](){{ #{path} }}", "", f"::: {_source(path)}"]
        lines += ["    options:", f"      heading: {path}", f"      toc_label: {name}", ""]
    return "\n".join(lines)


def contents() -> str:
    """The Markdown of the page that lists the modules."""
    lines = ["# API reference", "", "| module | |", "| --- | --- |"]
    for module in public_modules():
        text = _doc(_load(module)).partition("\n")[0].replace("|", r"\|")
        lines += [f"| [`{module}`]({module}.md) | {text} |"]
    return "\n".join(lines) + "\n"


def unquoted(text: str) -> str:
    """A docstring for Markdown, to which `>` at the beginning of a text is a quotation.

    Examples at a prompt become blocks of code, and "start: > 0" stays what it says. A source of
    several lines loses its indentation, which would make a box of it.
    """
    text = SOURCE.sub(lambda found: re.sub(r"\n +", "\n", found[0]), text)
    text = GREATER.sub(r"\1\>", text)
    return PROMPT.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


def _load(module: str) -> ModuleType:
    return importlib.import_module(module)


def _value(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(_load(module), name)


def _inner(module: str) -> list[str]:
    """The modules that a module offers."""
    return [n for n in _load(module).__all__ if inspect.ismodule(_value(f"{module}.{n}"))]


def _is_written(value: object) -> bool:
    """Whether it is a class or a function, which know where they are written."""
    # For Python 3.10 Callable[...] is a class, too.
    return inspect.isfunction(value) or (inspect.isclass(value) and not get_args(value))


def _source(path: str) -> str:
    """The path by which an object is found in the files: where it is written."""
    value = _value(path)
    return f"{value.__module__}.{value.__qualname__}" if _is_written(value) else path


def _doc(value: object) -> str:
    return inspect.getdoc(value) or ""


# ---------------------------------------------------------------------------------------------
# checks of the finished site


class Links(HTMLParser):
    """The ids and the links of a page.

    Attributes:
        ids: of all elements.
        links: all targets.
        loaded: the targets that the page loads by itself.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one tag has."""
        values = dict(attrs)
        if identifier := values.get("id"):
            self.ids.add(identifier)
        target = values.get("href") or values.get("src")
        if target:
            self.links.append(target)
            if tag in {"img", "iframe", "link", "script", "source"}:
                self.loaded.append(target)


def missing_entries(site: Path) -> Iterator[str]:
    """A line for each public name without an entry in the API reference of a site."""
    ids = {
        module: _page((site / page_of(module)).with_suffix(".html")).ids
        for module in public_modules()
    }
    for path, home in home_of_names().items():
        if not {home, _source(home)} <= ids[home.rpartition(".")[0]]:
            yield f"{path} has no entry in the API reference"


def quotations(site: Path) -> Iterator[str]:
    """A line for each page of the API reference with quotations or boxes, which nobody meant."""
    for page in sorted((site / "api").glob("*.html")):
        text = page.read_text(encoding="utf-8")
        if count := text.count("<blockquote>"):
            yield f"{page.name} has {count} quotations, of docstrings with > where a text begins"
        if count := text.count("<details"):
            yield f"{page.name} has {count} boxes, of `Word: text` with indented lines below"


def wrong_links(site: Path) -> Iterator[str]:
    """A line for each link of a site that leads nowhere, and for what comes from a network."""
    pages = {path.resolve(): _page(path) for path in sorted(site.rglob("*.html"))}
    for page, found in pages.items():
        name = page.relative_to(site.resolve())
        if name.name == "404.html":  # its links are those of a server
            continue
        for target in found.loaded:
            if urlsplit(target).netloc:
                yield f"{name} loads {target} from a network"
        for target in dict.fromkeys(found.links):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not file.is_file():
                yield f"{name} links to {target}, which is not there"
            elif parts.fragment and file in pages:
                if unquote(parts.fragment) not in pages[file].ids:
                    yield f"{name} links to {target}, whose anchor is not there"


def _page(path: Path) -> Links:
    return Links(path.read_text(encoding="utf-8"))
