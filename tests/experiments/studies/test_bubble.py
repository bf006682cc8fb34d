"""Rankings by relaxed bubble sort: the losses, the training, and the script of the comparison."""

import itertools
import json
import re
import signal
import sys
from dataclasses import asdict

import pytest
import torch

from gendr.data import MultiDigits, Splits
from lab.studies.bubble import BUBBLES, BubbleOrder
from lab.studies.ranking import RankingSettings, RankingTraining, train
from support.cases import for_each
from support.scripts import advanced, imported, refusal, signalled


def bright(seed, count=40):
    """Digits of 4 x 4 that can be told apart by their brightness."""
    labels = torch.arange(count).byte() % 10
    noise = torch.randint(0, 9, (count, 4, 4), generator=torch.Generator().manual_seed(seed))
    return MultiDigits((labels[:, None, None] * 27 + noise).byte(), labels, digits=1)


@pytest.fixture(scope="module")
def data():
    return Splits(bright(0), bright(1), bright(2))


# -- the losses ---------------------------------------------------------------------------------


def test_hard_losses_count_wrong_pairs():
    """At a high steepness they count inversions, or say whether there are any; for all orders."""
    orders = torch.tensor([*itertools.permutations(range(4))])
    values = torch.arange(4).expand_as(orders)
    for order, truth in zip(orders, values, strict=True):
        wrong = sum(int(order[i] > order[j]) for i in range(4) for j in range(i + 1, 4))
        for name, want in (("bubble_swaps", wrong), ("bubble_sort", wrong > 0)):
            loss = BubbleOrder(name, steepness=1000.0).loss(order.double(), truth)
            assert loss.item() == pytest.approx(float(want), abs=1e-9)


def test_losses_do_not_depend_on_the_order_of_the_list():
    scores = torch.tensor([[0.3, -0.2, 0.1], [1.0, 0.0, 0.5]], dtype=torch.float64)
    values = torch.tensor([[7, 2, 5], [1, 2, 3]])
    for name in BUBBLES:
        method = BubbleOrder(name)
        want = method.loss(scores, values)
        for order in itertools.permutations(range(3)):
            torch.testing.assert_close(method.loss(scores[:, order], values[:, order]), want)


def test_loss_of_two_is_the_probability_of_the_wrong_order():
    scores = torch.tensor([0.1, 0.3], dtype=torch.float64, requires_grad=True)
    for name in BUBBLES:
        loss = BubbleOrder(name, steepness=8.0).loss(scores, torch.tensor([2, 1]))
        assert loss.item() == pytest.approx(torch.sigmoid(torch.tensor(1.6)).item(), rel=1e-6)
        (slope,) = torch.autograd.grad(loss, scores)
        assert slope[0] < 0 < slope[1]  # the first should have the larger score


def test_methods_of_the_settings():
    assert RankingSettings(method="bubble_sort").sorter() == BubbleOrder("bubble_sort")
    assert (BubbleOrder().dist, BubbleOrder().steepness) == ("logistic", 8.0)  # published
    settings = RankingSettings(method="bubble_swaps", dist="cauchy", steepness=3.0)
    assert asdict(settings.sorter()) == {"name": "bubble_swaps", "dist": "cauchy", "steepness": 3}
    with pytest.raises(ValueError, match=r"art is for sorting networks .* got it with bubble_sort"):
        RankingSettings(method="bubble_sort", art=0.5)
    with pytest.raises(ValueError, match="symmetric"):
        RankingSettings(method="bubble_sort", dist="gumbel_max").sorter()
    with pytest.raises(ValueError, match="steepness must be > 0"):
        RankingSettings(method="bubble_sort", steepness=-1.0).sorter()


