"""The training of splats: what a step, a split and a pause keep, and what they change."""

from dataclasses import replace

import pytest
import torch

from gendr import look_at
from gendr.photos.splatting import Photos, Splats, SplatSettings, SplatTraining, fit_splats

SMALL = SplatSettings(triangles=40, steps=12, renew_every=4, evaluate_every=0.5, cutoff=1e-3)
SIZE = 24


def scene(count=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(count, 1, 3, generator=generator) - 0.5
    vertices = centre + 0.25 * torch.randn(count, 3, 3, generator=generator)
    harmonics = torch.randn(count, 4, 3, generator=generator)
    return Splats(vertices, harmonics, torch.full((count,), 0.8), torch.full((count,), 0.5))


@pytest.fixture(scope="module")
def photos():
    """Pictures of other triangles over white."""
    camera = look_at(3.0, torch.tensor([20.0, -10.0, 35.0, 0.0]), torch.arange(4) * 90.0)
    images, alpha = scene(seed=1).render(camera, SIZE)
    return Photos(images.clamp(0, 1), alpha, camera, tuple("abcd"), torch.ones(3))


def trained(photos, settings=SMALL, steps=None, init=None):
    training = SplatTraining(photos, settings, init or scene(), photos)
    for _ in range(settings.steps if steps is None else steps):
        training.advance()
    return training


def same(one, two):
    return all(
        torch.equal(getattr(one.splats(), name), getattr(two.splats(), name))
        for name in ("vertices", "harmonics", "opacity", "scale")
    )


def test_a_training_gets_better_and_says_so(photos):
    training = fit_splats(
        photos, replace(SMALL, steps=80, renew_every=20), init=scene(), held_out=photos
    )
    scores = [row["psnr"] for row in training.history]
    start = float(SplatTraining(photos, SMALL, scene()).psnr(photos).mean())
    assert scores[-1] > scores[0] > start + 1
    assert training.is_over
    assert training.history[-1]["step"] == 80


def test_a_step_follows_the_gradient_of_its_loss(photos):
    one, other = trained(photos, steps=0), trained(photos, steps=1)
    error = one._error()
    loss = 0.8 * error.abs().mean() + 2 * error.square().mean()
    values = list(one._values.values())
    for got, want in zip(other._values.values(), torch.autograd.grad(loss, values), strict=True):
        torch.testing.assert_close(got.grad, want)
    torch.testing.assert_close(other._sums[0], loss.detach())


def test_a_pause_changes_no_bit(photos, tmp_path):
    straight = trained(photos)
    paused = trained(photos, steps=7)
    paused.save(tmp_path / "half.pt")
    resumed = fit_splats(photos, SMALL, init=scene(), held_out=photos, resume=tmp_path / "half.pt")
    assert same(straight, resumed)
    assert [row["step"] for row in resumed.history] == [row["step"] for row in straight.history]
    assert not same(straight, paused)


def test_another_training_is_not_resumed(photos, tmp_path):
    trained(photos, steps=1).save(tmp_path / "one.pt")
    other = SplatTraining(photos, replace(SMALL, rate=2.0), scene())
    with pytest.raises(ValueError, match=r"rate = 1.0, now it is 2.0"):
        other.restore(tmp_path / "one.pt")
    darker = Photos(photos.images * 0.5, photos.alpha, photos.camera, photos.names, torch.ones(3))
    with pytest.raises(ValueError, match="other photos"):
        SplatTraining(darker, SMALL, scene()).restore(tmp_path / "one.pt")


def test_triangles_are_split_until_there_are_enough_and_faint_ones_dropped(photos):
    init = scene()
    opacity = init.opacity.clone()
    opacity[:3] = 0.004
    training = trained(photos, replace(SMALL, rate=1e-6), init=init.with_tensors(opacity=opacity))
    splats = training.splats()
    assert len(splats) == 40
    assert float(splats.opacity.min()) > 0.02

    def area(x):
        return torch.linalg.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]).norm(dim=-1).sum()

    # Halves cover what the whole did; only the faint ones are gone.
    torch.testing.assert_close(area(splats.vertices), area(init.vertices[3:]), rtol=1e-3, atol=0)
    # Two halves over each other cover as much as the whole, quarters too.
    shares = torch.tensor([1 - 0.2 ** (1 / 2**k) for k in range(4)])
    nearest = (splats.opacity[:, None] - shares).abs().amin(1)
    assert float(nearest.max()) < 1e-3
    assert len(splats.opacity.unique()) > 1


def test_what_adam_knows_follows_its_triangle(photos):
    training = trained(photos, steps=3)
    vertices = training._values["vertices"]
    before = training._adam.state[vertices]["exp_avg"].clone()
    training._keep(torch.tensor([5, 5, 2]))
    kept = training._values["vertices"]
    assert torch.equal(kept, vertices[[5, 5, 2]])
    assert torch.equal(training._adam.state[kept]["exp_avg"], before[[5, 5, 2]])
    assert vertices not in training._adam.state


@pytest.mark.rotating(5, group="photos")
def test_exposure_and_background_are_learnt(photos):
    gains = torch.tensor([0.7, 1.0, 1.0, 1.0])[:, None, None, None]
    dark = Photos(
        photos.images * gains,
        photos.alpha,
        photos.camera,
        photos.names,
        torch.tensor([1.0, 1, 0.5]),
    )
    settings = replace(SMALL, steps=150, exposure=True, background="learnt", density="none")
    init = scene(seed=1).with_tensors(background=torch.tensor([1.0, 1.0, 0.9]))
    training = trained(dark, settings, init=init)
    exposure = training._values["exposure"].detach().mean(1)
    assert exposure.argmin() == 0
    assert float(exposure[0]) < float(exposure[1:].min()) - 0.1
    assert float(training.splats().background[2]) > 0.92


def test_what_a_training_leaves_can_be_read(photos, tmp_path):
    """Before black a learnt background is pulled below 0, and rates may be far too large."""
    settings = replace(SMALL, steps=12, background="learnt", rate=20.0, density="none")
    dark = replace(photos, images=0 * photos.images, alpha=None, background=torch.zeros(3))
    training = trained(dark, settings, init=scene(seed=1).with_tensors(background=torch.zeros(3)))
    training._values["opacity"].data[0] = -200.0  # whose sigmoid is 0 in float32
    training._values["scale"].data[0] = 200.0
    training.splats().save(tmp_path / "a.npz")
    assert len(Splats.load(tmp_path / "a.npz")) == len(training)
    with pytest.raises(ValueError, match=r"background must be RGB in \[0, 1\], got -1"):
        scene(seed=1).with_tensors(background=-torch.ones(3)).save(tmp_path / "b.npz")
    assert not (tmp_path / "b.npz").exists()


def test_the_number_of_triangles_follows_from_pixels_and_time():
    assert SplatSettings(triangles=7).count_for(10**6) == 7
    few, many = (SplatSettings(budget=s).count_for(10**9) for s in (60.0, 600.0))
    assert 10_000 < few < many < 100_000
    assert SplatSettings(budget=1e6).count_for(10_000) == 5000


def test_scales_that_are_not_learnt_stay(photos):
    settings = replace(SMALL, learn_scale=False, density="none", scale=0.3)
    splats = trained(photos, settings).splats()
    torch.testing.assert_close(splats.scale, scene().scale)
    assert not torch.allclose(
        trained(photos, replace(settings, learn_scale=True)).splats().scale, scene().scale
    )
