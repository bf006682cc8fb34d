"""Classification by logic gate networks: populations, the training, its scripts."""

import json
import math
from dataclasses import replace

import pytest
import torch

from gendr.jobs.logic import Samples
from gendr.jobs.training import drive
from gendr.logic import Circuit
from lab.studies.logic_networks import (
    NetworkSettings,
    NetworkTraining,
    description_length,
    member,
    networks,
    train_logic,
)
from support.cases import for_each
from support.scripts import imported

SMALL = NetworkSettings(layers=2, width=12, tau=1.0, steps=60, batch=50, learning_rate=0.1,
                      evaluate_every=20)  # fmt: skip


def samples(seed=0, rows=200, classes=2):
    x = torch.randint(0, 2, (rows, 6), generator=torch.Generator().manual_seed(seed)).byte()
    return Samples(x, (x[:, 0] ^ x[:, 1]).long(), classes)


@pytest.fixture(scope="module")
def parts():
    return samples(0), samples(1)


def test_it_learns(parts):
    settings = replace(SMALL, population=6, steps=80)
    result = train_logic(settings, *parts, validation=parts[1])
    assert result.accuracy == 1
    assert isinstance(result.circuit, Circuit)
    assert torch.equal(result.circuit.predict(parts[1].x), parts[1].labels)
    assert result.whole.gates == 24
    assert result.stats.gates < 24
    rows = result.describe()
    assert json.loads(json.dumps(rows))["circuit"]["gates"] == result.stats.gates
    assert [row["step"] for row in rows["history"] if "accuracy" in row] == [20, 40, 60, 80]


def test_members_of_a_population_do_not_mix(parts):
    """Each takes the steps that it would take alone."""
    settings = replace(SMALL, population=3, steps=5, thresholds=(0.5,))
    training = NetworkTraining(settings, parts[0], None, parts[1])
    alone = NetworkTraining(replace(settings, population=1), parts[0], None, parts[1])
    alone.model = member(training.model, settings, 1)
    alone.adam = torch.optim.AdamW(alone.model.parameters(), 0.1, weight_decay=0.0)
    drive(training)
    drive(alone)
    for each, own in ((alone, alone.model), (training, member(training.model, settings, 1))):
        x = parts[1].x.float()
        assert each.step == 5
        torch.testing.assert_close(own(x), alone.model(x))
    hits = training.all_hits(parts[1])
    assert hits.shape == (200, 3)
    assert torch.equal(hits[:, 1], alone.all_hits(parts[1])[:, 0])


def test_the_member_with_the_shortest_description_is_kept(parts):
    settings = replace(SMALL, population=8, steps=40)
    training = NetworkTraining(settings, parts[0], None, parts[1])
    drive(training)
    right = training.all_hits(parts[0]).sum(0)
    assert len(set(right.tolist())) > 1
    assert int(right[training.best()]) == int(right.max())  # errors are dear with these rows


def test_description_length():
    assert description_length(100, 0, 7) == 7
    assert description_length(100, 50, 0) == pytest.approx(100 * math.log(2))
    assert description_length(100, 3, 5) < description_length(100, 3, 6)
    assert description_length(100, 3, 5) < description_length(100, 4, 5)
    # To be wrong everywhere is no way to say the classes.
    assert description_length(100, 100, 0) == description_length(100, 50, 0)


def test_the_learning_rate_falls_at_the_end(parts):
    training = NetworkTraining(replace(SMALL, steps=10, decay=0.4), parts[0], None, parts[1])
    rates = []
    drive(training, callback=lambda t: rates.append(t.adam.param_groups[0]["lr"]))
    assert rates == pytest.approx([0.1] * 7 + [0.075, 0.05, 0.025])


@for_each(
    "make, match",
    [
        (lambda: replace(SMALL, steps=0), "steps must be >= 1"),
        (lambda: replace(SMALL, tau=0.0), "tau must be > 0"),
        (lambda: replace(SMALL, decay=1.5), r"decay must be in \[0, 1\]"),
        (lambda: replace(SMALL, weight_decay=-1.0), "weight_decay must be >= 0"),
        (lambda: replace(SMALL, init="other"), "unknown init"),
        (lambda: networks(SMALL, 6, 5), "width must be a multiple of the 5 classes"),
        (lambda: NetworkTraining(SMALL, samples(), None, samples(classes=3)), "6 features and 2"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.every
def test_baselines_beside_circuits(monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    script = imported(monkeypatch, "logic_tables")
    words = ["--smoke", "--tables", "monk-1", "adult", "--only-baselines", "-o", str(tmp_path)]
    assert script.main([*words, "--runs", "2"]) == 0
    found = json.loads((tmp_path / "baselines.json").read_text())
    assert [len(runs) for runs in found.values()] == [2, 2]
    tree, line, network = found["monk-1"][0].values()
    # The class is whether two bits of six differ: a tree finds that, a hyperplane cannot.
    assert tree["accuracy"] > 0.9 > line["accuracy"]
    assert line["parameters"] == 6 + 1
    assert network["parameters"] == (6 + 1) * 8 + (8 + 1) * 8 + (8 + 1)
    assert tree["row_seconds"] > 0
    assert "decision tree" in (tmp_path / "table.md").read_text()


@pytest.mark.every
def test_a_convolutional_network_by_name(tmp_path, capsys, monkeypatch):
    """Its circuit equals it on every test image, or `result` would have raised."""
    script = imported(monkeypatch, "logic_images")
    out = tmp_path / "out"
    more = ["--smoke", "--network", "conv-small", "-o", str(out)]
    assert script.main(more) == 0
    assert "mnist, conv-small" in capsys.readouterr().out
    (run,) = json.loads((out / "results.json").read_text())["trainings"].values()
    assert run["settings"]["kernels"] == 2
    # Trees at 24^2, 12^2 and 6^2 positions, pools of 3 gates, twice a constant 0.
    trees = [2 * 24**2, 6 * 12**2, 18 * 6**2]
    assert run["gates"] == 7 * sum(trees) + 3 * sum(trees) // 4 + 2 + 400 + 200
    assert script.main([*more, "--resume"]) == 0


def test_networks_of_trees():
    settings = replace(SMALL, kernels=2, layers=2, width=20, thresholds=(0.3, 0.6))
    model = networks(settings, 20 * 20, 10)
    assert [part.out_channels for part in model if hasattr(part, "out_channels")] == [2, 6, 18]
    assert model(torch.rand(3, 400)).shape == (3, 10)
    with pytest.raises(ValueError, match="square images of 12 x 12 pixels or more, got 399"):
        networks(settings, 399, 10)
    with pytest.raises(ValueError, match="a population is for networks without convolutions"):
        replace(settings, population=2)
