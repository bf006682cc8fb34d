"""The report of a results file: what it says of the scores, and whether a browser shows it."""

import base64
import importlib
import io
import json
import math
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import rankdata

import gendr
from gendr import distributions, tnorms
from lab.engine.store import Result, Run, Store, export
from lab.engine.tasks import Outcome, Trial
from lab.report import make_page
from lab.report.details import curve_of
from lab.report.page import coverage_formula
from lab.report.summary import (
    load_summaries,
    summarise,
)
from support.cases import for_each

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "</script><script>document.title = 'broken'</script> & “quotes”"


@cache
def picture(seed):
    """A small PNG."""
    out = io.BytesIO()
    Image.new("L", (24, 24), seed).save(out, "PNG")
    return out.getvalue()


def outcome(name, score, seed=0):
    trials = tuple(Trial(10.0**x, 0.03, 0, score + 0.05 * abs(x + 1)) for x in (0, -1, -2))
    scale = math.nan if math.isnan(score) else 10 ** -(1 + seed % 30 / 10)
    return Outcome(name, score, scale, 0.03, 2.0 + seed % 7, trials, picture(seed % 7))


def scores_for(instances, digits, seed=0):
    """Scores that depend on both members and on chance; few digits make ties."""
    noise = np.random.default_rng(seed)
    dist = {str(i.dist): noise.uniform(0.3, 0.6) for i in instances}
    family = {str(i.tconorm): noise.uniform(0, 0.25) for i in instances}
    return [
        round(dist[str(i.dist)] + family[str(i.tconorm)] + noise.normal(0, 0.01), digits)
        for i in instances
    ]


@pytest.fixture(scope="module")
def results_file():
    """Run 1: all 1242 shapes. Run 2: a part of the poses, with all that can go wrong."""
    memory = Path("/dev/shm")  # each of 1500 results is written through to the disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        path = Path(folder) / "results.sqlite"
        every = list(gendr.instances())
        with Store(path, write=True) as store:
            protocol = json.dumps({"note": HOSTILE, "steps": 30})
            run = store.begin("shape", protocol, 0, "laptop")
            for k, (instance, score) in enumerate(zip(every, scores_for(every, 9), strict=True)):
                store.record(run, outcome(instance.name, score, k))
            run = store.begin("pose", '{"pairs": 48}', 3)
            some = [*every[::5], gendr.instance("logistic.squared/average")]
            for k, (instance, score) in enumerate(zip(some, scores_for(some, 2), strict=True)):
                store.record(run, outcome(instance.name, math.nan if k % 40 == 3 else score, k))
            store.give_up(run, every[1].name, 3, HOSTILE)
            store.begin("pose", "{}", 4)  # has no results yet
        yield path


@pytest.fixture(scope="module", params=[1, 2], ids=["shape", "pose"])
def summary(request, results_file):
    (found,) = load_summaries(results_file, [request.param])
    return found


# -- summaries -------------------------------------------------------------------------------------


def costs(summary):
    sign = 1 if summary.better == "lower" else -1
    return np.array([sign * entry.result.score for entry in summary.entries])


def test_ranks_are_those_of_scipy(summary):
    cost = costs(summary)
    known = ~np.isnan(cost)
    ranks = [entry.rank for entry in summary.entries]
    assert ranks[: known.sum()] == rankdata(cost[known], "min").tolist()
    assert ranks[known.sum() :] == [None] * (~known).sum()
    assert (np.diff(cost[known]) >= 0).all()


def test_every_score_lies_in_its_cell(summary):
    scores = {entry.result.instance: entry.result.score for entry in summary.entries}
    shown = 0
    for heat_map in summary.maps:
        for i, tconorm in enumerate(summary.rows):
            for j, plain in enumerate(summary.columns):
                dist = plain.squared() if heat_map.squared else plain
                name = f"{dist}/{tconorm}"
                np.testing.assert_equal(heat_map.scores[i, j], scores.get(name, math.nan))
                assert (heat_map.places[i, j] >= 0) == (name in scores)
                shown += name in scores
    assert shown == len(scores) == len(summary.entries)
    rows = list(map(str, tnorms.benchmark_tconorms()))
    assert list(map(str, summary.rows)) == rows + ["average"] * (summary.run.task == "pose")
    assert summary.total == 2 * 27 * len(summary.rows)


