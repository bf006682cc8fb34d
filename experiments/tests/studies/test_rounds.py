"""The grid in rounds: walks, blocks, tables, who comes into a round, and its script."""

import io
import itertools
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import gendr
from lab.engine.store import Store, software_version
from lab.engine.tasks import Outcome, Trial
from lab.report.pictures import read_pictures, write_pictures
from lab.report.qualities import Grid
from lab.report.rounds import read_rounds
from lab.studies import rounds
from lab.studies.rounds import BLOCKS
from lab.studies.scene import as_png
from support.cases import for_each
from support.fake_grid import Here
from support.scripts import imported

ROOT = Path(__file__).parents[3]
RATE = 10**-1.25


def look_at(curve, calls):
    """What a walk takes, of a function of the exponent."""

    def look(exponents):
        calls.extend(exponents)
        return [Trial(10**x, RATE, 0, curve(x)) for x in exponents]

    return look


@for_each(peak=[-3.1, -0.6, 1.0], start=[-4.0, -1.3, 0.2, 1.9])
def test_a_walk_ends_between_two_worse_scales(start, peak):
    calls = []
    trials = rounds.walk(look_at(lambda x: abs(x - peak), calls), start, 0.5, (-6.0, 2.0))
    assert len(calls) == len(set(calls)) == len(trials)
    assert all(x * 2 == round(x * 2) for x in calls)
    best = min(trials, key=lambda trial: trial.score)
    x = round(math.log10(best.scale), 6)
    assert abs(x - peak) <= 0.25  # the nearest point of the lattice
    assert {x - 0.5, x + 0.5} <= set(calls)
    # From the start it goes one way only, and no further than it must.
    assert min(calls) >= min(start - 0.76, x - 0.5)
    assert max(calls) <= max(start + 0.76, x + 0.5)
    for slope, end in ((1.0, min), (-1.0, max)):  # to the limit
        calls = []
        rounds.walk(look_at(lambda x: slope * x, calls), start, 0.5, (-6.0, 2.0))  # noqa: B023
        assert end(calls) == {min: -6, max: 2}[end]
        assert all(-6 <= x <= 2 for x in calls)


def shape_scores(*scores, rate=-1.25, first=-2.0):
    """Scores at neighbouring exponents of the scale."""
    return {(first + 0.5 * k, rate): (score,) for k, score in enumerate(scores)}


def test_a_renderer_has_one_scale_for_all_scenes():
    one, other = shape_scores(0.5, 0.3, 0.4), shape_scores(0.2, 0.6, 0.35, 0.1)
    # Means: 0.35, 0.45, 0.375; the last one of the other scene was not tried in the first.
    assert rounds.best_exponent("shape", [one, other]) == (-2.0, -1.25)
    assert rounds.quality("shape", [one, other]) == pytest.approx(1 - 0.35)
    assert rounds.best_exponent("shape", [one]) == (-1.5, -1.25)
    hits = {(-1.0, -0.3): (1.0, 0.0, 1.0, 1.0)}
    assert rounds.quality("pose", [hits]) == 0.75


def test_who_comes_into_the_next_round():
    every = [i.name for i in gendr.instances()]
    draw = random.Random(3)
    value = {name: draw.random() for name in every}
    first, second = (b.name for b in BLOCKS["shape"] if b.round == 1)
    scene = {name: shape_scores(1 - value[name]) for name in every}
    scene["uniform/average"] = shape_scores(0.0)  # the best of all, but no member
    done = {first: scene, second: scene}
    block = next(b for b in BLOCKS["shape"] if b.round == 2)
    chosen = rounds.chosen_for(block, done, every)
    assert len(chosen) == len(set(chosen)) == 2 * 311
    for squared in (False, True):
        half = [n for n in every if n.split("/")[0].endswith(".squared") == squared]
        mine = [n for n in chosen if n in half]
        assert len(mine) == 311
        assert min(value[n] for n in mine) > max(value[n] for n in set(half) - set(mine))
    with pytest.raises(ValueError, match=re.escape(second)):
        rounds.chosen_for(block, {first: scene}, every)
    assert rounds.chosen_for(BLOCKS["shape"][0], {}, every) == every


