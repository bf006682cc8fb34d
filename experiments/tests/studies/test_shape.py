"""Shape optimisation: its parametrisation, its search, its protocol, its script."""

import io
import json
import math
import pickle
from pathlib import Path

import pytest
import torch
from PIL import Image

import gendr
from gendr.mesh import Mesh, cube, icosphere
from gendr.rendering import Renderer
from lab.studies.pose import PoseProtocol, PoseTask
from lab.studies.shape import Deformation, ShapeProtocol, ShapeTask
from support.cases import for_each
from support.scripts import imported

ROOT = Path(__file__).resolve().parents[3]
AIRPLANE = ROOT / "assets" / "airplane.obj"
LOGISTIC = gendr.instance("logistic/probabilistic")
# Small enough for a second.
SMALL = {
    **{"views": 3, "image_size": 16, "steps": 4, "subdivisions": 1},
    **{"exponents": [-1.5, -2.0], "finer": [], "squared_finer": []},
}


def small(target=AIRPLANE, **overrides):
    return ShapeTask.make("laptop", target, "cpu", **{**SMALL, **overrides})


@pytest.fixture(scope="module")
def outcome():
    return small().run(LOGISTIC)


# -- the parametrisation ------------------------------------------------------------------------


def published_shape(start, displacement, centre):
    """The formulas of the SoftRas code, line by line; where it takes the logarithm of 0, its limit.

    start [V, 3], displacement [K, V, 3], centre [K, 1, 3] -> [K, V, 3].
    """
    base = torch.log(start.abs() / (1 - start.abs()))
    centroid = torch.tanh(centre)
    moved = torch.sigmoid(base + displacement) * torch.sign(start)
    moved = torch.relu(moved) * (1 - centroid) - torch.relu(-moved) * (centroid + 1)
    return moved + centroid


