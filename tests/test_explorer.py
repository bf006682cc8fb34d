"""The page of the explorer: its pictures, gradients and fits are those of the reference."""

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest
import torch

import gendr
from building import explorer
from building.javascript import Translation
from gendr import distributions, tnorms

NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SIZE = 16
UPSTREAM = "Math.cos(0.37 * k)"  # of pixel k
# Scenes in general position: where two edges are equally near, rounding decides between gradients.
SKEW = "[x + 0.013 * y, y - 0.021 * x + 0.0037]"
# What the page reports of itself at the end; the answer leaves by an attribute of the document.
VISIT = Path(__file__).parent / "support" / "explorer.html"


def members():
    """All 54 distributions and all 23 T-conorms, each with several of the others."""
    found = gendr.instances()
    dists = list(dict.fromkeys(str(each.dist) for each in found))
    joins = list(dict.fromkeys(str(each.tconorm) for each in found))
    pairs = [(dist, joins[5 * i % len(joins)]) for i, dist in enumerate(dists)]
    pairs += [(dists[(7 * i + 3) % len(dists)], join) for i, join in enumerate(joins)]
    extra = [
        (f"{distribution}.centred", "average")
        for distribution in distributions.names()
        if distribution != "heaviside"
    ]
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


def evaluate(folder, code):
    """The value of a piece of JavaScript, which sees the mathematics of the page and sets `out`."""
    code = f"{explorer.mathematics()}\nlet out;\n{code}\n"
    if NODE is None:
        script = f"<pre id=out></pre><script>{code}"
        script += 'document.getElementById("out").textContent = JSON.stringify(out);</script>'
        dom, complaints = run(folder, script)
        assert complaints == []
        return json.loads(re.findall(r"<pre id=\"out\">(.*?)</pre>", dom, re.DOTALL)[0])
    file = folder / "page.js"
    file.write_text(f"{code}process.stdout.write(JSON.stringify(out));", encoding="utf-8")
    done = subprocess.run([NODE, str(file)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """What the page makes of a covering set of all members, by scene.

    Two texts, alpha [SIZE * SIZE], the gradient of sum(UPSTREAM * alpha) by the corners, and that
    sum's slope by the size of the scene.
    """
    cases = [
        [*pair, 0.02 if "squared" in pair[0] else 0.1, scene]
        for i, pair in enumerate(members())
        for scene in ("two apart", "a sphere of 80 faces")
        if scene == "two apart" or i % 6 == 0
    ]
    code = f"""
    const upstream = Float64Array.from({{length: {SIZE**2}}}, (_, k) => {UPSTREAM});
    out = {json.dumps(cases)}.map(([dist, tconorm, scale, scene]) => {{
      const member = {{dist: readDistribution(dist), tconorm: readTConorm(tconorm), scale}};
      const triangles = scenes[scene].map((face) => face.map(([x, y]) => {SKEW}));
      const work = picture(member, triangles, {SIZE});
      while (work.step());
      const pulls = triangles.map((_, face) => work.pull(face, upstream));
      const slope = new Float64Array({SIZE**2});
      triangles.forEach((_, face) => work.along(face, (x, y) => [x, y], slope));
      const total = slope.reduce((sum, value, k) => sum + value * upstream[k], 0);
      return [distributionText(member.dist), tconormText(member.tconorm), [...work.alpha()], pulls,
        total];
    }});"""
    return cases, evaluate(tmp_path_factory.mktemp("pictures"), code)


def skewed(triangles):
    """Triangles [F, 3, 2] after SKEW, in float64."""
    x, y = torch.as_tensor(triangles, dtype=torch.float64).unbind(-1)
    return torch.stack(eval(SKEW, {"x": x, "y": y}), -1)


def reference(triangles, dist, tconorm, scale, size=SIZE):
    """Alpha [size, size] of triangles [F, 3, 2], in float64."""
    corners = torch.cat([triangles, torch.ones_like(triangles[..., :1])], -1)[None]
    return gendr.silhouette(corners, size, dist, tconorm, scale, backend="reference")[0]


@pytest.mark.rotating(4, group="long")
def test_page_draws_what_the_reference_draws(pictures):
    """The same formulas, in the same precision: alpha and gradients."""
    cases, drawn = pictures
    dists, joins = {case[0] for case in cases}, {case[1] for case in cases}
    found = gendr.instances()
    assert dists >= {str(each.dist) for each in found}
    assert joins >= {str(each.tconorm) for each in found}
    k = torch.arange(SIZE**2, dtype=torch.float64)
    upstream = eval(UPSTREAM, {"k": k, "Math": torch}).reshape(SIZE, SIZE)
    for (dist, tconorm, scale, scene), (_, _, alpha, pulls, slope) in zip(
        cases, drawn, strict=True
    ):
        where = (dist, tconorm, scene)
        triangles = skewed(explorer.rounded(explorer.scenes()[scene])).requires_grad_()
        expected = reference(triangles, dist, tconorm, scale)
        drawn_alpha = torch.tensor(alpha, dtype=torch.float64).reshape(SIZE, SIZE)
        assert (drawn_alpha - expected.detach()).abs().max() < 1e-9, where
        pull = torch.zeros_like(triangles)
        if expected.requires_grad:  # a hard distribution has no gradient
            (pull,) = torch.autograd.grad((upstream * expected).sum(), triangles)
        # Of faces that share the corner nearest to a pixel, rounding says which has the maximum.
        if (tconorm, scene) != ("max", "a sphere of 80 faces"):
            error = (torch.tensor(pulls, dtype=torch.float64) - pull).abs().max()
            assert error < 1e-9 * (1 + pull.abs().max()), where
        assert slope == pytest.approx(
            float((pull * triangles.detach()).sum()), rel=1e-9, abs=1e-9
        ), where


@pytest.mark.rotating(2)
@pytest.mark.parametrize(
    "member",
    ["logistic/probabilistic", "cauchy/yager(p=2)", "gaussian.squared/max", "uniform/average"],
)
def test_page_fits_as_the_package_does(member, tmp_path):
    dist, tconorm = member.split("/")
    scene, size, steps, scale = "a sphere and three faces", 20, 8, 0.05
    code = f"""
    const mask = hardMask(scenes["{scene}"], {size});
    const start = confetti(2, 0.6).map((face) => face.map(([x, y]) => {SKEW}));
    const work = fit({{dist: readDistribution("{dist}"), tconorm: readTConorm("{tconorm}")}},
      start, mask, {size});
    const losses = Array.from({{length: {steps}}}, () => work.step({scale}));
    out = [[...mask], start, work.triangles, losses];"""
    mask, start, found, losses = evaluate(tmp_path, code)
    corners = torch.tensor(explorer.rounded(explorer.scenes()[scene]), dtype=torch.float64)
    target = reference(corners, "heaviside", "max", 1.0, size)
    assert torch.equal(torch.tensor(mask).reshape(size, size), target.to(torch.int64))
    triangles = torch.tensor(start, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([triangles], lr=0.02)
    for told in losses:
        loss = gendr.losses.iou_loss(reference(triangles, dist, tconorm, scale, size), target)
        assert told == pytest.approx(loss.item(), abs=1e-9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    found = torch.tensor(found, dtype=torch.float64)
    torch.testing.assert_close(found, triangles.detach(), rtol=0, atol=1e-7)


def test_texts_are_those_of_the_package(pictures):
    for (dist, tconorm, _, _), (text, join, *_) in zip(*pictures, strict=True):
        assert distributions.get(text) == distributions.get(dist)
        assert tnorms.as_tconorm(join) == tnorms.as_tconorm(tconorm)


@pytest.mark.rotating(2, group="browsers")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param("1000,900", id="desk", marks=pytest.mark.every),
        pytest.param("360,740", id="phone"),
    ],
)
def test_a_visit(size, tmp_path):
    """What the page says of itself after some choices; in one browser, which is slow to start."""
    start = "#dist=logistic.squared&tconorm=hamacher(p=0.5)&scale=0.01&scene=six around a corner"
    dom, complaints = run(tmp_path, explorer.fragment() + VISIT.read_text(), start, size=size)
    assert complaints == []
    visit = dict(re.findall(r' data-([a-z]+)="([^"]*)"', re.findall("<body[^>]*>", dom)[0]))
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
    assert int(visit["overflow"]) <= 0
    assert int(visit["grey"]) < 128  # the middle of the fan
    assert float(visit["fitted"]) > 0.6  # the IoU of the fit


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
