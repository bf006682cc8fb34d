"""Camera pose: what is drawn, what is optimised, what counts as found, and the script."""

import io
import json
import pickle
from pathlib import Path

import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation

import gendr
from gendr.mesh import Mesh, icosphere, look_at
from gendr.rendering import Renderer
from lab.studies import pose
from lab.studies.pose import Pairs, PoseProtocol, Poses, PoseTask
from support.cases import for_each
from support.scripts import imported

ROOT = Path(__file__).resolve().parents[3]
TEAPOT = ROOT / "assets" / "teapot.obj"
UNIFORM = gendr.instance("uniform/yager(p=2)")
SMALL = {"pairs": 5, "image_size": 24, "steps": 6, "faces": 80}


def small(**overrides):
    return PoseTask.make("laptop", TEAPOT, "cpu", **{**SMALL, **overrides})


@pytest.fixture(scope="module")
def outcome():
    return small().run(UNIFORM)


# -- poses --------------------------------------------------------------------------------------


def test_cameras_turn_as_scipy_says():
    turn = 60 * torch.randn(7, 2, dtype=torch.float64)
    distance = 2 + torch.rand(7, dtype=torch.float64)
    camera = Poses(turn, distance, torch.full_like(distance, 20.0)).camera()
    ahead = look_at(1.0, 0.0, 0.0, dtype=torch.float64).rotation[0]
    vectors = torch.nn.functional.pad(torch.deg2rad(turn), (0, 1))
    turned = torch.from_numpy(Rotation.from_rotvec(vectors.numpy()).as_matrix())
    torch.testing.assert_close(camera.rotation, ahead @ turned.mT)
    # They look at the middle of the object from the distance asked for.
    middle, depth = camera.project(torch.zeros(1, 1, 3, dtype=torch.float64))
    torch.testing.assert_close(middle, torch.zeros_like(middle), atol=1e-12, rtol=0)
    torch.testing.assert_close(depth[:, 0], distance)
    poses = Poses(torch.tensor([[0.0, 0.0], [-60.0, 25.0], [120.0, -160.0]]), *torch.ones(2, 3))
    expected = torch.tensor([0.0, 65.0, 160.0])
    torch.testing.assert_close(poses.error(), expected, atol=1e-3, rtol=0)


def test_reference_sees_the_target_from_a_drawn_view():
    """The target in the frame of a reference looks as the target itself from somewhere around."""
    task = small(image_size=48)
    pairs = Pairs.draw(task.target, task.protocol, 3)
    found = task.silhouettes(pairs, pairs.reference, 48)
    generator = torch.Generator().manual_seed(3)
    elevation, azimuth = 60 * torch.randn(2, 5, generator=generator)
    camera = look_at(pairs.reference.distance, elevation, azimuth, 40.0)
    expected = Renderer(48, "heaviside", "max", near=0.1)(task.target, camera).alpha
    assert float((found != expected).double().mean()) < 2e-3  # pixels whose centre is on an edge
    assert 0.05 < float(expected.mean()) < 0.6


def test_what_is_drawn():
    protocol = PoseProtocol.named("paper")
    target = icosphere(0)
    pairs = Pairs.draw(target, protocol, 0)
    assert len(pairs) == 600
    error = pairs.start.error()
    assert 15 <= float(error.min()) < 16
    assert 74 < float(error.max()) <= 75.001
    assert float(error.mean()) == pytest.approx(45, abs=2)
    assert float(pairs.reference.error().max()) == pytest.approx(0, abs=1e-3)
    for values, (low, high) in (
        (pairs.reference.distance, (2.5, 4.0)),
        (pairs.start.distance, (2.0, 10.0)),
        (pairs.start.angle, (10.0, 30.0)),
    ):
        assert low <= float(values.min()) < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < float(values.max()) <= high
    # Rotations only: all frames keep the lengths of the target.
    torch.testing.assert_close(pairs.vertices.norm(dim=-1), torch.ones(600, 12))
    again, other = Pairs.draw(target, protocol, 0), Pairs.draw(target, protocol, 1)
    assert torch.equal(again.start.turn, pairs.start.turn)
    assert not torch.equal(other.start.turn, pairs.start.turn)


# -- the search ---------------------------------------------------------------------------------


def plain_search(task, instance, pairs):
    """All pairs by the public classes, with a schedule of learning rates by hand.

    The size is 1 / (distance tan angle); its logarithm counts in units of 0.3, angles of 10 and 3
    degrees.
    """
    p = task.protocol
    mesh = Mesh(pairs.vertices, task.target.faces)
    masks = task.silhouettes(pairs, pairs.reference, p.image_size)
    turn, distance, angle = pairs.start.parameters()
    size = 1 / (distance * torch.tan(angle * torch.pi / 180))
    parameters = [x.clone().requires_grad_() for x in (turn / 10, size.log() / 0.3, angle / 3)]
    renderer = Renderer(p.image_size, instance.dist, instance.tconorm, near=0.1, cutoff=p.cutoff)
    hard = Renderer(p.image_size, "heaviside", "max", near=0.1)
    (rate,) = p.learning_rates
    adam = torch.optim.Adam(parameters, betas=p.betas)
    first, last = (instance.dist.is_squared and p.squared_scales) or p.scales
    seen = []
    for i in range(p.steps + 1):
        adam.param_groups[0]["lr"] = rate * p.final_rate ** (i / p.steps)
        angle = 3 * parameters[2]
        distance = torch.exp(-0.3 * parameters[1]) / torch.tan(angle * torch.pi / 180)
        turn = torch.cat([parameters[0], torch.zeros(len(angle), 1)], 1) * (torch.pi / 18)
        camera = look_at(distance, 0.0, 0.0, 2 * angle).rotated(turn)
        if i in (*range(0, p.steps, p.look), p.steps):
            with torch.no_grad():
                ious = gendr.losses.iou(hard(mesh, camera).alpha, masks)
            poses = torch.cat([10 * parameters[0], distance[:, None], angle[:, None]], 1)
            seen.append((ious, poses.detach()))
        if i == p.steps:
            break
        alpha = renderer(mesh, camera, scale=first * (last / first) ** (i / (p.steps - 1))).alpha
        loss = sum(gendr.losses.iou_loss(a, m) for a, m in zip(alpha, masks, strict=True))
        adam.zero_grad()
        loss.backward()
        adam.step()
    best = [max(range(len(seen)), key=lambda k: float(seen[k][0][b])) for b in range(len(pairs))]
    poses = torch.stack([seen[k][1][b] for b, k in enumerate(best)])
    return poses[:, :2], poses[:, 2], poses[:, 3]