def test_deformation_is_that_of_softras():
    sphere = icosphere(2, dtype=torch.float64)
    shape = (3, *sphere.vertices.shape)
    parameters = [
        torch.randn(shape, dtype=torch.float64),
        torch.randn(3, 1, 3, dtype=torch.float64),
    ]
    for p in parameters:
        p.requires_grad_()
    ours = Deformation(sphere)(*parameters)
    theirs = published_shape(sphere.vertices / 2, *parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)
    weights = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad((ours * weights).sum(), parameters),
        torch.autograd.grad((theirs * weights).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    zero = [torch.zeros_like(x) for x in parameters]
    torch.testing.assert_close(Deformation(sphere)(*zero)[0], sphere.vertices / 2)
    far = Deformation(sphere)(*(1e3 * torch.randn_like(x) for x in zero))
    assert float(far.detach().abs().max()) <= 1


# -- the scene ----------------------------------------------------------------------------------


def test_silhouettes_are_those_of_the_renderer():
    task = small(elevations=[30.0], image_size=32)
    camera = task.camera(30.0)
    expected = Renderer(32, "heaviside", "max", near=0.1)(task.target, camera).alpha
    torch.testing.assert_close(task.silhouettes(task.target, 30.0), expected, rtol=0, atol=0)
    assert len(camera) == 3
    assert 0.02 < float(expected.mean()) < 0.5


# -- the search ---------------------------------------------------------------------------------


def plain_search(task, instance, rate, scale):
    """One candidate by the public classes: a mesh, a renderer, the losses; in float32 like ours."""
    p = task.protocol
    (elevation,) = p.elevations
    camera, masks = task.camera(elevation), task.silhouettes(task.target, elevation)
    sphere = icosphere(p.subdivisions)
    parameters = [torch.zeros(1, len(sphere.vertices), 3), torch.zeros(1, 1, 3)]
    for x in parameters:
        x.requires_grad_()
    adam = torch.optim.Adam(parameters, lr=rate, betas=p.betas)
    soft = Renderer(p.image_size, instance.dist, instance.tconorm, scale, near=0.1, cutoff=p.cutoff)
    hard = Renderer(p.image_size, "heaviside", "max", near=0.1)
    best = math.inf
    for _ in range(p.steps + 1):
        mesh = sphere.with_vertices(published_shape(sphere.vertices / 2, *parameters)[0])
        found = gendr.losses.iou(hard(mesh, camera).alpha, masks).mean()
        best = min(best, 1 - float(found))
        loss = gendr.losses.iou_loss(soft(mesh, camera).alpha, masks)
        loss = loss + p.laplacian * gendr.losses.laplacian_loss(mesh)
        loss = loss + p.flatness * gendr.losses.flatten_loss(mesh)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return best


@for_each(
    "name, changes",
    [
        ("logistic/probabilistic", {}),
        ("gaussian.squared/yager(p=2)", {}),
        # After few steps, as on a sphere Adam makes whole ones of gradients that are rounding.
        ("logistic/probabilistic", {"laplacian": 20.0, "flatness": 0.0, "steps": 3}),
        ("logistic/probabilistic", {"laplacian": 0.0, "flatness": 0.2, "steps": 8}),
    ],
    rotating=4,
)
def test_batch_equals_candidates_one_by_one(name, changes):
    """Rounding differs between the two, and few pixels of hard silhouettes with it."""
    instance = gendr.instance(name)
    task = small(learning_rates=[0.05, 0.02], squared_exponents=[-2.0, -3.0], **changes)
    (search,) = task.search(instance)
    assert len(search.fits) == 4
    for fit in search.fits:
        alone = plain_search(task, instance, fit.learning_rate, fit.scale)
        assert fit.loss == pytest.approx(alone, abs=0.01)
        masks = [task.silhouettes(mesh, 30.0) for mesh in (fit.mesh, task.target)]
        assert 1 - float(gendr.losses.iou(*masks).mean()) == pytest.approx(fit.loss, abs=1e-6)


def test_outcome(outcome):
    task, seen = pickle.loads(pickle.dumps(small())), []
    again = task.run(LOGISTIC, seed=1, progress=seen.append)
    assert (again.trials, again.picture) == (outcome.trials, outcome.picture)
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (5, 1)
    assert outcome.instance == "logistic/probabilistic"
    assert outcome.score == min(t.score for t in outcome.trials)
    best = next(t for t in outcome.trials if t.score == outcome.score)
    assert (outcome.scale, outcome.learning_rate) == (best.scale, best.learning_rate)
    assert [t.scale for t in outcome.trials] == pytest.approx([10**-1.5, 10**-2])
    assert 0 < outcome.seconds < 60
    assert Image.open(io.BytesIO(outcome.picture)).size == (96, 96)


def test_score_is_the_mean_over_elevations():
    task = small(elevations=[-30.0, 60.0])
    outcome = task.run(LOGISTIC)
    parts = [small(elevations=[e]).run(LOGISTIC) for e in (-30.0, 60.0)]
    assert outcome.score == pytest.approx(sum(p.score for p in parts) / 2)
    assert outcome.score > min(p.score for p in parts)  # the two differ
    assert [t.score for t in outcome.trials] == [t.score for p in parts for t in p.trials]
    assert [t.seed for t in outcome.trials] == [0, 0, 1, 1]


@for_each(dist=["logistic", "logistic.squared"])
def test_finer_search_goes_around_the_best(dist):
    around = {"finer": [-0.2, 0.2], "squared_finer": [-0.4, 0.4]}
    (search,) = small(learning_rates=[0.05, 0.02], squared_exponents=[-2.0, -3.0], **around).search(
        gendr.instance(f"{dist}/probabilistic")
    )
    steps = around["squared_finer" if dist.endswith("squared") else "finer"]
    coarse, finer = search.fits[:4], search.fits[4:]
    best = min(coarse, key=lambda fit: fit.loss)
    assert [fit.scale for fit in finer] == pytest.approx([best.scale * 10**x for x in steps])
    assert {fit.learning_rate for fit in finer} == {best.learning_rate}
    assert search.best.loss == min(fit.loss for fit in search.fits)


# -- the protocol -------------------------------------------------------------------------------


def test_paper_protocols_are_the_published_ones():
    p = PoseProtocol.named("paper")
    assert (p.pairs, p.image_size, p.steps, p.off, p.within) == (600, 64, 1000, (15, 75), 3)
    assert (p.learning_rates, p.scales, p.faces) == ((0.1, 0.3), (1e-1, 1e-7), 0)
    p = ShapeProtocol.named("paper")
    assert (p.views, p.image_size, p.steps, p.betas) == (24, 64, 100, (0.5, 0.95))
    assert p.elevations == (-60, -30, 0, 30, 60)
    assert p.learning_rates == pytest.approx([10**-1.25, 10**-1.5, 10**-1.75])
    assert (p.laplacian, p.flatness) == (0.03, 0.0003)
    assert len(icosphere(p.subdivisions).vertices) == 642
    grid = {round(10 * (x + y)) for x in p.exponents for y in (0, *p.finer)}
    assert grid == set(range(-80, 1))  # 10^-0.1n, n = 0 .. 80


@for_each(kind=[ShapeTask, PoseTask])
def test_protocol_json(kind, tmp_path):
    task = kind.make("paper", AIRPLANE)
    values = json.loads(task.protocol_json())
    assert values["steps"] == task.protocol.steps
    assert values["task"] == kind.name
    # The same mesh elsewhere is the same experiment; another mesh or another number is not.
    copy = tmp_path / "other.obj"
    copy.write_bytes(AIRPLANE.read_bytes())
    assert kind.make("paper", copy).protocol_json() == task.protocol_json()
    cube().save(copy)
    others = [kind.make("paper", copy), kind.make("paper", AIRPLANE, steps=7)]
    assert len({task.protocol_json(), *(x.protocol_json() for x in others)}) == 3


@for_each(
    "arguments, error, words",
    [
        ({"protocol": "desktop"}, ValueError, "unknown protocol 'desktop'"),
        ({"target": "nowhere.obj"}, FileNotFoundError, "nowhere.obj"),
        ({"stepz": 3}, ValueError, "steps"),
        ({"steps": 0}, ValueError, "steps must be >= 1"),
        ({"steps": 2.5}, TypeError, "steps must be an int"),
        ({"learning_rates": []}, ValueError, "at least one"),
    ],
    task=[ShapeTask, PoseTask],
)
def test_bad_arguments(arguments, error, words, task):
    with pytest.raises(error, match=words):
        task.make(**{"protocol": "laptop", "target": AIRPLANE, **arguments})


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return imported(monkeypatch, "shape_optimization")


def test_script(script, tmp_path, capsys, moved):
    out = tmp_path / "new" / "folder"
    arguments = [str(AIRPLANE), "--dist", "uniform", "--steps", "2", "-o", str(out)]
    arguments += ["--learning-rates", "0.05", "--exponents", "-1", "-2", "--finer", "0.5"]
    assert script.main(arguments) == 0
    assert {path.name for path in out.iterdir()} == moved  # no file was ever half there
    values = json.loads((out / "fit.json").read_text())
    assert values["instance"] == "uniform/probabilistic"
    assert values["protocol"]["steps"] == 2
    assert {trial["learning_rate"] for trial in values["trials"]} == {0.05}
    coarse, finer = [trial["scale"] for trial in values["trials"]][:2], values["trials"][2:]
    assert coarse == pytest.approx([0.1, 0.01])
    assert len(finer) == 1
    assert min(abs(finer[0]["scale"] / x - 10**0.5) for x in coarse) < 1e-6
    assert values["score"] == min(trial["score"] for trial in values["trials"])
    mesh = Mesh.load(out / "fit.obj")
    task = ShapeTask.make("laptop", AIRPLANE, "cpu")
    masks = [task.silhouettes(m, 30.0) for m in (mesh, task.target)]
    assert 1 - float(gendr.losses.iou(*masks).mean()) == pytest.approx(values["score"], abs=0.01)
    with Image.open(out / "views.png") as image:
        assert image.size == (6 * 128, 128)
    assert "best" in capsys.readouterr().out
