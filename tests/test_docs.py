"""The documentation: its code runs, its links and pictures exist, its tables are up to date."""

import argparse
import ast
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

import gendr
from gendr.cli import main
from lab.pages import anchor
from support.cases import for_each
from support.processes import run_python

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")])
BLOCK = re.compile(r"(?:<!-- test: ?(?P<small>[^>]*?) ?-->\n)?```python\n(?P<code>.*?)```", re.S)
WRITERS = sorted(
    path
    for folder in ("docs", "benchmarks", "benchmarks/peers", "experiments", "assets")
    for path in (ROOT / folder).glob("*.py")
)
# What a comment `<!-- test: ... -->` above a block makes smaller, so that the tests stay fast.
SMALLER = {
    "views": lambda n: (r"torch\.arange\(24\) \* 15\.0", f"torch.arange({n}) * {360 / int(n)}"),
    "size": lambda n: (r"(Renderer\(|size=)\d+", rf"\g<1>{n}"),
    "steps": lambda n: (r"steps=\d+", f"steps={n}"),
}


def blocks():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text[: match.start("code")].count("\n") + 1
            name = f"{page.relative_to(ROOT)}:{line}"
            yield pytest.param(match["code"], match["small"] or "", line, id=name)


@pytest.mark.rotating(4)
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


COMMANDS = re.compile(r"<!-- test: commands -->\n```sh\n(.*?)```", re.S)
# Options that make a command quick; what it is for stays.
QUICK = {
    "fit": "--image-size 48 --steps 2 --texture-size 64 --color-size 32 --quiet",
    "pose": "--image-size 48 --steps 15 --starts 6 --quiet",
}
WRITTEN = {"fit": {"fit.obj", "fit.glb", "sheet.png"}, "pose": {"camera.json"}}


def lessons():
    for page in PAGES:
        for number, block in enumerate(COMMANDS.findall(page.read_text(encoding="utf-8"))):
            marks = [pytest.mark.every] if "gendr pose" in block else []
            yield pytest.param(block, id=f"{page.stem}-{number}", marks=marks)


@pytest.mark.slow
@pytest.mark.rotating(99)
@pytest.mark.parametrize("block", list(lessons()))
def test_commands_of_the_pages_run(block, tmp_path, monkeypatch):
    """They run in their order, in one folder: a later one may read what an earlier one wrote."""
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    for line in block.strip().splitlines():
        program, command, *words = shlex.split(line, comments=True)
        assert program == "gendr"
        out = tmp_path / words[words.index("-o") + 1]
        assert main([command, *words, *QUICK[command].split()]) == 0
        assert {path.name for path in out.iterdir()} >= WRITTEN[command]
        if command == "pose":
            found = json.loads((out / "camera.json").read_text(encoding="utf-8"))["images"]
            assert min(each["iou"] for each in found) > 0.85


def commands():
    """(name, words) of the commands of the pages and of the docstrings of scripts, each once."""
    texts = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shells = re.findall(r"```sh\n(.*?)```", text, re.S)
        inline = re.findall(r"`(python \S+\.py [^`\n]+)`", text)
        texts[page] = "\n".join([*shells, *inline])
    for script in WRITERS:
        text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        lines = re.findall(r"^ +((?:python|gendr) (?:.*\\\n)*.*)$", text, re.M)
        # An explanation stands behind two spaces or more.
        texts[script] = "\n".join(
            re.sub(r"(?<=\S) {2,}[^\s\\].*$", "", x, flags=re.M) for x in lines
        )
    seen = set()
    for text in texts.values():
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            if "$" in line or "…" in line or "..." in line or "[" in line:
                continue  # written for a shell or a reader
            words = shlex.split(line, comments=True)
            if words[:1] == ["torchrun"]:
                script = next(i for i, word in enumerate(words) if word.endswith(".py"))
                words = ["python", *words[script:]]
            if words[:1] in (["gendr"], ["make"]) or (
                words[:1] == ["python"] and words[1:2] not in ([], ["-m"])
            ):
                if tuple(words) not in seen:
                    seen.add(tuple(words))
                    yield words