@for_each(
    "name, squared_scales",
    [
        ("uniform/yager(p=2)", None),
        ("uniform/yager(p=2)", (1e-2, 1e-8)),
        ("gaussian.squared/probabilistic", None),
        ("gaussian.squared/probabilistic", (1e-2, 1e-8)),
    ],
    rotating=2,
)
def test_search_equals_one_by_the_public_classes(name, squared_scales):
    instance, task = gendr.instance(name), small(pairs=8, squared_scales=squared_scales)
    pairs = Pairs.draw(task.target, task.protocol, 0)
    (recovery,) = task.search(instance)
    expected = plain_search(task, instance, pairs)
    # A step of Adam goes by the sign of a gradient at first, so a pair may go astray by rounding.
    for ours, theirs in zip(recovery.found.parameters(), expected, strict=True):
        close = (ours - theirs).abs().reshape(8, -1).amax(1) < 0.05
        assert int(close.sum()) >= 7
    assert torch.equal(recovery.error, recovery.found.error())
    assert recovery.score(10.0) == float((recovery.error <= 10).double().mean())


def test_batches_do_not_change_the_result(monkeypatch):
    task = small()
    (whole,) = task.search(UNIFORM)
    monkeypatch.setattr(pose, "PAIRS_AT_ONCE", 2)
    (parts,) = task.search(UNIFORM)
    for a, b in zip(whole.found.parameters(), parts.found.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.rotating(4, group="study")
def test_outcome(outcome):
    task, seen = pickle.loads(pickle.dumps(small())), []
    again = task.run(UNIFORM, progress=seen.append)
    assert seen == sorted(seen)
    assert (len(seen), seen[-1]) == (6, 1)
    assert (again.trials, again.picture) == (outcome.trials, outcome.picture)
    # The learning rate that finds more counts.
    poses = Poses(torch.zeros(1, 2), torch.ones(1), torch.ones(1))
    found = [pose.Recovery(rate, poses, torch.tensor([e])) for rate, e in ((0.1, 4.0), (0.2, 1.0))]
    assert task.best(found).learning_rate == 0.2
    assert not torch.equal(*(small().search(UNIFORM, seed=k)[0].error for k in (0, 1)))
    with pytest.raises(ValueError, match="seed must be >= 0"):
        small().run(UNIFORM, seed=-1)
    assert outcome.instance == UNIFORM.name
    assert outcome.score in {n / 5 for n in range(6)}
    assert outcome.scale == 0.1
    assert [(t.scale, t.learning_rate, t.seed) for t in outcome.trials] == [(0.1, 0.5, 0)]
    assert Image.open(io.BytesIO(outcome.picture)).size == (112, 112)


@pytest.mark.every
def test_most_poses_are_found():
    """A good instance must find the poses, on a problem that takes seconds."""
    task = PoseTask.make("laptop", TEAPOT, "cpu", pairs=12, faces=100, image_size=48, steps=100)
    (recovery,) = task.search(UNIFORM)
    assert recovery.score(10.0) >= 0.5


def test_cameras_stay_where_they_may():
    (recovery,) = small(learning_rates=[300.0]).search(UNIFORM)
    assert bool(torch.isfinite(recovery.error).all())
    near, far = pose.DISTANCES
    assert float(recovery.found.distance.min()) >= near * (1 - 1e-5)
    assert float(recovery.found.distance.max()) <= far * (1 + 1e-5)
    assert pose.ANGLES[0] <= float(recovery.found.angle.min())
    assert float(recovery.found.angle.max()) <= pose.ANGLES[1]


# -- the protocol -------------------------------------------------------------------------------


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return imported(monkeypatch, "camera_pose")


@pytest.mark.rotating(4, group="study")
def test_script(script, tmp_path, capsys, moved):
    out = tmp_path / "new"
    arguments = [str(TEAPOT), "--dist", "uniform", "--steps", "4", "--pairs", "9", "-o", str(out)]
    arguments += ["--faces", "100", "--learning-rates", "0.2", "0.5"]
    assert script.main(arguments) == 0
    assert {path.name for path in out.iterdir()} == moved  # no file was ever half there
    values = json.loads((out / "poses.json").read_text())
    assert values["instance"] == "uniform/probabilistic"
    assert len(values["start_degrees"]) == len(values["error_degrees"]["0.5"]) == 9
    assert list(values["error_degrees"]) == ["0.2", "0.5"]
    assert (values["protocol"]["faces"], values["protocol"]["steps"]) == (100, 4)
    found = [sum(e <= 3 for e in errors) / 9 for errors in values["error_degrees"].values()]
    assert values["score"] == pytest.approx(max(found))
    for name, size in (("poses.png", (8 * 128, 2 * 128)), ("errors.png", (900, 480))):
        with Image.open(out / name) as image:
            assert image.size == size
    assert "within 3" in capsys.readouterr().out
