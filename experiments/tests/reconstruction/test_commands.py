"""The commands of reconstruction: they do what they say, and bad input ends in one line."""

import errno
import json
import os
import random
import shutil
import signal

import numpy as np
import pytest
import torch
from PIL import Image

from gendr.mesh import Mesh, cube, icosphere
from gendr.rendering import Renderer
from lab.reconstruction import (
    Reconstructor,
    ShapeNetRenderings,
    Training,
    TrainingSettings,
    camera_of_view,
    commands,
    load_model,
    making,
)
from lab.reconstruction.commands import train
from lab.reconstruction.inputs import read_image
from lab.reconstruction.model import ENCODERS
from lab.reconstruction.pictures import best_view, silhouette_sheet
from support.cases import for_each
from support.processes import run_python


def run(program, *argv):
    """The exit status of train.py, dataset.py or predict.py."""
    return getattr(commands, f"{program}_main")([str(a) for a in argv])


def fails(capsys, *argv):
    """The one line with which a command ends."""
    capsys.readouterr()
    assert run(*argv) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def meshes(tmp_path):
    folder = tmp_path / "meshes"
    folder.mkdir()
    icosphere(1).save(folder / "ball.obj")
    cube().save(folder / "box.ply")
    (folder / "broken.obj").write_text("v 0 0\nf 1 2 3\n")
    return folder