PARSED = """
import argparse, pathlib, runpy, sys
parse = argparse.ArgumentParser.parse_args
def stop(parser, *args, **options):
    parse(parser, *args, **options)
    print("parsed", flush=True)
    raise SystemExit
argparse.ArgumentParser.parse_args = stop
sys.argv = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Parsed(Exception):
    """The arguments of a program were understood."""


@for_each(rotating=9, words=list(commands()))
def test_commands_of_the_pages_are_understood(words, monkeypatch):
    program, *rest = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert [word for word in rest if "=" not in word and word not in targets] == []
    else:
        parse = argparse.ArgumentParser.parse_args

        def stop(parser, *args, **options):
            parse(parser, *args, **options)
            raise Parsed

        if program == "gendr":
            monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
            with pytest.raises(Parsed):
                main(rest)
            return
        script, *arguments = rest
        if "TRITON_INTERPRET" in (ROOT / script).read_text(encoding="utf-8"):
            # It settles how Triton's kernels are made in all the process.
            run = run_python(PARSED, ROOT / script, *arguments)
            assert run.stdout.endswith("parsed\n"), run.stderr
            return
        monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        monkeypatch.syspath_prepend(str((ROOT / script).parent))
        with pytest.raises(Parsed):
            runpy.run_path(str(ROOT / script), run_name="__main__")


def anchors(text):
    """The anchors of headings, as common Markdown hosts make them."""
    return map(anchor, re.findall(r"^#+ (.*)$", text, re.M))


@for_each(page=PAGES)
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
    if page.name == "CHANGELOG.md":  # of what was
        return
    for name in re.findall(r"`((?:tests|findings|benchmarks)/[\w/]+\.(?:py|sh|md))`", text):
        assert (ROOT / name).is_file(), f"{page.name} names {name}"


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f"({p.name})" not in index]
    assert missing == ["index.md"]


def test_pictures_are_used_and_small():
    text = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert [p.name for p in pictures if f"images/{p.name})" not in text] == []
    gallery = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [p.name for p in pictures if f"(images/{p.name})" not in gallery] == []
    size = {p: p.stat().st_size for p in pictures}
    moving = [p for p in pictures if p.suffix in (".gif", ".webp")]
    assert sum(size[p] for p in pictures if p not in moving) < 2.5e6
    assert all(size[p] < 2.5e6 for p in moving)


def test_the_tables_name_every_member():
    dists = (ROOT / "docs" / "distributions.md").read_text(encoding="utf-8")
    tconorms = (ROOT / "docs" / "tconorms.md").read_text(encoding="utf-8")
    assert [n for n in gendr.distributions.names() if f"| `{n}`" not in dists] == []
    assert [n for n in gendr.tnorms.names() if f"| `{n}` |" not in tconorms] == []


def written(text):
    """(name, what stands between its comments) of a page; comments without a partner have None."""
    # What stands in code, as an example, is no comment.
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for name in re.findall(r"<!-- (?:begin|end) (.*?) -->", text):
        mark = re.escape(name)
        found = re.findall(f"<!-- begin {mark} -->(.*?)<!-- end {mark} -->", text, re.S)
        yield name, found[0] if len(found) == 1 else None


def test_every_written_block_has_a_script_and_is_not_empty():
    scripts = "".join(script.read_text(encoding="utf-8") for script in WRITERS)
    for page in PAGES:
        for name, body in written(page.read_text(encoding="utf-8")):
            assert body is not None, f"{page.name}: {name} must begin and end once"
            assert re.sub(r"[|\s-]", "", body), f"{page.name}: nothing in {name}; run its script"
            # What follows the first word may be made by the script: a task, a device.
            word = re.split("[-_]", name)[0]
            stands = rf"[\"']({re.escape(name)}[\"']|{word}([-_]speed)?([-_]\{{|[\"']))"
            assert re.search(stands, scripts), f"no script writes {name}"


def test_every_finding_is_on_the_pages():
    page = (ROOT / "docs/neighbours.md").read_text(encoding="utf-8")
    guesses = (ROOT / "findings/guesses.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:\]\(|`findings/)(\w+\.sh)", guesses + page)
    assert {*named} == {path.name for path in ROOT.glob("findings/*.sh")}
    assert "not run |" not in guesses


def test_no_text_installs_the_package_of_that_name_on_the_index():
    """It is another package: the extras of this one are installed from the repository."""
    named = re.compile(r"pip3? install (?:-\S+ )*\W{0,2}gendr\b")
    tests = [p for x in ("tests", "experiments/tests") for p in (ROOT / x).rglob("test_*.py")]
    sources = [*(ROOT / "gendr").rglob("*.py"), *WRITERS, *tests]
    texts = [*PAGES, *ROOT.glob("docs/examples/*.ipynb"), ROOT / "pyproject.toml", *sources]
    for path in texts:
        # What a line break or the end of a string parts belongs together.
        text = re.sub(r"\\?[\"']?,?\s*\n\s*f?[\"']?", " ", path.read_text(encoding="utf-8"))
        found = named.search(re.sub(r"\s+", " ", text))
        assert found is None, f"{path.relative_to(ROOT)}: {found and found[0]}"
    assert named.search("pip install 'GENDR[docs]'".lower())
    assert not named.search("pip install '.[docs]'")
