"""The page of the explorer in a browser: its pictures are those of the reference."""

import json
import re
import shutil
import subprocess
from html import escape

import pytest
import torch

import gendr
from gendr import distributions, tnorms
from support import explorer
from support.javascript import Translation

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SIZE = 24
# What the page reports of itself at the end; the answer leaves by an attribute of the document.
VISIT = """
<script>
addEventListener("load", () => setTimeout(() => {
  const say = (name, value) => document.body.setAttribute("data-" + name, value);
  const form = document.querySelector("#explorer form");
  const set = (name, value) => {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new Event("input", {bubbles: true}));
  };
  say("code", document.querySelector(".explorer-code code").textContent);
  say("address", location.hash);
  set("family", "yager");
  set("law", "gamma");
  say("changed", document.querySelector(".explorer-code code").textContent);
  say("bookmark", decodeURIComponent(location.hash));
  say("shape", form.elements.shape.closest("label").hidden);
  set("law", "laplace");
  say("noshape", form.elements.shape.closest("label").hidden);
  say("overflow", document.documentElement.scrollWidth - innerWidth);
  setTimeout(() => {
    const c = document.querySelector(".explorer-picture");
    const grey = c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0];
    say("grey", grey);
    say("drawn", document.getElementById("explorer").dataset.drawn);
  }, 1500);
}, 500));
</script>
"""


def members():
    """All 54 distributions and all 23 T-conorms, each with several of the others."""
    found = gendr.instances()
    dists = list(dict.fromkeys(str(each.dist) for each in found))
    joins = list(dict.fromkeys(str(each.tconorm) for each in found))
    pairs = [(dist, joins[5 * i % len(joins)]) for i, dist in enumerate(dists)]
    pairs += [(dists[(7 * i + 3) % len(dists)], join) for i, join in enumerate(joins)]
    extra = [(f"{law}.centred", "average") for law in distributions.names() if law != "heaviside"]
    return [*dict.fromkeys([*pairs, *extra, ("heaviside", "joe(p=2)")])]


def run(folder, script, *options, size="1000,900"):
    """The document that Chromium ends with, and what it complained about."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    file = folder / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{script}</body>", encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    command += ["--enable-logging=stderr", f"--window-size={size}", "--virtual-time-budget=9000"]
    address = file.as_uri() + "".join(options)
    done = subprocess.run(
        [*command, "--dump-dom", address], capture_output=True, text=True, timeout=100
    )
    if done.returncode:
        pytest.skip(f"Chromium cannot run here: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Pictures [SIZE * SIZE] that the page makes of a covering set of all members, by scene."""
    cases = [
        [*pair, 0.02 if "squared" in pair[0] else 0.1, scene]
        for i, pair in enumerate(members())
        for scene in ("two apart", "a sphere of 80 faces")
        if scene == "two apart" or i % 3 == 0
    ]
    script = f"""<pre id=out></pre><script>{explorer.mathematics()}
    const out = {json.dumps(cases)}.map(([dist, tconorm, scale, scene]) => {{
      const member = {{dist: readDistribution(dist), tconorm: readTConorm(tconorm), scale}};
      const work = picture(member, scenes[scene], {SIZE});
      while (work.step());
      return [distributionText(member.dist), tconormText(member.tconorm), [...work.alpha()]];
    }});
    document.getElementById("out").textContent = JSON.stringify(out);
    </script>"""
    dom, complaints = run(tmp_path_factory.mktemp("pictures"), script)
    assert complaints == []
    return cases, json.loads(re.findall(r"<pre id=\"out\">(.*?)</pre>", dom, re.DOTALL)[0])


def test_page_draws_what_the_reference_draws(pictures):
    cases, drawn = pictures
    dists, joins = {case[0] for case in cases}, {case[1] for case in cases}
    found = gendr.instances()
    assert dists >= {str(each.dist) for each in found}
    assert joins >= {str(each.tconorm) for each in found}
    worst = 0.0
    for (dist, tconorm, scale, scene), (_, _, alpha) in zip(cases, drawn, strict=True):
        triangles = torch.tensor(explorer.rounded(explorer.scenes()[scene]), dtype=torch.float64)
        corners = torch.cat([triangles, torch.ones(*triangles.shape[:2], 1).double()], -1)[None]
        expected = gendr.silhouette(corners, SIZE, dist, tconorm, scale, backend="reference")[0]
        error = (torch.tensor(alpha).double().reshape(SIZE, SIZE) - expected).abs().max()
        assert error < 1e-3, (dist, tconorm, scene)
        worst = max(worst, float(error))
    assert 0 < worst < 1e-6  # the same formulas, in the same precision


def test_texts_are_those_of_the_package(pictures):
    for (dist, tconorm, _, _), (text, join, _) in zip(*pictures, strict=True):
        assert distributions.get(text) == distributions.get(dist)
        assert tnorms.as_tconorm(join) == tnorms.as_tconorm(tconorm)


@pytest.fixture(scope="module", params=["1000,900", "360,740"], ids=["desk", "phone"])
def visit(request, tmp_path_factory):
    """What the page says of itself after some choices."""
    start = "#dist=logistic.squared&tconorm=hamacher(p=0.5)&scale=0.01&scene=a chair"
    dom, complaints = run(
        tmp_path_factory.mktemp("visit"), explorer.fragment() + VISIT, start, size=request.param
    )
    assert complaints == []
    return dict(re.findall(r' data-([a-z]+)="([^"]*)"', re.findall("<body[^>]*>", dom)[0]))


def test_address_says_what_is_drawn(visit):
    text = 'renderer = gendr.Renderer(dist="{}", tconorm="{}", scale=0.01)'
    assert visit["code"] == escape(text.format("logistic.squared", "hamacher(p=0.5)"))
    expected = text.format("gamma(shape=2).squared", "yager(p=2)")
    assert visit["changed"] == escape(expected)
    assert "dist=gamma(shape=2).squared&amp;tconorm=yager(p=2)" in visit["bookmark"]
    assert (visit["shape"], visit["noshape"]) == ("false", "true")
    assert "dist=laplace.squared" in visit["drawn"]
    made = {}
    exec(expected, {"gendr": gendr}, made)
    assert str(made["renderer"].dist) == "gamma(shape=2.0).squared"


def test_page_fits_a_phone(visit):
    assert int(visit["overflow"]) <= 0


def test_picture_is_drawn(visit):
    assert int(visit["grey"]) < 128  # the middle of the chair


def test_fragment_needs_no_network():
    html = explorer.fragment()
    assert not re.search(r"https?:|@import|\bsrc=|fetch\(", html)
    assert explorer.with_explorer(f"a {explorer.MARKER} b") == f"a {html} b"


def test_marker_is_on_the_page():
    page = explorer.FOLDER.parents[1] / "explorer.md"
    assert page.read_text(encoding="utf-8").count(explorer.MARKER) == 1


def unsupported(x):
    return [y for y in x]


def test_what_has_no_translation_is_refused():
    with pytest.raises(NotImplementedError, match=r"\[y for y in x\].*unsupported"):
        Translation().name(unsupported)
