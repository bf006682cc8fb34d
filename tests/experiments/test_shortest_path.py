"""Learning from shortest paths: the scores, the losses, the training, its script, its pictures."""

import json
import re
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import torch

from gendr.data.warcraft import (
    TerrainMaps,
    TerrainSplits,
    cheapest_paths,
    generate_terrain,
    path_cost,
)
from lab.report.paths import PUBLISHED, table
from lab.studies.path_networks import CostNet, PathNet
from lab.studies.shortest_path import (
    METHODS,
    PathSettings,
    PathTraining,
    clipped,
    generated_splits,
    hard_paths,
    is_path,
    scored,
    train,
)
from support.cases import for_each
from support.scripts import advanced, imported, refusal, signalled
from support.trainings import resumed

SMALL = PathSettings(steps=5, batch=2, samples=2, evaluate_every=2, maps=3)
ALGORITHMS = [name for name, method in METHODS.items() if not method.is_baseline]


@pytest.fixture(scope="module")
def data():
    return generated_splits(5, 3, 4)


# -- paths and scores ---------------------------------------------------------------------------


def test_the_solver_finds_cheapest_paths(seed):
    costs = np.random.default_rng(seed).uniform(0.1, 1, (40, 4, 6)).astype(np.float32)
    assert np.array_equal(hard_paths(costs), cheapest_paths(costs))
    costs[:, 0] = -1  # counts as hardly anything
    costs[:, :, 5] = 0
    assert (hard_paths(costs)[:, 0, 1:5] > 0).all()


def test_marked_cells_that_are_a_path():
    marked = np.array([
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[1, 1, 1], [0, 0, 1], [0, 0, 1]],
        [[1, 0, 0], [0, 0, 1], [0, 0, 1]],  # a gap
        [[0, 0, 0], [0, 1, 0], [0, 0, 1]],  # no first cell
        [[1, 1, 0], [0, 1, 0], [0, 0, 0]],  # no last cell
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    ])  # fmt: skip
    assert is_path(marked).tolist() == [True, True, False, False, False, True]


def test_scores_by_hand():
    costs = torch.tensor([[1.0, 2, 2], [2, 5, 2], [9, 2, 2]])
    true = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 1]])
    predictions = torch.stack([
        true,  # costs 2 + 2 + 2
        torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 1]]),  # as much
        torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1]]),  # 7
        torch.tensor([[1, 1, 0], [1, 0, 1], [0, 1, 1]]),  # two at once: 10
        torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 1]]),  # cheap, but has a gap
    ])  # fmt: skip
    count = len(predictions)
    maps = TerrainMaps(
        torch.zeros(count, 3, 24, 24).byte(), true.byte().expand(count, 3, 3),
        costs.expand(count, 3, 3),
    )  # fmt: skip
    found = scored(predictions.byte(), maps)
    assert found.optimal == pytest.approx(2 / 5)
    assert found.exact == pytest.approx(1 / 5)
    assert found.paths == pytest.approx(4 / 5)
    assert found.cost_ratio == pytest.approx((1 + 1 + 7 / 6 + 10 / 6) / 4)
    assert scored(predictions[4:].byte(), maps[4:]).cost_ratio is None
    everything = generate_terrain(6, 5)
    assert scored(everything.paths, everything) == pytest.approx((1, 1, 1, 1))


def test_networks_see_each_cell():
    """A change of one tile changes costs around it only; logits may change everywhere."""
    images = torch.rand(2, 3, 64, 64)
    changed = images.clone()
    changed[:, :, :8, :8] = 0
    for network, is_local in ((CostNet, True), (PathNet, False)):
        model = network((8, 8)).eval()
        off = (model(images) - model(changed)).abs()
        assert off.shape == (2, 8, 8)
        assert off[:, 0, 0].min() > 0
        assert (off[:, 6:, 6:].max() == 0) == is_local
    assert CostNet((8, 8))(images).min() >= 0


# -- methods ------------------------------------------------------------------------------------