def test_where_walks_begin():
    older = {"uniform/max": 10**-1.75}
    first, second, *_ = BLOCKS["shape"]
    names = ["uniform/max", "cauchy/max"]
    assert rounds.starts_for(first, {}, names, older) == {"uniform/max": -1.75, "cauchy/max": -1.5}
    done = {first.name: {"uniform/max": shape_scores(0.4, 0.3, 0.2)}}
    assert rounds.starts_for(second, done, names, older)["uniform/max"] == -1.0
    assert rounds.starts_for(BLOCKS["pose"][0], {}, names, older) == {}


@for_each(task=["shape", "pose"])
def test_a_table_is_enough_to_go_on_from(task, tmp_path):
    draw = random.Random(5)
    path = tmp_path / "block.csv"
    with Store(tmp_path / "one.sqlite", write=True) as store:
        run = store.begin(task, "{}", 0)
        for name in ("uniform/max", "logistic.squared/yager(p=2)"):
            if task == "shape":
                trials = [Trial(10 ** (k / 4), RATE, 0, draw.random()) for k in range(-9, -4)]
            else:
                trials = [Trial(1e-2, 0.5, k, float(draw.random() < 0.3)) for k in range(47)]
            best = min(trial.score for trial in trials)
            store.record(run, Outcome(name, best, 0.1, RATE, 1.25, tuple(trials), None))
        assert rounds.write_block(path, store, run) == 2
        path.write_text(path.read_text().replace(software_version(), "0.0.9+abc"))
        first = rounds.results_as_scores(store, run)
    again = tmp_path / "again.csv"
    with Store(tmp_path / "other.sqlite", write=True) as store:
        run = store.begin(task, "{}", 0)
        assert rounds.restore(store, run, path) == 2
        assert rounds.restore(store, run, path) == 0
        assert rounds.results_as_scores(store, run) == first == rounds.read_block(path)
        rounds.write_block(again, store, run)
    assert again.read_text() == path.read_text()


@for_each(text=["a,b\n1,2\n", "instance,seconds,version,trials\nx,1,v,-1/1:z\n"])
def test_other_tables_are_refused(text, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"table\.csv"):
        rounds.read_block(path)


# -- grids of several scenes -----------------------------------------------------------------------


def write_scene(folder, block, score):
    """The table of a block, as `write_block` has it: scores are a function of the name."""
    lines = [",".join(rounds.HEAD)]
    for i in gendr.instances():
        lines.append(f"{i.name},2.00,v,{rounds.cell_of({(-1.5, -1.25): (score(i),)})}")
    rounds.file_of(folder, block).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def two_scenes(tmp_path_factory):
    """Two blocks with known noise: sigma 0.04 in each, and the second scene is harder for all."""
    folder = tmp_path_factory.mktemp("blocks")
    noise = np.random.default_rng(1)
    dist = {str(i.dist): noise.uniform(0.3, 0.5) for i in gendr.instances()}
    blocks = BLOCKS["shape"][:2]
    for k, block in enumerate(blocks):
        write_scene(
            folder, block, lambda i, k=k: dist[str(i.dist)] + 0.2 * k + noise.normal(0, 0.04)
        )
    return folder, [block.name for block in blocks], dist


