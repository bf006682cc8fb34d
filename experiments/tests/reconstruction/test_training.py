"""Training: it learns, goes on where it stopped, and what it says is what it measures."""

import copy
import threading

import numpy as np
import pytest
import torch

from gendr import Renderer
from gendr.mesh import icosphere
from lab.reconstruction import (
    ShapeNetRenderings,
    Training,
    TrainingSettings,
    camera_of_view,
    evaluate,
    load_model,
    voxel_iou,
)
from support.cases import for_each

AXIS = torch.linspace(-0.5, 0.5, 32)
SIDE = 16  # of the fixture
SMALL = {"batch": 2, "scale": "1px", "steps": 10}


@pytest.fixture
def data(folder):
    return ShapeNetRenderings(folder)


def weights(training):
    return torch.cat([p.detach().reshape(-1) for p in training.model.state_dict().values()])


@pytest.mark.rotating(4, group="study")
def test_training_goes_on_bit_by_bit(tmp_path, data):
    settings = TrainingSettings(**SMALL)
    whole, first = Training(data, settings), Training(data, settings)
    told = [whole.advance() for _ in range(3)]
    again = [first.advance()]
    first.save(tmp_path / "checkpoint.pt")
    torch.rand(7)  # what others draw changes nothing
    second = Training(data, settings)
    second.restore(tmp_path / "checkpoint.pt")
    assert second.step == 1
    again += [second.advance() for _ in range(2)]
    assert again == told
    assert torch.equal(weights(second), weights(whole))
    model = load_model(tmp_path / "checkpoint.pt")
    assert not model.training
    images = data.images(torch.tensor([0]), torch.tensor([0]))
    first.model.eval()
    assert torch.equal(model(images), first.model(images))


def test_what_is_read_ahead_changes_no_draw(data):
    """Batches are those of `draw`, also after the generator was set anew."""
    training = Training(data, TrainingSettings(**SMALL))
    for _ in range(2):
        generator = torch.Generator().manual_seed(0)
        training.generator.manual_seed(0)
        for _ in range(3):
            pairs, wanted = training.next_pairs(), data.draw(2, generator)
            assert all(torch.equal(a, b) for a, b in zip(pairs, wanted, strict=True))
            assert torch.equal(training.generator.get_state(), generator.get_state())


def test_the_next_batch_is_read_by_another_thread(data, monkeypatch):
    readers, read = [], ShapeNetRenderings.stored_images
    own = copy.copy(data)  # trainings of other tests may still read ahead

    def watched(self, shapes, views):
        if self is own:
            readers.append(threading.current_thread() is threading.main_thread())
        return read(self, shapes, views)

    monkeypatch.setattr(ShapeNetRenderings, "stored_images", watched)
    training = Training(own, TrainingSettings(**{**SMALL, "steps": 3}))
    for _ in range(3):
        training.advance()
    assert readers == [True, False, False]  # and nothing is read after the last step