def gradient(method, costs, paths, **settings):
    x = costs.clone().requires_grad_()
    loss = METHODS[method].loss(x, paths, PathSettings(method=method, **settings), 3)
    loss.backward()
    return loss.detach(), x.grad


@for_each(method=METHODS)
def test_losses_of_a_batch_are_those_of_its_maps(method):
    """Their mean; and each path is compared with its own map, also among samples."""
    generator = torch.Generator().manual_seed(1)
    costs = torch.rand(3, 5, 5, generator=generator, dtype=torch.float64) ** 3 + 0.02
    paths = torch.from_numpy(cheapest_paths(costs.flip(-1))).double()
    assert len(paths.unique(dim=0)) == 3
    # Noise that changes no path, where a method draws any.
    small = {"noise": 1e-9} if METHODS[method].is_sampled else {}
    value, grad = gradient(method, costs, paths, difference=0.3, **small)
    alone = [gradient(method, costs[i : i + 1], paths[i : i + 1], difference=0.3, **small)
             for i in range(3)]  # fmt: skip
    torch.testing.assert_close(value, sum(one for one, _ in alone) / 3, rtol=1e-6, atol=1e-8)
    if not small:
        torch.testing.assert_close(grad, torch.cat([one for _, one in alone]) / 3)
        assert grad.abs().sum() > 0
    if method not in ("bellman_ford", "fenchel_young", "resnet"):
        hard = torch.from_numpy(cheapest_paths(costs)).double()
        wrong = (hard - paths).square().sum((1, 2)).mean()
        torch.testing.assert_close(value, wrong)


@for_each(method=ALGORITHMS)
def test_gradients_point_to_the_true_path(method):
    """On the true path, costs must fall; on the other one, rise."""
    costs = torch.full((60, 3, 3), 0.5, dtype=torch.float64)
    costs[:, 0, 1] = costs[:, 1, 2] = 0.3  # the predicted path goes over the upper corner
    costs[:, 1, 1] = 2.0
    wanted = torch.zeros_like(costs)
    for row, column in ((0, 0), (1, 0), (2, 1), (2, 2)):
        wanted[:, row, column] = 1
    _, grad = gradient(method, costs, wanted, noise=0.4, difference=1.0, strength=2.0, samples=40,
                       steepness=3.0)  # fmt: skip
    slope = grad.mean(0)
    assert slope[1, 0] + slope[2, 1] > 0
    assert slope[0, 1] + slope[1, 2] < 0


def test_long_gradients_are_shortened_map_by_map():
    slopes = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))
    slopes *= (
        torch.tensor([9.0, 0.5, 3.0])[:, None, None] / slopes.flatten(1).norm(dim=1)[:, None, None]
    )
    x = torch.rand(3, 2, 2, requires_grad=True)
    loss = (clipped(x, 2.0) * slopes).sum((1, 2)).mean()
    (grad,) = torch.autograd.grad(loss + x.sum(), x)
    lengths = torch.tensor([2 / 9, 1.0, 2 / 3])[:, None, None]
    torch.testing.assert_close(grad, slopes * lengths / 3 + 1)
    assert torch.equal(clipped(x.detach(), 2.0), x)


# -- training -----------------------------------------------------------------------------------


def test_a_network_learns_what_terrain_costs():
    data = generated_splits(80, 60, 5)
    settings = PathSettings(
        steps=40, batch=10, evaluate_every=40, steepness=3.0, learning_rate=3e-3
    )
    before = PathTraining(settings, data).scores(data.test)
    result = train(settings, data)
    assert result.test.cost_ratio - 1 < 0.6 * (before.cost_ratio - 1)
    assert result.test.optimal > before.optimal
    assert result.test.paths == 1
    plain = result.describe()
    assert json.loads(json.dumps(plain)) == plain


