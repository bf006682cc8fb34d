"""The scripts behind the results in the documentation."""

import csv
import importlib.util
import json
import re
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = (
    "study.md", "experiments.md", "results/study.md", "results/sorting.md", "which-renderer.md"
)  # fmt: skip


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.mark.rotating(4, group="long")
@pytest.mark.parametrize("script", ["make_findings", "make_rounds"])
def test_pages_say_what_the_results_say(script, tmp_path, monkeypatch):
    module = load(ROOT / "docs" / f"{script}.py")
    (tmp_path / "results").mkdir()
    for name in PAGES:
        shutil.copy(ROOT / "docs" / name, tmp_path / name)
    for path in RESULTS.iterdir():
        if f"results/{path.name}" not in PAGES:
            (tmp_path / "results" / path.name).symlink_to(path)
    monkeypatch.setattr(module, "DOCS", tmp_path)
    options = ["--claims", str(tmp_path / "claims.csv")] if script == "make_rounds" else []
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *options])
    module.main()
    for name in PAGES:
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text()
    if options:
        assert (tmp_path / "claims.csv").read_text() == (RESULTS / "claims.csv").read_text()


def block_of(page, name):
    """The lines of a table or list of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.search(rf"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", text, re.S)[1]


# What sentences of the pages say that are written by hand. If a number moves one of these verdicts,
# the sentence has to be written anew.
SAID = {
    "exponential tails better than linear ones": "likely",
    "exponential tails better than finite supports": "open",
    "reversed distributions better than their mirror images": "likely",
    "max worse than the usual T-conorms": "likely",
}


def test_words_have_the_verdicts_of_the_numbers():
    rows = [line.strip("| ").split(" | ") for line in block_of("study.md", "verdicts").splitlines()]
    shape = {row[0]: row[1] for row in rows[2:]}
    assert {claim: shape[claim] for claim in SAID} == SAID


# -- the comparisons again, from the tables alone, by formulas of their own


def plain(tconorm):
    """A T-conorm as the pages write it."""
    return re.sub(r"\(p=(.*)\)", lambda m: f" {float(m[1]):g}", tconorm)


def read_scores(path):
    """By renderer and candidate the quality of its draws in one scene."""
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            values = found[row["instance"]] = {}
            for trial in row["trials"].split():
                where, score = trial.split(":")
                bits, mark, count = score.partition("x")
                hits = f"{int(bits, 16):0{count}b}" if mark else ()
                values[where] = np.array([float(x) for x in hits] or [1 - float(score)])
    return found


def pooled(task, number):
    """All renderers of a round that all its scenes have, at the candidate that is the best."""
    tables = [read_scores(path) for path in sorted((RESULTS / "rounds").glob(f"{task}-{number}-*"))]
    found = {}
    for name in set.intersection(*map(set, tables)):
        shared = sorted(set.intersection(*(set(table[name]) for table in tables)))
        best = max(shared, key=lambda x: sum(table[name][x].mean() for table in tables))
        found[name] = np.stack([table[name][best] for table in tables])
    return found


def round_1(task):
    return {
        (dist.endswith(".squared"), dist.removesuffix(".squared"), plain(conorm)): values
        for name, values in pooled(task, 1).items()
        for dist, conorm in [name.split("/")] if conorm != "average"
    }  # fmt: skip


def own(differences):
    """Value, error and degrees of freedom of [partners, scenes, draws]."""
    partners, scenes, draws = differences.shape
    parts = [(differences.mean((1, 2)).var(ddof=1) / partners, partners - 1)]
    of_scenes = differences.mean(0)
    several = [(of_scenes.mean(1).var(ddof=1) / scenes, scenes - 1)]
    if draws > 1:
        within = of_scenes.var(1, ddof=1).sum() / draws / scenes**2
        several.append((within, scenes * (draws - 1)))
    parts.append(max(several))
    squares = np.array([square for square, _ in parts])
    freedom = squares.sum() ** 2 / (squares**2 / [n for _, n in parts]).sum()
    return differences.mean(), squares.sum() ** 0.5, freedom


def mixed(values):
    """Error of one of [members, scenes, draws] beside others, by sums of squares."""
    members, scenes, draws = values.shape
    table = values.mean(2)
    left = (table**2).sum() - scenes * (table.mean(1) ** 2).sum()
    left -= members * (table.mean(0) ** 2).sum() - table.size * table.mean() ** 2
    square = left / (members - 1) / (scenes - 1)
    if draws > 1:
        left = (values**2).sum() - draws * (table**2).sum()
        left -= members * ((values.mean(0) ** 2).sum() - draws * (table.mean(0) ** 2).sum())
        square = max(square, left / (members - 1) / scenes / (draws - 1) / draws)
    return (square / scenes) ** 0.5


FAST = ("gaussian", "laplace", "logistic", "hyperbolic_secant")
SLOW = ("cauchy", "reciprocal")


@pytest.mark.parametrize("task", ["shape", "pose"])
def test_comparisons_follow_from_the_tables(task):
    q = round_1(task)
    dists = sorted({dist for _, dist, _ in q})
    conorms = sorted({conorm for *_, conorm in q} - {"schweizer_sklar -1"})  # dombi 1 again
    assert (len(dists), len(conorms)) == (27, 22)
    usual = [c for c in conorms if c not in (
        "yager 4", "aczel_alsina 2", "aczel_alsina 4", "dombi 2", "dombi 4", "schweizer_sklar -2",
        "schweizer_sklar -4", "max")]  # fmt: skip
    # [distributions, T-conorms, scenes, draws]
    every = np.array([[q[False, dist, c] for c in conorms] for dist in dists])

    def dist(*names):
        return every[[dists.index(name) for name in names]].mean(0)

    def conorm(*names):
        return every[:, [conorms.index(name) for name in names]].mean(1)

    of_dists, of_conorms = mixed(every.mean(1)), mixed(every.mean(0))
    again = {
        "exponential − linear": (dist(*FAST) - dist(*SLOW), of_dists * (1 / 4 + 1 / 2) ** 0.5),
        "exponential reversed − exponential": (
            dist("exponential.reversed") - dist("exponential"), of_dists * 2**0.5
        ),
        "usual − max, plain": (
            conorm(*usual) - conorm("max"), of_conorms * (1 / len(usual) + 1) ** 0.5
        ),
    }  # fmt: skip
    with (RESULTS / "claims.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == task]
    for comparison, (differences, error) in again.items():
        row = next(r for r in rows if r["comparison"] == comparison)
        value, alone, freedom = own(differences)
        found = [float(row[key]) for key in ("value", "mixed_error", "own_error", "own_freedom")]
        assert found == pytest.approx([value, error, alone, freedom], abs=6e-5, rel=0.05)
        assert found[:3] == pytest.approx([value, error, alone], abs=6e-5)


def of_ten(task):
    """By renderer the quality on each of ten objects, from the file alone."""
    found = {}
    with (RESULTS / "ten-objects" / f"{task}.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            scores = {}
            for trial in row["trials"].split():
                key, _, score = trial.partition(":")
                number, mark, count = score.partition("x")
                bits = f"{int(number, 16):0{count}b}" if mark else ""
                scores[key] = np.mean([int(b) for b in bits]) if mark else 1 - float(number)
            found.setdefault(row["instance"], {})[row["scene"]] = scores
    values = {}
    for name, scenes in found.items():
        if task == "shape":
            scored = [scene for scene, scores in scenes.items() if len(scores) == 1]
            objects = {scene.rstrip("+-0123456789") for scene in scored}
            values[name] = {
                o: np.mean([next(iter(scenes[o + at].values())) for at in ("-30", "+30")])
                for o in objects
            }
        else:
            tuned = {key: scenes["dog"][key] + scenes["key"][key] for key in scenes["dog"]}
            best = max(tuned, key=lambda key: (round(tuned[key], 9), -float(key.split("/")[0])))
            values[name] = {o: s[best] for o, s in scenes.items() if o not in ("dog", "key")}
    assert all(len(by_object) == 10 for by_object in values.values())
    return values


@pytest.mark.parametrize("task", ["shape", "pose"])
def test_what_ten_objects_say_follows_from_the_tables(task):
    from scipy.stats import false_discovery_control, ttest_1samp

    values = of_ten(task)
    names = sorted(values["logistic/probabilistic"])
    near = ("uniform", "cubic_hermite", "wigner_semicircle", "gaussian", "laplace", "logistic",
            "hyperbolic_secant")  # fmt: skip

    def mean(dists, *conorms):
        every = [values[f"{dist}/{conorm}"] for dist in dists for conorm in conorms]
        return np.array([np.mean([each[o] for each in every]) for o in names])

    every, three = "probabilistic", ("probabilistic", "yager(p=2)", "max")
    known = {
        "exponential tails − finite supports": mean(near[3:], *three) - mean(near[:3], *three),
        "exponential − linear tails": mean(near[3:], every) - mean(("cauchy", "reciprocal"), every),
        "yager 2 − probabilistic": mean(near, "yager(p=2)") - mean(near, every),
        "max − probabilistic": mean(near, "max") - mean(near, every),
    }
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block_of("results/study.md", "contrasts").splitlines()[2:]
    ]
    mine = {row[1]: row[2:] for row in rows if row[0] == task}
    effects = []
    for name in mine:
        away = known.get(name)
        if away is None:
            one, other = (values[part] for part in name.split(" − "))
            away = np.array([one[o] - other[o] for o in names])
        test = ttest_1samp(away, 0.0)
        low, high = test.confidence_interval()
        effects.append(test.pvalue)
        text = mine[name][0].replace("−", "-")
        said = [float(x) for x in re.findall(r"-?\d+\.\d+", text)]
        assert said == pytest.approx([away.mean(), low, high], abs=6e-4)
    adjusted = false_discovery_control(effects)
    assert [float(row[1]) for row in mine.values()] == pytest.approx(adjusted, rel=0.06)
    assert set(known) <= set(mine)
    table = block_of("study.md", f"ten-{task}").splitlines()[2:-1]
    for line in table:
        dist, *cells = (cell.strip(" `") for cell in line.strip("|").split("|"))
        cells = cells[1:] if task == "pose" else cells
        for conorm, cell in zip(three, cells, strict=False):
            if cell != "—":
                assert float(cell) == pytest.approx(mean([dist], conorm).mean(), abs=6e-4)


def test_what_is_said_of_the_readings_of_the_reciprocals_steepness():
    text = (ROOT / "docs" / "results" / "sorting-tables.json").read_text(encoding="utf-8")
    score = {"reciprocal": {}, "reciprocal-code": {}, "cauchy": {}}
    for run in json.loads(text)["trainings"].values():
        example = run["example"]
        if example["factor"] == 1 and example["row"] in score:
            key = tuple(run["settings"][name] for name in ("n", "steps", "seed"))
            score[example["row"]][key] = 100 * run["test"]["em"]
    first, second, cauchy = score.values()
    ahead = {key: first[key] - second[key] for key in first.keys() & second.keys()}
    for n in (3, 5, 7):
        assert statistics.fmean(value for key, value in ahead.items() if key[0] == n) > 0
    every = list(ahead.values())
    assert statistics.fmean(every) > 2 * statistics.stdev(every) / len(every) ** 0.5
    # Level with cauchy in Table 3.7, and nearer to it with the first reading.
    keys = ahead.keys() & cauchy.keys()
    far = [statistics.fmean(each[key] - cauchy[key] for key in keys) for each in (first, second)]
    assert far[1] < far[0] < 0


def test_equal_counts_have_one_place():
    """However their sum was rounded: means are as many different numbers as the counts are."""
    module = load(ROOT / "docs" / "make_rounds.py")
    grid = module.grid_of("pose", ROOT / "docs" / "results" / "rounds")
    counts = grid.draws.sum((0, -1)).astype(int)
    assert len(np.unique(grid.quality)) == len(np.unique(counts))


def test_defaults_are_those_that_the_page_recommends():
    from gendr.photos.fitting import FitSettings, PoseSettings

    rows = [
        line.split("|") for line in (ROOT / "docs" / "which-renderer.md").read_text().splitlines()
    ]
    advice = {row[1].strip(): row[2].strip(" `") for row in rows if len(row) > 3}
    for goal, settings in (
        ("shape from silhouettes", FitSettings()), ("pose from a silhouette", PoseSettings()),
    ):  # fmt: skip
        assert advice[goal] == f"{settings.dist}/{settings.tconorm}"
