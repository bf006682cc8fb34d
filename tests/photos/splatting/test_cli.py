"""The command `gendr splat`: what it writes, how it goes on, and what it refuses."""

import shutil
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from gendr import Mesh, Renderer, look_at
from gendr.cli import progress, splat
from gendr.losses import psnr, ssim
from gendr.mesh import icosphere
from gendr.photos import save_views
from gendr.photos.splatting import Splats, load_photos, loop, pictures
from support.cases import for_each
from support.commands import facts, names, refused
from support.commands import run as run_command

SMALL = ["--triangles", 60, "--renew-every", 4, "--steps", 12, "--quiet"]
RESULTS = {
    "splats.npz", "splats.ply", "splats.glb", "sheet.png", "orbit.gif", "metrics.json",
    "checkpoint.pt", "opaque.pt",
}  # fmt: skip
run = partial(run_command, "splat")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(splat, "FRAMES", 4)


@pytest.fixture(scope="module")
def ball(tmp_path_factory):
    """Six photos of a ball of two colours, transparent around it."""
    folder = tmp_path_factory.mktemp("photos")
    mesh = icosphere(2)
    colors = torch.where(mesh.vertices[:, :1] > 0, torch.tensor([0.9, 0.3, 0.1]), 0.2)
    camera = look_at(3.0, torch.tensor([30.0, -20.0] * 3), torch.arange(6) * 60.0, 45.0)
    out = Renderer(32, "logistic", scale="0.3px")(mesh.with_vertex_colors(colors), camera)
    save_views(folder, out.alpha, camera, rgb=out.rgb.clamp(0, 1))
    return folder