def test_an_evaluation_takes_each_map_alone(data):
    training = PathTraining(SMALL, data)
    training.advance()
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    together, alone = training.outputs(data.test), training.outputs(data.test[1:2])
    torch.testing.assert_close(together[1:2], alone)
    assert training.model.training
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_half_precision_changes_the_last_digits_only(data):
    whole = PathTraining(SMALL, data).outputs(data.test)
    half = PathTraining(replace(SMALL, precision="bfloat16"), data).outputs(data.test)
    assert half.dtype == torch.float32
    assert 0 < (half - whole).abs().max() < 0.02 * whole.abs().max()


def test_an_epoch_has_every_map_once(data):
    seen = []
    training = PathTraining(replace(SMALL, steps=4), data)
    batch = training.train.batch
    object.__setattr__(training.train, "batch", lambda index: (seen.append(index), batch(index))[1])
    for _ in range(4):
        training.advance()
    first, second = torch.cat(seen[:2]).tolist(), torch.cat(seen[2:]).tolist()
    assert len(set(first)) == len(set(second)) == 4  # of 5 maps, in batches of 2
    assert first != second


def test_the_learning_rate_falls_twice(data):
    training = PathTraining(replace(SMALL, steps=10, learning_rate=0.5), data)
    rates = []
    for _ in range(10):
        training.advance()
        rates.append(training.adam.param_groups[0]["lr"])
    assert rates == pytest.approx([0.5] * 6 + [0.05] * 2 + [0.005] * 2)


@pytest.mark.parametrize("method", ["bellman_ford", "smoothing"])
def test_resuming_changes_nothing(method, data, tmp_path):
    settings = replace(SMALL, method=method, samples=6, noise=2.0)
    whole = train(settings, data)
    file = tmp_path / "checkpoint.pt"
    result, steps = resumed(partial(train, settings, data), file, at=3)
    assert steps == [4, 5]
    assert result.history == whole.history
    assert result.test == whole.test
    for name, value in result.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name])
    with pytest.raises(ValueError, match=r"with batch = 2, now it is 3; resume with the same"):
        train(replace(settings, batch=3), data, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="with data = "):
        train(settings, data._replace(train=data.test), checkpoint=file, resume=True)


@for_each(
    "changes, error, words",
    [
        ({"method": "dijkstra"}, ValueError, "method"),
        ({"loss": "l3"}, ValueError, "loss"),
        ({"precision": "float16"}, ValueError, "precision"),
        ({"batch": 1}, ValueError, "batch must be >= 2"),
        ({"samples": 2.0}, TypeError, "samples must be an int"),
        ({"noise": 0.0}, ValueError, "noise must be > 0"),
        ({"dist": "gumbel_max"}, ValueError, "symmetric"),
    ],
)
def test_bad_settings(changes, error, words):
    with pytest.raises(error, match=words):
        replace(SMALL, **changes)


def test_the_table_has_means_and_spreads():
    def run(method, seed, optimal, samples=10):
        return {
            "settings": asdict(PathSettings(method=method, seed=seed, samples=samples)),
            "step": 7, "seconds": 90.0,
            "test": {"optimal": optimal, "exact": 0.25, "paths": 1.0,
                     "cost_ratio": 1.5 if optimal else None},
        }  # fmt: skip

    lines = table([
        run("resnet", 0, 0.0), run("smoothing", 0, 0.5, 30), run("smoothing", 0, 0.5, 3),
        run("bellman_ford", 0, 0.9), run("bellman_ford", 1, 0.8),
    ])  # fmt: skip
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert [row[0] for row in rows] == [METHODS[name].label for name in
        ("bellman_ford", "smoothing", "smoothing", "resnet")]  # fmt: skip
    assert rows[0][1:] == ["", "2", "7", "1.5", "85.0 ± 7.1", "25.0 ± 0.0", "1.500 ± 0.000", "95.9"]
    assert [row[1] for row in rows[1:3]] == ["3", "30"]
    assert rows[2][5:] == ["50.0", "25.0", "1.500", "87.26"]
    assert rows[3][-2:] == ["none", "40.2"]
    assert {name for name, _ in PUBLISHED} <= METHODS.keys()


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    module = imported(monkeypatch, "shortest_path")
    return lambda *options: module.main(
        ["--smoke", "--size", "4", "--training-maps", "8", "-o", str(tmp_path / "out"), *options]
    )