# -- the training -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", BUBBLES)
def test_a_network_learns_from_bubble_sort(data, method):
    settings = RankingSettings(
        n=3, method=method, steps=60, batch=16, evaluate_every=60, lists=50, test_lists=300,
        learning_rate=0.01,
    )  # fmt: skip
    result = train(settings, data)
    assert result.test.em5 > 0.6
    assert json.loads(json.dumps(result.describe()))["sorter"] == repr(BubbleOrder(method))


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch, tmp_path):
    module = imported(monkeypatch, "relaxed_sort")
    common = ["--smoke", "--steps", "3", "--batch", "2", "-o", str(tmp_path / "out")]
    return lambda *options: module.main([*common, *options])


def test_script(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    methods = ["bubble_sort", "odd_even/logistic@8", "softsort"]
    assert script("--methods", *methods, "-n", "2", "3", "--runs", "2") == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["trainings"]
    assert len(found) == 12
    assert found["odd_even-logistic-8-n3-seed1"]["settings"]["steepness"] == 8
    assert found["odd_even-logistic-8-n3-seed1"]["settings"]["dist"] == "logistic"
    runs = [found[f"bubble_sort-n2-seed{seed}"]["test"] for seed in (0, 1)]
    em, ew, em5 = ((runs[0][key] + runs[1][key]) / 2 for key in ("em", "ew", "em5"))
    printed = capsys.readouterr().out
    assert f"| bubble_sort | {em:.3f} ({ew:.3f}) [{em5:.3f}] |" in printed
    assert printed.startswith((tmp_path / "out" / "table.md").read_text())
    assert (tmp_path / "out" / "picture.png").stat().st_size > 10_000
    # The same lists for all methods.
    examples = [one["example"]["values"] for name, one in found.items() if "-n3-" in name]
    assert all(values == examples[0] for values in examples)


def test_script_goes_on_after_a_signal(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    methods = ["--methods", "bubble_sort", "odd_even"]
    assert script(*methods, "-o", str(tmp_path / "whole")) == 0

    def in_the_second(training):
        return training.step == 2 and training.settings.method == "odd_even"

    with signalled(RankingTraining, in_the_second, signal.SIGINT):
        assert script(*methods) == 130
    assert script(*methods) == 2
    assert "has trainings already" in capsys.readouterr().err
    with advanced(RankingTraining) as steps:
        assert script(*methods, "--resume") == 0
    assert steps == [2]
    whole, rest = (
        json.loads((tmp_path / name / "results.json").read_text())["trainings"]
        for name in ("whole", "out")
    )
    for name, one in rest.items():
        for key in ("history", "test", "example", "best_step"):
            assert one[key] == whole[name][key]


def test_script_writes_for_tensorboard(script, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert script("--methods", "bubble_sort") == 0
    folder = tmp_path / "out" / "bubble_sort-n3-seed0"
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    rows = json.loads((folder / "result.json").read_text())["result"]["history"]
    values = {event.step: event.value for event in events.Scalars("loss")}
    assert values == pytest.approx({row["step"]: row["loss"] for row in rows})


@for_each(
    "options, words",
    [
        (["--data", "nowhere"], "no train-images-idx3-ubyte.gz .* add --download"),
        (["--methods", "quicksort"], "quicksort"),
        (["--methods", "odd_even@steep"], "steepness of 'odd_even@steep' must be a number"),
        (["--methods", "odd_even/gaussian"], "no published steepness for gaussian"),
        (["--methods", "bubble_sort/gumbel_max"], "symmetric"),
        (["--methods", "odd_even", "odd_even"], "named twice"),
        (["-n", "1"], "must be a whole number >= 2"),
        (["--device", "abacus"], "no device 'abacus' here"),
    ],
)
def test_script_says_what_is_wrong(script, tmp_path, capsys, options, words):
    assert script(*options) == 2
    assert re.search(words, refusal(capsys, "relaxed_sort"))
    assert not (tmp_path / "out").exists()


def test_script_without_matplotlib(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert script("--methods", "bubble_sort") == 0
    assert "no picture, which needs Matplotlib" in capsys.readouterr().out
    assert not (tmp_path / "out" / "picture.png").exists()
    assert (tmp_path / "out" / "table.md").exists()