def test_top_is_the_best_tenth_of_each_half(summary):
    for heat_map in summary.maps:
        cost = heat_map.scores if summary.better == "lower" else -heat_map.scores
        ranks = rankdata(cost, "min", nan_policy="omit", axis=None).reshape(cost.shape)
        count = round(0.1 * (heat_map.places >= 0).sum())
        np.testing.assert_array_equal(heat_map.top, ranks <= count)
        assert heat_map.top.sum() >= count
    if summary.run.task == "shape":  # no ties there
        assert [heat_map.top.sum() for heat_map in summary.maps] == [62, 62]


@for_each(score=[0.5, math.nan])
def test_one_result_is_enough(score):
    run = Run(1, "shape", "{}", 0, "0", "2026-01-01T00:00:00+00:00")
    result = Result(1, "uniform/max", score, 0.1, 0.1, 1.0, "0", None, "")
    summary = summarise(run, [result])
    assert summary.limits == (None if math.isnan(score) else (score, score))
    assert sum(m.top.sum() for m in summary.maps) == (0 if math.isnan(score) else 1)
    assert "uniform/max" in make_page([summary], "x.sqlite")


# -- the page --------------------------------------------------------------------------------------


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def pictures_of(page, run):
    return json.loads(re.search(rf'id="pictures-{run}">(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def page(results_file):
    return make_page(load_summaries(results_file), results_file.name)


def test_page_is_complete_in_itself_with_every_result(page, results_file):
    text = re.sub(r'id="pictures-.*?</script>', "", page)
    assert not re.findall(r"https?:|[\"'(]//|@import|url\(", text)
    assert not re.search(r"<(?:script|link|img)[^>]*\s(?:src|href)=\"(?!data:)", page)
    assert "default-src 'none'" in page
    assert page.count("</script>") == 4  # text of the file cannot leave its place
    assert page.index("<script>") < page.index('id="pictures-1"')  # it draws before these come
    runs = data_of(page)["runs"]
    assert runs[0]["protocol"]["note"] == HOSTILE
    assert list(runs[1]["failures"].values()) == [HOSTILE]
    assert [run["id"] for run in runs] == [1, 2]
    with Store(results_file) as store:
        for shown, run in zip(runs, store.runs(), strict=False):
            stored = {result.instance: result for result in store.results(run)}
            assert {result["name"] for result in shown["results"]} == stored.keys()
            pictures = pictures_of(page, shown["id"])
            assert len(pictures) == len(shown["results"])
            for result, picture in zip(shown["results"], pictures, strict=True):
                true = stored[result["name"]]
                score = math.nan if result["score"] is None else result["score"]
                np.testing.assert_equal(score, true.score)
                assert base64.b64decode(picture) == true.picture
                assert shown["maps"][result["squared"]]["places"][result["row"]][
                    result["column"]
                ] == shown["results"].index(result)


def test_formulas_of_coverage_are_true(page):
    """The text, read as Python, is the distribution."""
    d, scale = torch.linspace(-2, 2, 41, dtype=torch.float64), 0.7
    texts = {r["name"].split("/")[0]: r["coverage"] for r in data_of(page)["runs"][0]["results"]}
    assert len(texts) == 54
    for name in ("logistic.shifted(-0.5)", "levy.shifted(2).reversed"):
        texts[name] = coverage_formula(distributions.get(name))
    for name, text in texts.items():
        dist = distributions.get(name)
        code = text.removeprefix("a = ").replace("|d|", "abs(d)")
        code = code.translate(str.maketrans({"−": "-", "·": "*", "τ": "scale"}))
        values = {"F": dist.base.cdf, "d": d, "scale": scale, "m": dist.base.median()}
        torch.testing.assert_close(eval(code, values), dist(d, scale))


# -- the command -----------------------------------------------------------------------------------


def report(*argv):
    return importlib.import_module("report").main([*map(str, argv)])


@pytest.mark.every
def test_command_writes_page_and_figures(results_file, tmp_path, capsys):
    page, figures = tmp_path / "new" / "page.html", tmp_path / "figures"
    page.parent.mkdir()
    page.write_text("old")
    assert report(results_file, "-o", page, "--png", figures) == 0
    assert len(data_of(page.read_text(encoding="utf-8"))["runs"]) == 2
    names = ["pose-2.png", "shape-1.png"]
    assert sorted(path.name for path in figures.iterdir()) == names
    assert sorted(path.name for path in page.parent.iterdir()) == ["page.html"]
    for name in names:
        with Image.open(figures / name) as image:
            assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
            assert len(image.convert("RGB").getcolors(1 << 24)) > 100
    written = {str(page), *(str(figures / name) for name in names)}
    assert set(capsys.readouterr().out.split()) == written
    assert report(results_file, "-o", page, "--run", 2) == 0
    assert [run["id"] for run in data_of(page.read_text(encoding="utf-8"))["runs"]] == [2]


def damaged_file(path):
    file_with(path)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)  # all pages but the first
    path.write_bytes(content)


def file_without_results(path):
    with Store(path, write=True) as store:
        store.begin("shape", "{}", 0)


def file_with(path, task="shape", name="uniform/max"):
    with Store(path, write=True) as store:
        store.record(store.begin(task, "{}", 0), outcome(name, 0.5))


@for_each(
    "make, words",
    [
        (lambda path: None, "no results file"),
        (damaged_file, "malformed"),
        (file_without_results, "no results yet"),
        (lambda path: file_with(path, task="sculpture"), "'sculpture'"),
        (lambda path: file_with(path, name="unifrom/max"), "'unifrom'"),
    ],
)
def test_bad_files_end_in_one_line(make, words, tmp_path, capsys):
    source, page = tmp_path / "results.sqlite", tmp_path / "page.html"
    make(source)
    before = source.read_bytes() if source.is_file() else None
    page.write_text("old")
    assert report(source, "-o", page) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert page.read_text() == "old"
    assert (source.read_bytes() if source.is_file() else None) == before


def test_bad_outputs_end_in_one_line(results_file, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("mine")
    before = results_file.read_bytes()
    page = tmp_path / "page.html"
    for options, words in (
        (["-o", results_file], ".html"),
        (["-o", file / "page.html"], "-o"),
        (["-o", page, "--png", file / "figures"], "--png"),
        (["-o", page, "--run", 7], "no run 7; its runs: 1, 2, 3"),
    ):
        assert report(results_file, *options) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert results_file.read_bytes() == before
    assert file.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


@pytest.mark.rotating(4, group="long")
def test_exported_table_has_the_same_page(results_file, tmp_path):
    """Ranks, maps and scores; a table has no pictures, protocols and failures."""
    table = tmp_path / "results.csv"
    with Store(results_file) as store:
        export(store, table)
    for one, other in zip(load_summaries(results_file), load_summaries(table), strict=True):
        assert (other.title, other.unit, other.limits) == (one.title, one.unit, one.limits)
        for a, b in zip(one.maps, other.maps, strict=True):
            np.testing.assert_array_equal(b.scores, a.scores)
            np.testing.assert_array_equal(b.top, a.top)
        assert [entry.rank for entry in other.entries] == [entry.rank for entry in one.entries]
    page = tmp_path / "page.html"
    assert report(table, "-o", page) == 0
    runs = data_of(page.read_text(encoding="utf-8"))["runs"]
    assert [run["created"] for run in runs] == [None, None]
    assert load_summaries(table, [2])[0].run.id == 2


@for_each(
    "text, message",
    [
        ("run,task\n1,shape\n", "no table of results: it has no column 'dist'"),
        ("", "no table of results"),
        (
            "run,task,protocol,seed,instance,dist,tconorm,squared,scale,learning_rate,score,"
            "seconds,version\n1,shape,x,0,a/b,a,b,False,1,1,high,1,v\n",
            "line 2: could not convert string to float: 'high'",
        ),
    ],
)
def test_damaged_table_is_refused(tmp_path, text, message):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_summaries(tmp_path / "table.csv")


# -- in a browser ----------------------------------------------------------------------------------

# What a person would do, in order; the page is then looked at.
VISIT = Path(__file__).with_name("visit.html")


@pytest.fixture(scope="module")
def visit(page, tmp_path_factory):
    """The page after a visit, as the browser has it, and what the browser complained about."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "page.html"
    file.write_text(page.replace("</body>", VISIT.read_text() + "</body>"), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    command += ["--enable-logging=stderr", "--window-size=1280,2000", "--dump-dom"]
    address = f"{file.as_uri()}#cell=logistic/yager(p=2)"
    run = subprocess.run([*command, address], capture_output=True, text=True, timeout=100)
    if run.returncode:
        pytest.skip(f"Chromium cannot run here: {run.stderr.strip().splitlines()[-1:]}")
    said = dict(re.findall(r'data-([a-z]+)="([^"]*)"', run.stdout.rsplit("<script>", 1)[0]))
    return run.stdout, said, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.rotating(4, group="study")
def test_what_a_person_does_in_a_browser(visit, page, results_file):
    dom, said, complaints = visit
    assert complaints == []
    assert len(re.findall(r'class="cell[" ]', dom)) == 1242 + 2 * 27 * 24
    assert "given up, &lt;/script" in dom
    assert int(said["overflow"]) <= 0
    assert said["pictured"] == "1"  # behind the script; the card that is in view gets it, too
    assert said["pinned"].startswith("logistic\nyager(p=2)")
    assert distributions.get("logistic").base.formula in said["pinned"]
    assert said["closed"] == "true"
    dists, conorms = distributions.benchmark_distributions(), tnorms.benchmark_tconorms()
    assert said["hovered"] == f"{dists[2]}/{conorms[0]}"
    assert said["focused"] == f"{dists[1]}/{conorms[1]}"
    assert said["address"] == f"#run=1&amp;cell={dists[1]}/{conorms[1]}"
    scales = list(map(float, said["sorted"].split()))
    assert len(scales) == 400
    assert scales == sorted(scales)
    words = ("gamma", "yager", "reversed")
    wanted = [i.name for i in gendr.instances() if all(word in i.name for word in words)]
    assert int(said["filtered"]) == len(wanted) > 0
    assert int(said["dimmed"]) == 1242 - len(wanted)
    shape, pose = load_summaries(results_file)
    known = {entry.result.instance for entry in pose.entries if entry.rank}
    both = [e.result.instance for e in shape.entries if e.rank and e.result.instance in known]
    assert int(said["dots"]) == len(both)
    assert said["clear"].split() == sorted(name for name in both if name in wanted)
    columns = [f"{x:.3f}" for x in np.sort(np.nanmedian(shape.maps[0].scores, 0))]
    assert said["bars"].split(" ")[0].split(",") == columns
    # Side by side; the second click on one of them adds nothing.
    assert said["sides"].split(";")[:2] == ["logistic / yager(p=2)", "uniform / max"]
    assert said["sides"].count(";") == 2
    # Poses follow a schedule of scales, so that they have no curve, but their error is known.
    assert (said["drawn"], said["curves"], said["errors"]) == ("2", "0", "1")
    assert said["left"].split(";")[0] == "uniform / max"
    # One function under two names is one line.
    lists = dom.split('class="list"')[1].split("</table>")[0]
    assert lists.count("schweizer_sklar(p=-1)") == 0
    assert lists.count("<td>dombi(p=1)</td>") == 54


def test_errors_and_curves(results_file):
    shape, pose = load_summaries(results_file)
    for entry in shape.entries[:40]:
        score = entry.result.score
        assert math.isnan(entry.detail.error)
        expected = [(-2.0, score + 0.05), (-1.0, score), (0.0, score + 0.05)]
        assert np.array(entry.detail.curve) == pytest.approx(np.array(expected))
    for entry in pose.entries:
        q = entry.result.score
        expected = (q * (1 - q) / 48) ** 0.5
        np.testing.assert_allclose(entry.detail.error, expected)
        assert entry.detail.curve == ()
    assert curve_of(
        [Trial(0.1, 0.1, 0, 0.4), Trial(0.1, 0.1, 1, 0.2), Trial(0.1, 0.3, 0, 0.35)], lower=True
    ) == ((-1.0, pytest.approx(0.3)),)


def test_tables_of_rounds_have_a_report(tmp_path):
    """Scores are means over the scenes, at one scale for all of them."""
    rows = {
        "shape-1-chair-30": ["a,1,v,-2/-1.25:0.50 -1/-1.25:0.40", "b,1,v,-2/-1.25:0.30"],
        "shape-1-airplane+30": ["a,2,v,-1/-1.25:0.70 -2/-1.25:0.56", "b,2,v,-2/-1.25:0.50"],
    }
    names = {"a": "uniform/max", "b": '"levy/yager(p=2)"'}
    for block, lines in rows.items():
        text = "".join(f"{names[line[0]]}{line[1:]}\n" for line in lines)
        (tmp_path / f"{block}.csv").write_text(f"instance,seconds,version,trials\n{text}")
    (summary,) = load_summaries(tmp_path)
    found = {entry.result.instance: entry for entry in summary.entries}
    assert {n: round(e.result.score, 9) for n, e in found.items()} == {
        "uniform/max": 0.53, "levy/yager(p=2)": 0.4,
    }  # fmt: skip
    assert found["uniform/max"].result.scale == pytest.approx(1e-2)
    assert found["uniform/max"].detail.curve == ((-2.0, pytest.approx(0.53)), (-1.0, 0.55))
    # The scenes differ by 0.06 and by 0.20: two renderers, two scenes, one degree of freedom.
    error = ((4 * 0.035**2) / 1 / 2) ** 0.5
    assert [e.detail.error for e in found.values()] == [pytest.approx(error)] * 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no tables of a grid in rounds"):
        load_summaries(tmp_path / "empty")