def test_dataset_of_two_classes(tmp_path, meshes, monkeypatch, capsys):
    monkeypatch.setattr(making, "SAMPLES", 1)
    out = tmp_path / "out"
    all_train = ["--shares", 1, 0, 0]
    assert run("dataset", meshes, "-o", out, "--name", "airplane", *all_train) == 0
    shown = capsys.readouterr()
    assert "airplane, train 2, val 0, test 0" in shown.out
    assert "skipped broken: " in shown.err
    again = ["dataset", meshes / "box.ply", "-o", out, "--name", "boxes", "--shares", 0, 0, 1]
    assert run(*again, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert ShapeNetRenderings(out).counts == (2,)
    assert ShapeNetRenderings(out, split="test").classes == (("boxes", "boxes"),)
    assert set(json.loads((out / "dataset.json").read_text())) == {"02691156", "boxes"}
    for name in ("airplane", "boxes"):
        with Image.open(out / f"sheet-{name}.png") as sheet:
            pixels = np.asarray(sheet)
        assert pixels.shape[2] == 3
        assert (pixels < 128).any()
    assert not (out / making.PARTIAL).exists()


def test_dataset_refuses(tmp_path, meshes, capsys):
    rest = ["-o", tmp_path / "out", "--name", "x"]
    for source, more, message in (
        (tmp_path / "no", rest, "neither a file nor a folder"),
        (meshes / "broken.obj", rest, "none of 1 shapes"),
        (meshes, [*rest, "--name", "../x"], "letters, digits"),
        (meshes, [*rest, "--shares", 0, 0, 0], "shares must be"),
        (meshes, [*rest, "--workers", 0], "must be a whole number >= 1"),
        (meshes, [*rest, "--address", "auto"], "--address is for --executor ray"),
    ):
        assert message in fails(capsys, "dataset", source, *more)


# -- train ---------------------------------------------------------------------------------------

STEPS = 5
KILLED = """
import os, signal, sys
from lab.reconstruction import Training
from lab.reconstruction.commands import train_main

step, last = Training.advance, int(sys.argv[1])

def killed(self):
    losses = step(self)
    if self.step == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return losses

Training.advance = killed
train_main(sys.argv[3:])
"""


def training(data, out, *more):
    return [
        "train", "--data", data, "-o", out, "--steps", STEPS, "--batch", 2,
        "--scale", "1px", "--save-every", 2, "--threads", 1, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def with_validation(folder, tmp_path_factory):
    """The ellipsoids, of which the flat ones are there for validation, too."""
    out = tmp_path_factory.mktemp("data") / "ellipsoids"
    shutil.copytree(folder, out)
    for kind in ("images", "voxels"):
        shutil.copy(out / f"flat_train_{kind}.npz", out / f"flat_val_{kind}.npz")
    return out


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """The checkpoint of a training that was never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    assert run(*training(folder, out, "--quiet")) == 0
    return out / "checkpoint.pt"


def same_training(one, other):
    """Whether two checkpoints go on in the same way, bit for bit."""
    a, b = (torch.load(path, weights_only=True)["state"] for path in (one, other))
    assert a["step"] == b["step"] == STEPS
    moments = [(x["optimizer"]["state"][k], y["optimizer"]["state"][k])
               for x, y in ((a, b),) for k in a["optimizer"]["state"]]  # fmt: skip
    return (
        all(torch.equal(a["model"][name], b["model"][name]) for name in a["model"])
        and all(torch.equal(x[name], y[name]) for x, y in moments for name in x)
        and torch.equal(a["generator"], b["generator"])
    )


@pytest.mark.every
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_killed_training_goes_on_bit_by_bit(folder, whole, tmp_path, seed):
    out, last = tmp_path / "out", random.Random(seed).randint(3, STEPS)
    command = [str(a) for a in training(folder, out, "--quiet")]
    ended = run_python(KILLED, last, *command)
    assert ended.returncode == -signal.SIGKILL
    done = torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"]
    assert done == (last - 1) // 2 * 2
    assert run(*command, "--resume") == 0
    assert same_training(out / "checkpoint.pt", whole)


@pytest.mark.every
def test_ctrl_c_waits_for_the_end_of_the_step_and_a_second_one_does_not(
    folder, whole, tmp_path, monkeypatch, capsys
):
    out, losses = tmp_path / "out", Training.losses
    command = training(folder, out, "--quiet")

    def interrupted(self, pairs):
        for _ in range(signals if self.step == at else 0):
            signal.raise_signal(signal.SIGINT)
        return losses(self, pairs)

    monkeypatch.setattr(Training, "losses", interrupted)
    signals, at = 2, 1
    assert run(*command) == 130
    assert "nothing is saved" in capsys.readouterr().err
    assert not (out / "checkpoint.pt").exists()
    signals, at = 2, 3
    assert run(*command) == 130
    assert "goes on after step 2 of 5" in capsys.readouterr().err
    assert torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"] == 2
    signals, at = 1, 2
    assert run(*command, "--resume") == 130
    line = capsys.readouterr().err
    assert "with --resume goes on after step 3 of 5" in line
    assert str(out / "checkpoint.pt") in line
    monkeypatch.undo()
    assert "goes on" not in fails(capsys, *command, "--seed", 1)
    assert "seed = 0, now it is 1" in fails(capsys, *command, "--seed", 1, "--resume")
    assert run(*command, "--resume") == 0
    assert same_training(out / "checkpoint.pt", whole)


@pytest.mark.rotating(4, group="study")
def test_metrics_say_what_was_done(with_validation, tmp_path, capsys):
    pytest.importorskip("tensorboard", reason="gendr[training] has it")
    out = tmp_path / "out"
    more = ["--classes", "flat", "--validate-every", 2, "--validation-views", 2, "--bfloat16"]
    assert run(*training(with_validation, out, *more)) == 0
    shown = capsys.readouterr()
    assert "step 2: 3D IoU flat 0." in shown.err
    assert "5/5" in shown.err
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["settings"]["batch"] == 2
    assert metrics["settings"]["bfloat16"] is True
    assert metrics["steps"] == STEPS
    assert metrics["seconds"] > 0
    assert metrics["classes"] == {"flat": 3}
    flat = metrics["validation"]["classes"]["flat"]
    assert 0.05 < flat["iou"] < 1
    assert flat["error"] > 0
    assert [h["step"] for h in metrics["history"] if "iou" in h] == [2, 4, 5]
    assert [h["step"] for h in metrics["history"] if "silhouette" in h] == [2, 4, 5]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(out / "tensorboard"))
    shown.Reload()
    assert [event.step for event in shown.Scalars("3D IoU/flat")] == [2, 4, 5]
    pictures = shown.Images("input, prediction, truth")
    assert [event.step for event in pictures] == [2, 4, 5]
    assert (pictures[0].width, pictures[0].height) == (3 * 16, 3 * 16)


def test_a_sheet_shows_input_prediction_and_truth(folder):
    data, model = ShapeNetRenderings(folder), Reconstructor(side=16)
    sheet = silhouette_sheet(model, data, count=2)
    assert sheet.shape == (3, 32, 48)
    assert sheet.dtype == torch.uint8
    shapes = torch.tensor([0, len(data) // 2])
    views = torch.tensor([0, 12])
    images = data.images(shapes, views)
    truth = (images[:, 3].reshape(32, 16) * 255).round()
    assert torch.equal(sheet[:, :, 32:].float(), truth.expand(3, -1, -1))
    with torch.no_grad():
        meshes = model.eval().mesh(images)
        alpha = Renderer(16, "heaviside", "max")(meshes, camera_of_view(views)).alpha
    assert torch.equal(sheet[0, :, 16:32].float(), alpha.reshape(32, 16) * 255)
    # White where the object, itself white in this data set, is not.
    assert bool((sheet[:, :, :16] == 255).all())


@pytest.mark.rotating(4, group="study")
def test_a_full_disk_leaves_the_last_good_checkpoint(folder, tmp_path, monkeypatch, capsys):
    out, step = tmp_path / "out", Training.advance

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def stepped(self):
        if self.step == 2:  # after the first checkpoint
            monkeypatch.setattr(os, "fsync", full)
        return step(self)

    monkeypatch.setattr(Training, "advance", stepped)
    line = fails(capsys, *training(folder, out, "--quiet"))
    assert line == f"train.py: error: {out / 'checkpoint.pt'}: {os.strerror(errno.ENOSPC)}"
    monkeypatch.undo()
    assert torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"] == 2
    assert {path.name for path in out.iterdir()} <= {"checkpoint.pt", "tensorboard"}
    assert run(*training(folder, out, "--quiet", "--resume")) == 0


@pytest.mark.rotating(4, group="study")
@for_each(method=["__init__", "add_scalar"], rotating=2)
def test_training_goes_on_without_curves_if_they_do_not_fit(
    folder, whole, tmp_path, monkeypatch, capsys, method
):
    pytest.importorskip("tensorboard", reason="gendr[training] has it")
    from torch.utils.tensorboard import SummaryWriter

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SummaryWriter, method, full)
    monkeypatch.setattr(train, "SCALARS_EVERY", 2)
    capsys.readouterr()
    assert run(*training(folder, tmp_path / "out", "--quiet")) == 0
    said = f"gendr: warning: no more curves of this training: {os.strerror(errno.ENOSPC)}\n"
    assert capsys.readouterr().err == said
    assert same_training(tmp_path / "out" / "checkpoint.pt", whole)


def test_the_encoders_are_those_of_the_settings(monkeypatch):
    seen = []
    monkeypatch.setattr(train, "run", lambda args: seen.append(args.settings) or 0)
    assert run("train", "--data", "x", "-o", "y") == 0
    assert seen == [TrainingSettings()]
    for encoder in ENCODERS:
        assert run("train", "--data", "x", "-o", "y", "--encoder", encoder) == 0
        assert seen[-1].encoder == encoder


def test_train_refuses(folder, tmp_path, capsys):
    out = tmp_path / "out"
    for more, message in (
        (["--resume"], "no checkpoint.pt in"),
        (["--classes", "chairs"], "unknown class 'chairs'"),
        (["--dist", "unifrm"], "unifrm"),
        (["--scale", "much"], "scale must be"),
        (["--device", "tpu"], "no device 'tpu'"),
        (["--validation-views", 25], "at most 24"),
    ):
        assert message in fails(capsys, *training(folder, out, *more))
    assert "is no folder" in fails(capsys, *training(tmp_path / "nothing", out))
    assert not (out / "checkpoint.pt").exists()


# -- predict -------------------------------------------------------------------------------------


def picture(height, width, box, alpha=True):
    """A red rectangle (top, left, bottom, right), transparent around or on plain grey."""
    top, left, bottom, right = box
    pixels = np.full((height, width, 4), (200, 200, 200, 0 if alpha else 255), np.uint8)
    pixels[top:bottom, left:right] = (250, 20, 20, 255)
    return Image.fromarray(pixels if alpha else pixels[..., :3])


@for_each(box=[(20, 150, 80, 180), (1, 2, 3, 5), (0, 60, 90, 150)], alpha=[True, False])
def test_any_image_becomes_a_square_around_its_object(tmp_path, alpha, box):
    if not alpha and box[0] == 0:
        box = (1, 60, 89, 150)
    picture(90, 200, box, alpha).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", 64, fill=0.5)
    assert found.shape == (4, 64, 64)
    tall, wide = box[2] - box[0], box[3] - box[1]
    # The longer side takes half of the square, and the middle is in the middle.
    place = (found[3] > 0.5).nonzero()
    low, high = place.amin(0), place.amax(0) + 1
    scale = 32 / max(tall, wide)
    assert (high - low).tolist() == pytest.approx([tall * scale, wide * scale], abs=2)
    assert (high + low).tolist() == pytest.approx([64, 64], abs=2)
    assert torch.allclose(found[:3, 32, 32], torch.tensor([250, 20, 20]) / 255, atol=1e-2)
    # What was around the object is nowhere in its colours.
    seen = found[:3, found[3] > 0]
    assert torch.allclose(seen, seen[:, :1].expand_as(seen), atol=1e-2)
    assert not found[:3, found[3] == 0].any()


def test_images_without_an_object_are_refused(tmp_path):
    picture(9, 9, (0, 0, 0, 0)).save(tmp_path / "empty.png")
    picture(9, 9, (0, 0, 0, 0), alpha=False).save(tmp_path / "plain.png")
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    for name, message in (
        ("empty", "alpha channel is 0 everywhere"),
        ("plain", "it has one colour"),
        ("noise", "neither an alpha channel nor a plain background"),
    ):
        with pytest.raises(ValueError, match=rf"{name}\.png: .*{message}"):
            read_image(tmp_path / f"{name}.png")


def test_the_best_view_is_the_one_that_was_rendered():
    box = cube()
    long = box.with_vertices(box.vertices * torch.tensor([0.4, 0.2, 0.1]))
    camera = camera_of_view(torch.tensor([4]))
    mask = Renderer(32, "heaviside", "max")(long, camera).alpha[0]
    view, silhouette, iou = best_view(mask, long)
    assert iou == 1
    assert torch.equal(silhouette, mask)
    assert view in (4, 16)  # half a turn shows the same silhouette where no perspective tells


@pytest.mark.rotating(4, group="study")
def test_predict_writes_a_mesh_for_each_image(whole, tmp_path, capsys):
    picture(50, 70, (10, 20, 30, 60)).save(tmp_path / "a.png")
    picture(30, 20, (10, 5, 20, 15), alpha=False).save(tmp_path / "b.jpg")
    out = tmp_path / "out"
    images = tmp_path / "a.png", tmp_path / "b.jpg"
    assert run("predict", *images, "--checkpoint", whole, "-o", out, "--turntable") == 0
    assert capsys.readouterr().out.split() == [str(out / "a.obj"), str(out / "b.obj")]
    model = load_model(whole)
    wanted = model.mesh(read_image(images[0], model.side)[None])
    mesh = Mesh.load(out / "a.obj")
    assert torch.equal(mesh.faces, wanted.faces)
    assert torch.allclose(mesh.vertices, wanted.vertices, atol=1e-5)
    assert {p.name for p in out.iterdir()} == {
        f"{name}.{end}" for name in "ab" for end in ("obj", "png", "gif")
    }
    with Image.open(out / "a.gif") as turntable:
        assert turntable.n_frames == 36
    with Image.open(out / "a.png") as sheet:
        pixels = np.asarray(sheet).astype(int)
    assert ((pixels[..., 0] - pixels[..., 2]) > 80).any()  # the mesh is orange


@pytest.mark.rotating(4, group="long")
def test_predict_refuses(whole, tmp_path, capsys):
    picture(9, 9, (2, 2, 5, 5)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("no image")
    out, a, b = tmp_path / "out", tmp_path / "a.png", tmp_path / "b.png"
    for images, checkpoint, folder, message in (
        ([a], "no.pt", tmp_path, "no file no.pt"),
        ([b], whole, out, "b.png"),
        ([tmp_path / "c.png"], whole, out, "c.png"),
        ([a, a], whole, out, "two images would write a.png.obj"),
        ([a], whole, tmp_path, "would replace it"),
        ([a], b, out, "no checkpoint of a reconstruction"),
    ):
        words = ["predict", *images, "--checkpoint", checkpoint, "-o", folder]
        assert message in fails(capsys, *words)