def test_the_error_of_a_mean_is_how_much_scenes_disagree(two_scenes):
    folder, names, dist = two_scenes
    grid = Grid.of_blocks(folder, names, "shape")
    assert grid.is_whole
    assert grid.by_scene.shape == (2, 2, 27, 23)
    assert grid.scene_error() == pytest.approx(0.04 / math.sqrt(2), rel=0.1)
    # The means are as far from the truth as that error says; what is hard for all is not in it.
    truth = np.array([[dist[name + square] for name in grid.dists] for square in ("", ".squared")])
    rest = 1 - grid.quality - truth[..., None]
    assert rest.std() == pytest.approx(grid.scene_error(), rel=0.1)
    assert rest.mean() == pytest.approx(0.1, abs=0.01)
    with pytest.raises(ValueError, match="one scene"):
        Grid.of_blocks(folder, names[:1], "shape").scene_error()


def test_only_whole_tconorms_count(two_scenes, tmp_path):
    folder, names, _ = two_scenes
    for name in names:
        lines = (folder / f"{name}.csv").read_text().splitlines(keepends=True)
        if name == names[1]:
            lines = [line for line in lines if not line.startswith("levy/max,")]
        (tmp_path / f"{name}.csv").write_text("".join(lines))
    grid = Grid.of_blocks(tmp_path, names, "shape")
    assert len(grid.conorms) == 22
    assert "max" not in grid.conorms
    assert not grid.is_whole
    assert Grid.of_blocks(tmp_path, names[:1], "shape").is_whole
    assert Grid.of_blocks(tmp_path, [*names, "shape-2-lamp+30"], "shape") is None


# -- the script ------------------------------------------------------------------------------------


@pytest.fixture
def ran():
    """The names of all renderers that the script ran."""
    return []


@pytest.fixture
def broken():
    """The names of those that raise."""
    return []


@pytest.fixture
def script(monkeypatch, ran, broken):
    def here(task, workers, *, seed):
        run = lambda name: task.run(gendr.instance(name), seed=seed)  # noqa: E731
        return Here(run, failing=broken, slots=workers, submitted=ran)

    monkeypatch.setattr("lab.engine.executors.LocalExecutor", here)
    module = imported(monkeypatch, "grid_rounds")
    tiny = {"image_size": 8, "views": 2, "subdivisions": 0, "steps": 2}
    monkeypatch.setattr(rounds, "SHAPE", {k: replace(p, **tiny) for k, p in rounds.SHAPE.items()})
    return module


@pytest.fixture
def call(script, tmp_path, capsys):
    """Calls the script for two renderers; returns its status and what it printed."""

    def call_it(results, *extra):
        some = ["--dist", "uniform", "--tconorm", "max", "--tasks", "shape", "--rounds", "1"]
        files = ["-r", str(tmp_path / results), "--tables", str(tmp_path / "tables")]
        code = script.main([*files, *some, *extra])
        return code, capsys.readouterr().out

    return call_it


def test_the_script_goes_on_from_its_tables(call, ran, tmp_path):
    tables = tmp_path / "tables"
    code, said = call("one.sqlite")
    assert code == 0
    names = [block.name for block in BLOCKS["shape"] if block.round == 1]
    assert [line.split(":")[0] for line in said.splitlines()] == names
    assert all(": 2 of 2, " in line for line in said.splitlines())
    before = {path.name: path.read_text() for path in tables.iterdir()}
    assert set(before) == {f"{name}.csv" for name in names}

    # The file is lost; only the tables are left.
    assert len(ran) == 4
    assert call("other.sqlite")[0] == 0
    assert len(ran) == 4
    assert {path.name: path.read_text() for path in tables.iterdir()} == before
    code, said = call("other.sqlite", "--list")
    assert code == 0
    assert said.count(": 2 of 2, ") == 2


def test_the_script_stops_in_time_and_goes_on(script, call, ran, tmp_path, monkeypatch):
    minutes = itertools.count()  # every look at the clock takes more than one
    clock = SimpleNamespace(monotonic=lambda: 90 * next(minutes))
    monkeypatch.setattr(script, "time", clock)
    code, said = call("one.sqlite", "--minutes", "1")
    assert (code, said.splitlines()[-1]) == (3, "the minutes are over; the same command goes on")
    (table,) = (tmp_path / "tables").iterdir()
    before = rounds.read_block(table)
    assert len(before) == len(ran) == 1
    assert call("other.sqlite")[0] == 0
    assert len(ran) == len(set(ran)) + 2 == 4
    assert rounds.read_block(table).items() > before.items()


