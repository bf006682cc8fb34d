"""Ten objects: what is scored, how settings are chosen, what others draw, the tables."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gendr
from lab.report.ten import TenObjects
from lab.studies import peers, ten
from lab.studies.objects import SCORED, TUNED, load
from lab.studies.peers import PEERS
from lab.studies.shape import ShapeTask, Views

TABLES = Path(__file__).parents[3] / "docs" / "results" / "ten-objects"


def test_no_object_is_scored_and_tuned_on_and_none_is_another():
    meshes = {name: load(name) for name in (*SCORED, *TUNED)}
    assert len(SCORED) == 10
    assert len(meshes) == 14
    shapes = [gendr.Mesh(m.vertices, m.faces).normalized("cube") for m in meshes.values()]
    places = torch.tensor([30.0, 0.0]), torch.tensor([20.0, 80.0])
    camera = gendr.look_at(2.732, *places, fov=30)
    masks = [gendr.Renderer(32, "heaviside", "max")(m, camera).alpha for m in shapes]
    for one, other in itertools.combinations(masks, 2):
        assert gendr.losses.iou(one, other).mean() < 0.85
    with pytest.raises(ValueError, match=r"unknown object 'cup'.*airplane"):
        load("cup")


@pytest.mark.parametrize(
    "name", ["logistic/max", "cauchy/max", "logistic.squared/max", "exponential.reversed/max"]
)
def test_a_width_is_where_an_edge_covers_a_quarter_and_three_quarters(name):
    instance = gendr.instance(name)
    scale = ten.scale_at(instance, 0.3)
    assert ten.width_at(name, scale) == pytest.approx(0.3)
    away = torch.linspace(-3, 3, 60_001, dtype=torch.float64)
    unit = scale**0.5 if instance.dist.is_squared else scale
    covered = instance.dist.cdf(away / unit)
    low, high = (away[(covered >= q).nonzero()[0, 0]].item() for q in (0.25, 0.75))
    assert high - low == pytest.approx(0.3, abs=3e-4)


@pytest.mark.parametrize("bottom", [(-2, -5), (1, -2), (-6, -7)])
def test_a_walk_ends_where_all_neighbours_are_worse(bottom):
    tried = {}

    def look(keys):
        for key in keys:
            assert key not in tried
            tried[key] = (key[0] - bottom[0]) ** 2 + 0.5 * abs(key[1] - bottom[1])
        return tried

    assert ten.walk(look) == bottom
    for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        assert (bottom[0] + i, bottom[1] + j) in tried
    assert len(tried) < 30


def test_a_walk_ends_at_its_limits_and_keeps_a_single_width():
    def far(keys):
        return {key: -key[0] - key[1] for key in keys}

    assert ten.walk(far) == (ten.WIDTHS_LIMIT[1], ten.RATES_LIMIT[1])
    assert ten.walk(far, widths=(0,)) == (0, ten.RATES_LIMIT[1])


@pytest.mark.parametrize("kind", ["shape", "pose"])
def test_a_renderer_is_tuned_on_some_and_scored_on_others(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(ten, "SCORED", ("hammer", "crank"))
    if kind == "shape":
        monkeypatch.setattr(ten, "TUNED", ("key",))
        small = replace(ten.SHAPES["small"], image_size=8, steps=2, views=2, subdivisions=1)
        task = ten.TenShapes(small)
    else:
        monkeypatch.setattr(ten, "POSE_TUNED", ("key",))
        monkeypatch.setattr(ten, "POSE_WIDTHS", (0.1, 0.2))
        task = ten.TenPoses(replace(ten.POSES["small"], image_size=8, steps=3, pairs=5, faces=60))
    outcome = task.run(gendr.instance("logistic/probabilistic"))
    again = task.run(gendr.instance("logistic/probabilistic"))
    assert outcome.trials == again.trials
    path = tmp_path / "table.csv"
    lines = [",".join(row) for row in [ten.HEAD, *ten.rows_of(task, outcome, "1")]]
    path.write_text("\n".join(lines) + "\n")
    scenes = ten.read_table(path)["logistic/probabilistic"]
    scored = [name for name in scenes if not name.startswith("key")]
    best = {key for name in scored for key in scenes[name]}
    if kind == "shape":
        assert scored == ["hammer-30", "hammer+30", "crank-30", "crank+30"]
        assert len(best) == 1
        tuned = scenes["key+30"]
        assert tuned[next(iter(best))] == min(tuned.values())
        mean = np.mean([scenes[name][next(iter(best))] for name in scored])
        assert outcome.score == pytest.approx(mean, abs=1e-4)
    else:
        assert scored == ["hammer", "crank"]
        assert len(best) <= 2
        assert all(len(found) == 5 for name in scenes for found in scenes[name].values())
        assert len(scenes["key"]) == 2
    (tmp_path / "other.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="no table of ten objects"):
        ten.read_table(tmp_path / "other.csv")


def drawn(name, width=0.1):
    """A sphere as one of the others draws it, hard, as the family does, and slopes of its size."""
    make, renderer, _ = PEERS[name]
    protocol = replace(ten.SHAPES["small"], views=2)
    instance = gendr.instance(renderer)
    sphere = gendr.mesh.icosphere(protocol.subdivisions).scaled(0.4)
    task, plain = make(protocol, sphere), ShapeTask(protocol, sphere)
    factor = torch.ones(2, requires_grad=True)
    vertices = sphere.vertices * factor[:, None, None]
    camera = task.camera(30.0)
    triangles = gendr.photos.triangles.face_vertices(vertices, sphere.faces, camera)
    views = Views(vertices, sphere.faces, camera, triangles)
    scale = torch.full((2,), ten.scale_at(instance, width))
    images = [one.soft(instance, views, scale) for one in (task, plain)]
    slopes = [torch.autograd.grad(x.sum(), factor, retain_graph=True)[0] for x in images]
    return images[0], plain.silhouettes(sphere, 30.0), images[1], slopes


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
@pytest.mark.parametrize("name", ["antialiased edges", "DEODR"])
def test_antialiased_images_are_the_silhouette_and_grow_as_it_does(name):
    if name == "DEODR":
        pytest.importorskip("deodr", reason="pip install deodr")
    alpha, hard, _, (slope, _) = drawn(name)
    assert gendr.losses.iou(alpha, hard).min() > 0.9
    # An area grows as twice the radius.
    assert slope.sum() == pytest.approx(2 * float(hard.sum()), rel=0.2)


def test_hard_images_with_slopes_of_a_uniform_distribution():
    alpha, hard, _, (slope, expected) = drawn("NMR")
    assert torch.allclose(alpha, hard, atol=1e-6)
    assert torch.equal(slope, expected)


def test_blending_of_all_faces_is_that_of_the_family(monkeypatch):
    few, _, plain, _ = drawn("PyTorch3D's blending")
    assert (few < plain + 1e-5).all()
    assert (few < plain - 1e-3).any()
    monkeypatch.setattr(peers, "NEAREST", 10_000)
    alpha, _, plain, (slope, expected) = drawn("PyTorch3D's blending")
    assert torch.allclose(alpha, plain, atol=1e-5)
    assert torch.allclose(slope, expected, rtol=1e-3)


@pytest.mark.parametrize("task", ["shape", "pose"])
def test_means_and_settings_follow_from_the_table(task):
    """Again, from the file, by formulas of this test."""
    found, read = (
        TenObjects.read(TABLES / f"{task}.csv", task),
        ten.read_table(TABLES / f"{task}.csv"),
    )
    assert set(ten.RENDERERS) <= set(found.names)
    for k, name in enumerate(found.names):
        scenes = read[name]
        if task == "shape":
            tuned = {}
            for scene in (f"{o}+30" for o in TUNED):
                for key, (score,) in scenes[scene].items():
                    tuned[key] = tuned.get(key, 0) + score
            scored = [scenes[f"{o}{at:+d}"] for o, at in itertools.product(SCORED, (-30, 30))]
            (key,) = {key for scores in scored for key in scores}
            values = [1 - scores[key][0] for scores in scored]
            assert tuned[key] <= min(tuned.values()) + 5e-4  # scores were rounded
            assert key[1] == found.rates[k]
        else:
            tuned = {
                key: sum(sum(scenes[o][key]) for o in ten.POSE_TUNED)
                for key in scenes[ten.POSE_TUNED[0]]
            }
            (key,) = (
                key for key in tuned
                if ten.width_at(name, 10 ** key[0]) == pytest.approx(found.widths[k], rel=1e-6)
            )  # fmt: skip
            assert tuned[key] == max(tuned.values())
            assert len(tuned) == len(ten.POSE_WIDTHS)
            values = [np.mean(scenes[o][key]) for o in SCORED]
        assert found.mean(name) == pytest.approx(np.mean(values), abs=1e-9)


def test_contrasts_are_paired_tests_over_objects():
    from scipy.stats import ttest_rel

    found = TenObjects.read(TABLES / "shape.csv", "shape")
    one, other = "laplace/probabilistic", "logistic/probabilistic"
    effect = found.less([one], [other])
    a, b = (found.values[found.names.index(name)].mean(1) for name in (one, other))
    expected = ttest_rel(a, b)
    assert effect.p() == pytest.approx(expected.pvalue)
    assert effect.interval() == pytest.approx(tuple(expected.confidence_interval()))
