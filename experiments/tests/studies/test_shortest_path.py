"""Learning from shortest paths: the scores, the losses, the training, its table."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from lab.data.warcraft import TerrainMaps, cheapest_paths, generate_terrain
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
)
from support.cases import for_each

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


def test_the_learning_rate_falls_twice(data):
    training = PathTraining(replace(SMALL, steps=10, learning_rate=0.5), data)
    rates = []
    for _ in range(10):
        training.advance()
        rates.append(training.adam.param_groups[0]["lr"])
    assert rates == pytest.approx([0.5] * 6 + [0.05] * 2 + [0.005] * 2)


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