def test_what_failed_is_said_and_tried_again(call, ran, broken):
    broken.append("uniform.squared/max")
    code, said = call("one.sqlite")
    assert code == 1
    assert "failed: uniform.squared/max: it raised" in said
    broken.clear()
    assert call("one.sqlite")[0] == 0
    assert len(ran) == 2 + 1 + 2


def test_pose_blocks_record_every_pair():
    small = replace(rounds.POSE[1], pairs=5, steps=4, image_size=8)
    task = rounds.PairsTask.of(small, ROOT / "assets" / "teapot.obj")
    for name, start in (("uniform/max", 1e-1), ("uniform.squared/max", 1e-2)):
        outcome = task.run(gendr.instance(name), seed=2)
        assert [trial.seed for trial in outcome.trials] == list(range(5))
        assert {trial.scale for trial in outcome.trials} == {start}
        hits = [trial.score for trial in outcome.trials]
        assert set(hits) <= {0.0, 1.0}
        assert outcome.score == pytest.approx(sum(hits) / 5)
        again = task.search(gendr.instance(name), 2)[0].error <= small.within
        assert again.double().tolist() == hits


def png(color, side=4):
    """A picture of one colour, with a white pixel at its upper left corner."""
    pixels = np.full((side, side, 3), color, np.uint8)
    pixels[0, 0] = 255
    return as_png(pixels)


def test_pictures_have_their_places(tmp_path):
    path = tmp_path / "shape-1.png"
    assert read_pictures(path) == {}
    every = [i.name for i in gendr.instances()] + rounds.means()
    drawn = [*random.Random(4).sample(every, 20), every[0], every[-1]]
    kept = {name: png((10 * k, 200 - k, 7)) for k, name in enumerate(drawn)}
    write_pictures(path, kept)
    found = read_pictures(path)
    assert set(found) == set(kept)
    for name, picture in found.items():
        one, other = (
            np.asarray(Image.open(io.BytesIO(x)).convert("RGB")) for x in (picture, kept[name])
        )
        np.testing.assert_allclose(one, other, atol=2)
    Image.new("RGB", (7, 9)).save(path)
    with pytest.raises(ValueError, match="has no room for 24 x 54 pictures"):
        read_pictures(path)


@pytest.mark.every
def test_the_report_has_pictures_and_none_is_made_twice(call, tmp_path, monkeypatch, capsys):
    assert call("one.sqlite")[0] == 0
    script = imported(monkeypatch, "grid_pictures")
    tables, made = tmp_path / "tables", rounds.WalkTask.drawn
    drawn, cuts = [], [True, False, True, False]

    def picture(self, instance, at, seed):
        if cuts.pop(0):
            raise KeyboardInterrupt
        drawn.append((instance.name, at))
        return made(self, instance, at, seed)

    monkeypatch.setattr(rounds.WalkTask, "drawn", picture)
    # Those that were there when the work is cut off are kept.
    for status, there in ((130, False), (130, True), (0, True)):
        assert script.main([str(tables)]) == status
        assert (tables / "shape-1.png").exists() == there
    assert [name for name, _ in drawn] == ["uniform.squared/max", "uniform/max"]
    blocks = [rounds.read_block(tables / f"{b.name}.csv") for b in BLOCKS["shape"] if b.round == 1]
    for name, at in drawn:
        assert at == rounds.best_exponent("shape", [block[name] for block in blocks])
    assert capsys.readouterr().out.count("2 pictures of shape-1-airplane+30") == 1
    ((_, results, _, _),) = read_rounds(tables).values()
    assert all(x.picture.startswith(b"\x89PNG") for x in results)
    assert script.main([str(tmp_path / "nowhere")]) == 2
