"""What a release says of itself: its version, its pins, how to cite it."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

import gendr

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    tomllib = pytest.importorskip("tomllib", reason="part of Python from 3.11 on")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_and_one_licence_everywhere(project):
    citation = pytest.importorskip("yaml").safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    cited = (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")
    assert project["version"] == gendr.__version__ == str(citation["version"])
    assert f"version = {{{gendr.__version__}}}" in cited
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    urls = [*project["urls"].values(), *(each["url"] for each in citation["references"])]
    assert all(url in cited for url in urls)
    assert project["license"] == citation["license"] == "MIT"
    assert (ROOT / project["license-files"][0]).is_file()


def test_every_requirement_is_pinned_once_for_every_python(project):
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==[^\s;]+(?:; (python_version .*))?$", text, re.M)
    assert len(pins) == text.count("==")
    old, new = 'python_version < "3.11"', 'python_version >= "3.11"'
    names = {name: re.sub(r"[-_.]+", "-", name).lower() for name, _ in pins}
    by_marker = {
        marker: sorted(names[name] for name, where in pins if where == marker)
        for marker in ("", old, new)
    }
    assert sum(map(len, by_marker.values())) == len(pins)
    assert by_marker[old] == by_marker[new]
    once = by_marker[""] + by_marker[new]
    assert sorted(set(once)) == sorted(once)
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    wanted = {re.match(r"[\w.-]+", each)[0].replace("_", "-").lower() for each in wanted}
    # pyarrow writes one format of results; no test needs it.
    assert wanted - set(once) - {"gendr-family", "pyarrow"} == set()


def test_files_of_the_papers_package_are_warned_of(tmp_path):
    """Both packages are imported as gendr; pip unpacks one over the other."""
    shutil.copy(f"{gendr.__file__}i", tmp_path)
    file = shutil.copy(gendr.__file__, tmp_path)
    spec = importlib.util.spec_from_file_location("copy_of_the_package", file)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))  # a warning would be an error
    (tmp_path / "functional").mkdir()
    with pytest.warns(RuntimeWarning, match="pip uninstall gendr gendr-family"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