def test_seeds_decide_weights_and_draws(data):
    a, b, c = (Training(data, TrainingSettings(**SMALL, seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(weights(a), weights(b))
    assert not torch.equal(weights(a), weights(c))
    draws = [each.next_pairs().shapes.tolist() for each in (a, b, c)]
    assert draws[0] == draws[1] != draws[2]


def test_both_meshes_are_compared_in_both_views(data):
    """With the sphere for every image, the loss is that of the sphere in all views drawn."""
    training = Training(data, TrainingSettings(**SMALL))
    for parameter in training.model.decoder.parameters():
        torch.nn.init.zeros_(parameter)
    pairs = data.draw(3, torch.Generator().manual_seed(0))
    silhouette, _, _ = training.losses(pairs)
    sphere = icosphere(3).scaled(0.25)
    renderer = Renderer(SIDE, near=0.1, far=10.0, cutoff=1e-4)
    alpha = renderer(sphere, camera_of_view(pairs.views.flatten()), scale="1px").alpha.flatten(1)
    mask = pairs.images.flatten(0, 1)[:, 3].flatten(1)
    both = (alpha * mask).sum(1)
    wanted = 1 - both / (alpha.sum(1) + mask.sum(1) - both)
    assert silhouette.item() == pytest.approx(wanted.mean().item(), rel=1e-3)


def test_rate_and_scale_drop_once(data):
    training = Training(data, TrainingSettings(**SMALL, drop_after=0.2))
    before = training.scale
    assert before == pytest.approx(2 / SIDE)
    rates = []
    for _ in range(3):
        training.advance()
        rates.append(training.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-4, 1e-4, 3e-5])
    assert training.scale == pytest.approx(0.3 * before)


@pytest.mark.rotating(4, group="study")
def test_the_baseline_is_one_mesh_and_it_learns(data):
    """Without an encoder every image gives the same mesh, which nears the mean of the shapes."""
    settings = TrainingSettings(
        **{**SMALL, "steps": 25, "batch": 4}, encoder="none", learning_rate=2e-3
    )
    training = Training(data, settings)
    before = evaluate(training.model, data, views=(0, 9), progress=False)
    first = training.advance().silhouette
    later = [training.advance().silhouette for _ in range(24)]
    assert np.mean(later[-5:]) < 0.8 * first
    after = evaluate(training.model, data, views=(0, 9), progress=False)
    assert [(score.name, score.shapes) for score in after] == [("flat", 3), ("tall", 2)]
    assert np.mean([s.iou for s in after]) > np.mean([s.iou for s in before])
    with torch.no_grad():
        vertices = training.model(data.images(torch.tensor([0, 4]), torch.tensor([0, 7])))
    assert torch.allclose(vertices[0], vertices[1], atol=1e-6)


def test_voxel_iou_of_known_boxes():
    cells = (AXIS.abs() < 0.3).float()
    cube = torch.einsum("x,y,z->xyz", cells, cells, cells) > 0
    ball = icosphere(4).scaled(0.3)
    # The cells that the surface passes count too: about half a cell more on every side.
    grid = torch.stack(torch.meshgrid(AXIS, AXIS, AXIS, indexing="ij"), -1)
    filled = grid.norm(dim=-1) < 0.3 + 0.5 / 31
    assert voxel_iou(ball, filled[None]).item() > 0.9
    share = (filled & cube).sum() / (filled | cube).sum()
    assert voxel_iou(ball, cube[None]).item() == pytest.approx(share.item(), abs=0.03)
    far = ball.translated(torch.tensor([5.0, 0.0, 0.0]))
    assert voxel_iou(far, cube[None]).item() == 0
    assert voxel_iou(far, cube[None] & False).item() == 1


def test_checkpoints_of_others_are_refused(tmp_path, data, folder):
    settings = TrainingSettings(**SMALL)
    path = tmp_path / "checkpoint.pt"
    Training(data, settings).save(path)
    other = Training(data, TrainingSettings(**{**SMALL, "batch": 5}))
    with pytest.raises(ValueError, match="batch = 2, now it is 5"):
        other.restore(path)
    with pytest.raises(ValueError, match=r"classes = \['flat', 'tall'\], now it is"):
        Training(ShapeNetRenderings(folder, ["flat"]), settings).restore(path)
    path.write_bytes(b"x")
    with pytest.raises(ValueError, match="no checkpoint of a reconstruction"):
        load_model(path)


@for_each(
    "setting, message",
    [
        ({"steps": 0}, "steps"),
        ({"drop": 0.0}, r"drop must lie in \(0, 1\]"),
        ({"drop_after": 1.5}, "drop_after"),
        ({"laplacian": -1.0}, "laplacian must be >= 0"),
        ({"encoder": "vgg"}, "unknown encoder 'vgg'"),
    ],
)
def test_settings_out_of_range_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**setting)