def test_script_runs_every_method(script, tmp_path, capsys):
    assert script("--steps", "1", "--batch", "2", "--samples", "2", "3") == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["trainings"]
    wanted = [f"{name}{samples}-seed0" for name, method in METHODS.items()
              for samples in (("-2", "-3") if method.is_sampled else ("",))]  # fmt: skip
    assert [*found] == wanted
    lines = capsys.readouterr().out.splitlines()
    assert "\n".join(lines).startswith((tmp_path / "out" / "table.md").read_text())
    assert len([line for line in lines if line.startswith("| ")]) == len(wanted) + 2
    for one in found.values():
        assert 0 <= one["test"]["exact"] <= one["test"]["optimal"] <= one["test"]["paths"] <= 1
        assert torch.tensor(one["example"]["outputs"]).shape == (2, 4, 4)
        assert torch.tensor(one["example"]["paths"]).shape == (2, 4, 4)
    assert (tmp_path / "out" / "picture.png").stat().st_size > 10_000


def test_script_goes_on_after_a_signal(script, tmp_path, capsys):
    methods = ("--methods", "bellman_ford", "fenchel_young", "--samples", "2")
    assert script(*methods, "-o", str(tmp_path / "whole")) == 0
    with signalled(PathTraining, lambda t: t.step == 3 and t.settings.method == "fenchel_young"):
        assert script(*methods) == 130
    assert "--resume goes on" in capsys.readouterr().err
    with advanced(PathTraining) as steps:
        assert script(*methods, "--resume") == 0
    assert steps == [3]  # the first method is not trained again, the second goes on
    whole, rest = (
        json.loads((tmp_path / name / "results.json").read_text())["trainings"]
        for name in ("whole", "out")
    )
    for name, one in rest.items():
        for key in ("history", "test", "example", "settings"):
            assert one[key] == whole[name][key]


def test_script_reads_the_published_files(script, tmp_path):
    folder = tmp_path / "warcraft"
    (folder / "4x4").mkdir(parents=True)
    splits = TerrainSplits(*(generate_terrain(4, 4, seed) for seed in (7, 8, 9)))
    for name, maps in zip(("train", "val", "test"), splits, strict=True):
        for what, values in (("maps", maps.images.movedim(1, -1)), ("shortest_paths", maps.paths),
                             ("vertex_weights", maps.costs)):  # fmt: skip
            np.save(folder / "4x4" / f"{name}_{what}.npy", values.numpy())
    assert script("--data", str(folder), "--methods", "bellman_ford", "--steps", "1") == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["trainings"]
    paths = torch.tensor(found["bellman_ford-seed0"]["example"]["paths"])
    costs = torch.tensor(found["bellman_ford-seed0"]["example"]["outputs"])
    # They are the cheapest for the costs that the network predicts.
    best = path_cost(torch.from_numpy(cheapest_paths(costs.clamp(min=1e-4))), costs)
    torch.testing.assert_close(path_cost(paths, costs), best, rtol=0.01, atol=0.01)


@for_each(
    "options, words",
    [
        (["--data", "nowhere"], r"there is no train_maps\.npy .* with --data"),
        (["--methods", "dijkstra"], "dijkstra"),
        (["--methods", "resnet", "resnet"], "named twice"),
        (["--samples", "3", "3"], "named twice"),
        (["--samples", "1"], "must be a whole number >= 2"),
        (["--steepness", "-1"], "steepness must be > 0"),
        (["--dist", "levy"], "symmetric"),
        (["--device", "abacus"], "no device 'abacus' here"),
    ],
)
def test_script_says_what_is_wrong(script, tmp_path, capsys, options, words):
    assert script(*options) == 2
    assert re.search(words, refusal(capsys, "shortest_path"))
    assert not (tmp_path / "out").exists()