@pytest.fixture(scope="module")
def whole(ball, tmp_path_factory):
    """The same photos over blue, without masks."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "images").mkdir()
    (folder / "transforms.json").write_text((ball / "transforms.json").read_text())
    for path in (ball / "images").iterdir():
        with Image.open(path) as image:
            picture = Image.new("RGB", image.size, (40, 80, 160))
            picture.paste(image, mask=image.getchannel("A"))
        picture.save(folder / "images" / path.name)
    return folder


@pytest.fixture(scope="module")
def trained(ball, tmp_path_factory):
    """What a training of 80 steps left."""
    out = tmp_path_factory.mktemp("trained")
    assert run(ball, "-o", out, *SMALL, "--steps", 80, "--triangles", 400) == 0
    return out


def averaged(seen):
    """Pictures on white, of 4 x 4 hard pixels each."""
    return F.avg_pool2d(seen.rgb + (seen.face_id < 0)[:, None], 4)


def test_photos_become_a_scene(ball, trained):
    assert names(trained) == RESULTS
    found = facts(trained)
    assert (found["kind"], found["scored"], found["init"]) == ("splats", "held out", "hull")
    assert (found["views"], found["steps"], found["image_size"]) == (5, 80, [32, 32])
    splats = Splats.load(trained / "splats.npz")
    assert found["triangles"] == len(splats) > 300
    photos = load_photos(ball)[[3]]
    assert [row["name"] for row in found["pictures"]] == list(photos.names)
    image = splats.render(photos.camera, 32)[0].clamp(0, 1)
    assert found["psnr"] == pytest.approx(float(psnr(image, photos.images)), abs=1e-3)
    assert found["ssim"] == pytest.approx(float(ssim(image, photos.images)), abs=1e-3)
    assert found["psnr"] > 13
    gain = (image * photos.images).sum((2, 3)) / image.square().sum((2, 3))
    exposed = float(psnr(image * gain[..., None, None], photos.images))
    assert found["psnr_exposed"] == pytest.approx(exposed, abs=1e-3)
    assert found["psnr_exposed"] > found["psnr"]
    assert found["psnr_affine"] > found["psnr_exposed"]
    sides = [[x[0, c, :, part].flatten().double() for c in range(3)]
             for x in (image, photos.images) for part in (slice(16), slice(16, None))]  # fmt: skip
    fits = [np.polyfit(x, y, 1) for x, y in zip(sides[0], sides[2], strict=True)]
    misses = [
        np.polyval(f, x) - y.numpy() for f, x, y in zip(fits, sides[1], sides[3], strict=True)
    ]
    right = -10 * np.log10(np.mean(np.square(misses)))
    assert found["psnr_half"] == pytest.approx(right, abs=1e-3)
    lost = found["opaque"]
    assert lost["steps"] == 80
    assert lost["bytes"] == (trained / "splats.glb").stat().st_size
    mesh = Mesh.load(trained / "splats.glb")
    assert 0 < lost["triangles"] == len(mesh.faces) <= 400
    assert lost["psnr"] > found["psnr"] - 2
    assert lost["loss_db"] == pytest.approx(found["psnr"] - lost["psnr"], abs=1e-3)
    hard = Renderer(128, "heaviside", "max", shading="hard", composite="depth", near=1.0, far=9.0)
    seen = hard(mesh, photos.camera)
    crisp = averaged(seen)
    assert lost["psnr"] == pytest.approx(float(psnr(crisp, photos.images)), abs=0.5)
    with Image.open(trained / "sheet.png") as sheet:
        assert min(sheet.size) > 300
        assert len(np.unique(np.asarray(sheet).reshape(-1, 3), axis=0)) > 100


@pytest.mark.filterwarnings("default:no surface to start from, cameras instead")
@pytest.mark.rotating(5, group="photos")
def test_pictures_without_masks_have_a_learnt_background(whole, tmp_path):
    assert run(whole, "-o", tmp_path / "a", *SMALL, "--hold-out", 0) == 0
    found = facts(tmp_path / "a")
    assert (found["scored"], found["init"], found["views"]) == ("trained on", "cameras", 6)
    assert len(found["pictures"]) == 6
    assert found["settings"]["background"] == "learnt"
    blue = torch.tensor([40, 80, 160]) / 255
    assert (torch.tensor(found["background"]) - blue).abs().max() < 0.1
    argv = ["--background", "red", "--init", "chair", "--dist", "power", "--shape", 1]
    assert run(whole, "-o", tmp_path / "b", *SMALL, *argv, "--image-size", 20) == 0
    found = facts(tmp_path / "b")
    assert (found["background"], found["image_size"]) == ([1, 0, 0], [20, 20])
    assert found["init"] == "chair"
    small = [*SMALL[:2], *SMALL[4:]]  # without --renew-every, which has no effect there
    again = ["--init", tmp_path / "b" / "splats.npz", "--density", "none", "--image-size", 20]
    assert run(whole, "-o", tmp_path / "c", *small, *again) == 0
    found = facts(tmp_path / "c")
    assert found["settings"]["dist"] == "power(shape=1.0)"
    assert found["triangles"] == len(Splats.load(tmp_path / "b" / "splats.npz"))
    again[1] = tmp_path / "b" / "splats.ply"  # as Gaussians
    assert run(whole, "-o", tmp_path / "d", *small, *again) == 0
    assert facts(tmp_path / "d")["triangles"] == found["triangles"]


class Stopping:
    """The signal of Ctrl-C in the middle of a step, once."""

    def __init__(self, monkeypatch, step, kind=splat.SplatTraining):
        own = kind.advance

        def advance(training):
            own(training)
            if training.step == step:
                monkeypatch.setattr(kind, "advance", own)
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(kind, "advance", advance)


@pytest.mark.rotating(5, group="photos")
def test_a_training_goes_on_after_ctrl_c_with_the_same_bits(ball, tmp_path, monkeypatch, capsys):
    ball = shutil.copytree(ball, tmp_path / "ball")
    assert run(ball, "-o", tmp_path / "a", *SMALL) == 0
    Stopping(monkeypatch, 7)
    argv = [ball, "-o", tmp_path / "b", *SMALL]
    assert run(*argv) == 130
    said = capsys.readouterr().err
    assert "stopped after step 7; the same command with --resume goes on from" in said
    assert names(tmp_path / "b") == {"checkpoint.pt"}
    interrupted = shutil.copytree(tmp_path / "b", tmp_path / "c")
    assert torch.load(tmp_path / "b" / "checkpoint.pt", weights_only=True)["state"]["step"] == 7
    assert "a training of splats with seed = 0, now it is 1" in refused(
        capsys, "splat", *argv, "--resume", "--seed", 1
    )
    Stopping(monkeypatch, 5, splat.HardTraining)
    assert run(*argv, "--resume") == 130
    assert "stopped after step 5 of opaque triangles; the same" in capsys.readouterr().err
    assert names(tmp_path / "b") == {"checkpoint.pt", "opaque.pt"}
    assert run(*argv, "--resume") == 0
    said = refused(capsys, "splat", *argv, "--resume", "--steps", 9)
    assert "has 12 steps, more than the 9 asked for" in said
    glbs = [(tmp_path / x / "splats.glb").read_bytes() for x in "ab"]
    assert glbs[0] == glbs[1]
    one, other = (Splats.load(tmp_path / x / "splats.npz") for x in "ab")
    for name in ("vertices", "harmonics", "opacity", "scale"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert facts(tmp_path / "b")["history"][-1]["step"] == 12
    assert run(*argv, "--resume", "--steps", 14) == 0
    assert facts(tmp_path / "b")["steps"] == facts(tmp_path / "b")["opaque"]["steps"] == 14
    assert (tmp_path / "b" / "splats.glb").read_bytes() != glbs[0]
    assert run(*argv, "--resume", "--steps", 14, "--opaque", 0) == 0
    last = facts(tmp_path / "b")
    assert last["opaque"] is None
    assert not (tmp_path / "b" / "splats.glb").exists()
    capsys.readouterr()
    assert run(*argv[:-1], "--resume", "--steps", 14, "--opaque", 0) == 0
    assert "finished already, by the same input and options" in capsys.readouterr().out
    assert facts(tmp_path / "b") == last
    photo = sorted(ball.glob("**/*.png"))[0]
    with Image.open(photo) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(photo)
    for out in (tmp_path / "b", interrupted):
        assert run(ball, "-o", out, *SMALL, "--resume", "--opaque", 0) == 0
        assert "photos, or files beside them, have changed since: all" in capsys.readouterr().err
        assert facts(out)["steps"] == 12


@pytest.mark.every
def test_pictures_are_shown_on_the_way(ball, tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(progress, "PREVIEW_SECONDS", 0.0)
    whole = splat.write_whole
    monkeypatch.setattr(splat, "write_whole", lambda *args: (seen.append(args[0]), whole(*args)))
    assert run(ball, "-o", tmp_path, "--triangles", 40, "--steps", 20) == 0
    found = facts(tmp_path)
    assert seen
    assert {path.name for path in seen} == {"preview.png"}
    assert not {path.name for path in seen} & names(tmp_path)
    shown = capsys.readouterr()
    assert f"PSNR {found['psnr']:.1f} dB" in shown.out
    assert "triangles=" in shown.err


@pytest.mark.rotating(5, group="photos")
@for_each(opaque=[0, 0.5], stopped=[None, "SplatTraining", "HardTraining"], rotating=2)
def test_files_are_there_when_the_budget_ends(opaque, stopped, ball, tmp_path, monkeypatch):
    """By a clock that steps and pictures move: of 300 s all are spent, and none is added."""
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])

    def slow(place, name, seconds):
        own = getattr(place, name)

        def work(*args, **kwargs):
            now[0] += seconds * (len(args[2]) if name == "hard_views" else 1)
            return own(*args, **kwargs)

        monkeypatch.setattr(place, name, work)

    for module in (splat, loop):
        monkeypatch.setattr(module, "time", clock)
    slow(splat, "load_photos", 7.0)
    for kind in (splat.SplatTraining, splat.HardTraining):
        slow(kind, "advance", 3.0)
        slow(kind, "psnr", 1.0)
    slow(splat, "rendered", 0.5)
    slow(pictures, "rendered", 0.5)  # of the film
    slow(splat, "hard_views", 0.4)
    resumed = stopped is not None and (opaque or stopped == "SplatTraining")
    if resumed:
        Stopping(monkeypatch, 20, getattr(splat, stopped))
    argv = [ball, "-o", tmp_path, "--budget", "300s", "--triangles", 60, "--quiet"]
    argv += ["--opaque", opaque]
    assert run(*argv) == (130 if resumed else 0)
    begin, before = now[0], 0.0
    if resumed:
        saved = [torch.load(path, weights_only=True) for path in tmp_path.glob("*.pt")]
        before = sum(each["state"]["seconds"] for each in saved)
        assert run(*argv, "--resume") == 0
    took = before + now[0] - (begin if resumed else 0.0)
    assert took == pytest.approx(300, rel=0.05)
    seconds = facts(tmp_path)["seconds"]
    assert seconds["total"] == pytest.approx(took, abs=0.1)
    assert seconds["total"] == pytest.approx(sum(seconds.values()) - seconds["total"], abs=0.01)
    assert seconds["opaque"] >= 0.9 * opaque * seconds["training"]


def test_files_of_others_are_kept(ball, trained, tmp_path, capsys):
    (tmp_path / "sheet.png").write_bytes(b"mine")
    said = refused(capsys, "splat", ball, "-o", tmp_path, *SMALL)
    assert "holds sheet.png, which is not of gendr splat" in said
    (tmp_path / "metrics.json").write_text('{"kind": "mesh"}')
    assert "not of gendr splat" in refused(capsys, "splat", ball, "-o", tmp_path, *SMALL)
    (tmp_path / "checkpoint.pt").write_bytes(b"mine")
    assert "no checkpoint of a training of splats" in refused(
        capsys, "splat", ball, "-o", tmp_path, *SMALL
    )
    assert (tmp_path / "sheet.png").read_bytes() == b"mine"
    assert len(names(tmp_path)) == 3
    # What a training left that was stopped before its first checkpoint is none of others.
    (out := tmp_path / "stopped").mkdir()
    (out / "start.npz").write_bytes(b"mine")
    assert "holds start.npz" in refused(capsys, "splat", ball, "-o", out, *SMALL)
    (out / "start.npz").write_bytes((trained / "splats.npz").read_bytes())
    assert run(ball, "-o", out, *SMALL) == 0
    # Nor what one left whose cameras or masks were made anew, before the next checkpoint.
    for name in ("metrics.json", "checkpoint.pt"):
        (out / name).unlink()
    (out / "preview.png").write_bytes(b"")
    assert run(ball, "-o", out, *SMALL) == 0


@for_each(
    "argv, words",
    [
        (["PHOTOS", "--device", "cuda:9"], "no device 'cuda:9' here; usable: cpu"),
        (["nothing/"], "no such file or folder: nothing"),
        (["PHOTOS", "--resume"], "--resume: no checkpoint.pt in"),
        (["PHOTOS", "--hold-out", 1], "--hold-out 1 leaves no picture to train on"),
        (["PHOTOS", "--init", "points"], "has no points, as gendr cameras"),
        (["PHOTOS", "--init", "table"], "no such file or folder: table; built in: chair"),
        (["PHOTOS", "--init", "none.npz"], "there are no splats at none.npz"),
        (["PHOTOS", "--dist", "nothing"], "nothing"),
        (["PHOTOS", "--shape", 1], "uniform has no shape to set"),
        (["PHOTOS", "--degree", 4], "degree must be 0, 1, 2 or 3, got 4"),
        (["PHOTOS", "--budget", "soon"], "must be a time > 0"),
        (["PHOTOS", "--unit", "cm"], "cm"),
        (["PHOTOS", "--background", "nothing"], "background must be"),
        (["PHOTOS", "--image-size", 4], "must be a whole number >= 16"),
    ],
    rotating=4,
)
def test_bad_input_is_named_in_one_line(argv, words, ball, tmp_path, capsys):
    argv = [ball if word == "PHOTOS" else word for word in argv]
    assert words in refused(capsys, "splat", *argv, "-o", tmp_path / "out")
