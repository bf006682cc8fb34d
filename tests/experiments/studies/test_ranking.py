"""Learning from order: the published settings, the network, the training, its script."""

import itertools
import json
import math
import re
import signal
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch.nn import functional

from gendr._runtime import training as engine
from gendr.data import HouseNumbers, MultiDigits, Splits, mnist
from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.losses import (
    hard_ranks,
    permutation_matrix,
    ranking_cross_entropy,
)
from gendr.sorting.networks import network
from lab.studies import ranking
from lab.studies.ranking import (
    Metrics,
    RankingNet,
    RankingSettings,
    RankingTraining,
    evaluate,
    published_steepness,
    train,
)
from support.cases import for_each
from support.scripts import imported, refusal, signalled
from support.trainings import resumed


@dataclass(frozen=True)
class Plain(PermutationSort):
    """SoftSort, in two lines."""

    name: ClassVar[str] = "plain"

    def permutation(self, x):
        ascending = x.sort(-1).values
        return (-self.steepness * (ascending[..., :, None] - x[..., None, :]).abs()).softmax(-1)


@dataclass(frozen=True)
class PlainRanks(Sort):
    """Ranks without a permutation matrix."""

    name: ClassVar[str] = "plain ranks"

    def values(self, x):
        raise NotImplementedError

    def ranks(self, x):
        above = (self.steepness * (x[..., :, None] - x[..., None, :])).sigmoid()
        return above.sum(-1) + 0.5


def bright(count=40, side=4, seed=0):
    """Digits that can be told apart by their brightness."""
    labels = torch.arange(count).byte() % 10
    noise = torch.randint(0, 9, (count, side, side), generator=torch.Generator().manual_seed(seed))
    return MultiDigits((labels[:, None, None] * 27 + noise).byte(), labels, digits=1)


@pytest.fixture(scope="module")
def data():
    return Splits(bright(), bright(seed=1), bright(20, seed=2))


SMALL = RankingSettings(
    n=3, steps=12, batch=4, evaluate_every=5, lists=20, test_lists=30, learning_rate=0.01
)


def rows_of(result):
    return [tuple(sorted(row.items())) for row in result.history]


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# -- the published settings ---------------------------------------------------------------------


def test_defaults_are_published():
    s = RankingSettings()
    assert (s.batch, s.steps, s.learning_rate) == (100, 200_000, pytest.approx(10**-3.5))


@pytest.mark.parametrize("n", [3, 5, 16, 32])
def test_layers_of_networks_and_art_of_laws_that_the_table_lacks(n):
    assert network("odd_even", n).depth == n
    assert published_steepness("odd_even", n, "cauchy", art=True) == 2 * n
    doubled = math.ceil(math.log2(n))
    depth = doubled * (1 + doubled) // 2
    if n in (16, 32):
        assert network("bitonic", n).depth == depth
        assert published_steepness("bitonic", n, "gaussian", art=True) == 2 * depth


def test_steepness_of_art_is_in_the_table():
    row = [published_steepness("odd_even", n, "logistic", art=True) for n in (3, 5, 7, 9, 15, 32)]
    assert row == [15, 20, 13, 34, 16, 29]
    assert [published_steepness("bitonic", n, "logistic", art=True) for n in (16, 32)] == [28, 26]
    assert published_steepness("odd_even", 8, "logistic", art=True) in (13, 34)  # of a like depth
    assert RankingSettings(n=5, dist="logistic", art=0.25).sorter().steepness == 20


def test_steepness_of_the_table():
    assert published_steepness("odd_even", 9, "optimal") == 32
    assert published_steepness("bitonic", 32, "logistic") == 8
    assert published_steepness("odd_even", 15, "cauchy") == pytest.approx(40 * math.pi, abs=0.1)
    # The thesis' reciprocal sigmoid at beta, against ours.
    from gendr.distributions import get

    x, beta = torch.linspace(-2, 2, 9, dtype=torch.float64), 124.0
    thesis = beta * x / (1 + 2 * beta * x.abs()) + 0.5
    ours = get("reciprocal")(x, 1 / published_steepness("bitonic", 16, "reciprocal"))
    torch.testing.assert_close(ours, thesis)


def test_steepness_of_what_the_table_lacks_is_that_of_a_like_depth():
    assert network("bitonic", 32).depth == 15
    assert published_steepness("odd_even", 16, "optimal") == 25  # odd_even(15), not bitonic(32)
    assert published_steepness("odd_even", 15, "cauchy") == 125.7
    assert published_steepness("odd_even_merge", 32, "cauchy") in (125.7, 152.4)
    assert published_steepness("odd_even", 99, "optimal") == 124
    assert published_steepness("odd_even", 2, "optimal") == 6


@for_each(
    "changes, error, words",
    [
        ({"n": 1}, ValueError, "n must be >= 2"),
        ({"steps": 0}, ValueError, "steps must be >= 1"),
        ({"batch": 2.0}, TypeError, "batch must be an int"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be > 0"),
        ({"n": 2, "lists": 2}, ValueError, "must hold 5 numbers"),
        ({"method": "softsort", "art": 0.25}, ValueError, "for sorting networks .* with softsort"),
        ({"method": "softsort", "dist": "cauchy"}, ValueError, "for sorting networks"),
    ],
)
def test_bad_settings(changes, error, words):
    with pytest.raises(error, match=words):
        RankingSettings(**changes)


def test_steepness_of_other_laws_must_be_given():
    with pytest.raises(ValueError, match="no published steepness for gaussian"):
        published_steepness("odd_even", 5, "gaussian")


def test_sorters_of_the_settings():
    sorter = RankingSettings(n=9, dist="optimal").sorter()
    assert (sorter.name, sorter.steepness, str(sorter.law)) == ("odd_even", 32, "optimal")
    sorter = RankingSettings(n=16, method="bitonic", dist="logistic", art=0.25).sorter()
    assert (sorter.name, sorter.steepness, str(sorter.law)) == ("bitonic", 28, "logistic.art(0.25)")
    assert RankingSettings(steepness=3.0).sorter().steepness == 3.0
    soft = RankingSettings(method="softsort").sorter()
    assert soft.steepness == type(soft)().steepness
    assert RankingSettings(method="softsort", steepness=3.0).sorter().steepness == 3.0
    with pytest.raises(ValueError, match="softsurt"):
        RankingSettings(method="softsurt").sorter()


# -- the network --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels"), [((1, 28, 112), (32, 64)), ((3, 54, 54), (32, 64, 128, 256))]
)
def test_network_is_the_published_one(shape, channels):
    net = RankingNet(shape, channels)
    convolutions, before = 0, shape[0]
    height, width = shape[1:]
    for after in channels:
        convolutions += (25 * before + 1) * after
        before, height, width = after, height // 2, width // 2
    size = 64 * before * height * width + 64 + 65
    assert sum(p.numel() for p in net.parameters()) == convolutions + size
    images = torch.rand(2, 2, *shape)
    x = images.flatten(0, 1)
    for convolution in net.convolutions:
        x = functional.conv2d(x, convolution.weight, convolution.bias, padding=2)
        x = functional.max_pool2d(functional.relu(x), 2)
    x = functional.relu(functional.linear(x.flatten(1), net.hidden.weight, net.hidden.bias))
    want = functional.linear(x, net.score.weight, net.score.bias).reshape(2, 2)
    torch.testing.assert_close(net(images), want)
    parameters = list(net.parameters())
    for a, b in zip(
        torch.autograd.grad(net(images).square().sum(), parameters),
        torch.autograd.grad(want.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_network_refuses_small_images():
    with pytest.raises(ValueError, match="at least 4 pixels a side, got 3 x 9"):
        RankingNet((1, 3, 9))


# -- the metrics --------------------------------------------------------------------------------


class Oracle(torch.nn.Module):
    """Scores from the brightness; noise makes some of them wrong."""

    def __init__(self, noise=0.0, sign=1.0):
        super().__init__()
        self.noise, self.sign = noise, sign

    def forward(self, images):
        score = (images.mean((-3, -2, -1)) * 255 / 27).floor()
        return self.sign * score + self.noise * torch.randn_like(score)


def test_metrics(data):
    assert evaluate(Oracle(), data.test, 4, 50, seed=0) == Metrics(1, 1, 1)
    wrong = evaluate(Oracle(sign=-1), data.test, 4, 300, seed=0)
    assert wrong.em < 0.05
    assert wrong.em5 < 0.05
    some = evaluate(Oracle(noise=0.7), data.test, 7, 300, seed=0)
    assert 0.02 < some.em < some.em5 < some.ew < 0.98
    # EM5 is EM at n = 5, whatever n is.
    five = evaluate(Oracle(noise=0.7), data.test, 5, 3000, seed=0)
    assert five.em == pytest.approx(five.em5, abs=0.05)
    for n in (2, 7, 11):
        other = evaluate(Oracle(noise=0.7), data.test, n, 15000 // n, seed=0)
        assert other.em5 == pytest.approx(five.em, abs=0.05)
    assert str(Metrics(0.5, 0.987, 1)) == "50.0 | 98.7 | 100.0"


def test_equal_seeds_evaluate_on_equal_lists(data, monkeypatch):
    net = RankingNet(data.test.shape)
    found = evaluate(net, data.test, 3, 70, seed=5)
    assert evaluate(net, data.test, 3, 70, seed=5) == found
    assert evaluate(net, data.test, 3, 70, seed=6) != found


# -- the training -------------------------------------------------------------------------------


@pytest.mark.parametrize("sorter", [Plain(2.0), PlainRanks(2.0)], ids=["matrix", "ranks"])
def test_a_network_learns_from_order(data, sorter):
    result = train(SMALL, data, sorter=sorter, steps=60, batch=16, evaluate_every=60)
    losses = [row["loss"] for row in result.history]
    assert losses[-1] < 0.5 * losses[0]
    start = evaluate(RankingTraining(SMALL, data, sorter=sorter).model, data.test, 3, 300, seed=0)
    assert start.em5 < 0.3
    assert result.test.em5 > 0.6
    assert result.test.ew >= result.test.em
    assert (result.step, result.best_step) == (60, 60)
    assert evaluate(result.model, data.test, 3, 30, ranking.TEST_SEED) == result.test


@pytest.mark.parametrize("binary", [False, True])
def test_loss_of_a_matrix(data, binary):
    sorter = Plain(2.0)
    settings = RankingSettings(n=3, batch=4, binary=binary, seed=3)
    training = RankingTraining(settings, data, sorter=sorter)
    images, values = data.train.draw(4, 3, torch.Generator().manual_seed(3))
    p, q = sorter.permutation(training.model(images)), permutation_matrix(values)
    assert training.loss().item() == ranking_cross_entropy(p, q, binary=binary).item()


def test_loss_of_ranks(data):
    sorter = PlainRanks(2.0)
    training = RankingTraining(RankingSettings(n=3, batch=4, seed=3), data, sorter=sorter)
    images, values = data.train.draw(4, 3, torch.Generator().manual_seed(3))
    error = sorter.ranks(training.model(images)) - hard_ranks(values)
    assert training.loss().item() == pytest.approx(error.square().mean().item(), rel=1e-6)


def test_history(data):
    result = train(SMALL, data, sorter=Plain(), steps=29, evaluate_every=25)
    assert [row["step"] for row in result.history] == [*range(2, 26, 2), 25, 26, 28, 29]
    assert [row["step"] for row in result.history if "em5" in row] == [25, 29]
    # The loss of a row is the mean since the last one.
    training = RankingTraining(SMALL, data, sorter=Plain())
    losses = []
    for _ in range(4):
        state = training.generator.get_state()
        losses.append(training.loss().item())
        training.generator.set_state(state)
        training.advance()
    assert [row["loss"] for row in training.history] == pytest.approx(losses)
    plain = result.describe()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["settings"]["n"] == 3
    assert plain["sorter"] == repr(Plain())


def test_the_best_weights_are_tested(data, monkeypatch):
    scores = iter([0.2, 0.6, 0.4, 0.3])
    seen = []

    def fake(model, numbers, n, lists, seed):
        seen.append((seed, weights_of(model)))
        return Metrics(0, 0, next(scores, 0.9))

    monkeypatch.setattr(ranking, "evaluate", fake)
    result = train(SMALL, data, sorter=Plain(), steps=20)  # at 5, 10, 15, 20
    assert result.best_step == 10
    assert [seed for seed, _ in seen] == [1, 1, 1, 1, 2]
    assert torch.equal(seen[-1][1], seen[1][1])
    assert torch.equal(weights_of(result.model), seen[1][1])
    assert not torch.equal(seen[-1][1], seen[3][1])


def test_a_result_leaves_the_training_as_it_is(data, monkeypatch):
    scores = iter([0.5, 0.4])
    monkeypatch.setattr(ranking, "evaluate", lambda *_: Metrics(0, 0, next(scores, 0.3)))
    training = RankingTraining(SMALL, data, sorter=Plain())
    while training.step < 12:  # the best at 5
        training.advance()
    history, weights = [dict(row) for row in training.history], weights_of(training.model).clone()
    result = training.result()
    assert result.best_step == 5
    assert not torch.equal(weights_of(result.model), weights)
    assert torch.equal(weights_of(training.model), weights)
    assert training.history == history
    assert len(result.history) == len(history) == 12


def test_random_numbers_of_others_are_left_alone(data):
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    first = train(SMALL, data, sorter=Plain())
    assert torch.equal(torch.rand(3), want)
    assert rows_of(train(SMALL, data, sorter=Plain())) == rows_of(first)
    assert rows_of(train(SMALL, data, sorter=Plain(), seed=1)) != rows_of(first)


@pytest.fixture
def a_second_per_step(monkeypatch):
    clock = SimpleNamespace(monotonic=itertools.count().__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr(engine, "time", clock)


def test_time_can_run_out(data, a_second_per_step):
    result = train(SMALL, data, sorter=Plain(), seconds=6.5)
    assert result.step == 7
    assert result.history[-1]["step"] == 7
    assert "em5" in result.history[-1]
    assert 0 < result.seconds < 60


def test_checkpoints_are_written_now_and_then(data, a_second_per_step, tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(RankingTraining, "save", lambda training, _: steps.append(training.step))
    train(SMALL, data, sorter=Plain(), checkpoint=tmp_path / "checkpoint.pt", save_every=5)
    assert steps == [5, 10, 12]


def test_a_loss_that_is_not_finite(data):
    with pytest.raises(ValueError, match=r"the loss is .* after \d+ steps; try a smaller"):
        train(SMALL, data, sorter=PlainRanks(), learning_rate=1e30)


# -- interruptions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "every"), [(1, 5), (5, 5), (7, 30), (12, 5)])
def test_resuming_changes_nothing(data, tmp_path, at, every):
    settings = replace(SMALL, evaluate_every=every)  # 30: a row every third step
    whole = train(settings, data, sorter=Plain())
    file = tmp_path / "checkpoint.pt"

    def run(*, resume=False, **options):
        if resume:
            torch.rand(7)  # as if others had drawn meanwhile
        return train(settings, data, sorter=Plain(), resume=resume, **options)

    result, steps = resumed(run, file, at)
    assert steps == list(range(at + 1, 13))
    assert rows_of(result) == rows_of(whole)
    assert torch.equal(weights_of(result.model), weights_of(whole.model))
    assert (result.test, result.best_step) == (whole.test, whole.best_step)


@dataclass(frozen=True)
class Noisy(Plain):
    """Draws from the global generator."""

    def permutation(self, x):
        return super().permutation(x + 0.1 * torch.randn_like(x))


def test_a_method_that_draws_goes_on_too(data, tmp_path):
    file = tmp_path / "checkpoint.pt"
    torch.manual_seed(3)
    whole = train(SMALL, data, sorter=Noisy())
    torch.manual_seed(3)
    train(SMALL, data, sorter=Noisy(), steps=7, checkpoint=file)
    torch.manual_seed(4)
    rest = train(SMALL, data, sorter=Noisy(), checkpoint=file, resume=True)
    assert rows_of(rest) == rows_of(whole) != rows_of(train(SMALL, data, sorter=Noisy()))


def test_running_out_of_time_changes_nothing(data, tmp_path):
    file = tmp_path / "checkpoint.pt"
    part = train(SMALL, data, sorter=Plain(), checkpoint=file, seconds=1e-9)
    assert part.step == 1
    rest = train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True)
    whole = train(SMALL, data, sorter=Plain())
    assert rows_of(rest) == rows_of(whole)
    more = train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True, steps=14)
    assert rows_of(more) == rows_of(train(SMALL, data, sorter=Plain(), steps=14))
    assert part.seconds < rest.seconds < more.seconds


def test_a_kill_costs_no_more_than_the_interval(data, tmp_path):
    file, then = tmp_path / "checkpoint.pt", tmp_path / "at step 9.pt"

    def keep(training):
        if training.step == 9:
            then.write_bytes(file.read_bytes())

    whole = train(SMALL, data, sorter=Plain(), checkpoint=file, save_every=0, callback=keep)
    training = RankingTraining(SMALL, data, sorter=Plain())
    training.restore(then)
    assert training.step == 8
    result = train(SMALL, data, sorter=Plain(), checkpoint=then, resume=True)
    assert rows_of(result) == rows_of(whole)
    assert torch.equal(weights_of(result.model), weights_of(whole.model))


def test_a_failed_write_leaves_the_last_checkpoint(data, tmp_path, monkeypatch):
    file = tmp_path / "checkpoint.pt"
    train(SMALL, data, sorter=Plain(), checkpoint=file, seconds=1e-9)
    before = file.read_bytes()

    def fail(values, target):
        target.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="no space"):
        train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True)
    assert file.read_bytes() == before


def test_checkpoints_that_do_not_fit(data, tmp_path):
    file = tmp_path / "checkpoint.pt"
    with pytest.raises(ValueError, match="no checkpoint to resume from at"):
        train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="resume needs a checkpoint"):
        train(SMALL, data, sorter=Plain(), resume=True)
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no checkpoint of a ranking training"):
        train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True)
    torch.save({"format": "another"}, file)
    with pytest.raises(ValueError, match="is no checkpoint of a ranking training"):
        train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True)
    train(SMALL, data, sorter=Plain(), checkpoint=file, seconds=1e-9)
    with pytest.raises(ValueError, match=r"with batch = 4, now it is 5; resume with the same"):
        train(SMALL, data, sorter=Plain(), checkpoint=file, resume=True, batch=5)
    other = data._replace(train=bright(seed=9))
    with pytest.raises(ValueError, match="of a training with data = "):
        train(SMALL, other, sorter=Plain(), checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="unknown setting of a ranking training 'stepz'"):
        train(SMALL, data, sorter=Plain(), stepz=3)


def test_house_numbers_are_ranked_too():
    images = torch.randint(0, 256, (6, 3, 20, 20)).byte()
    numbers = HouseNumbers(images, torch.arange(6), window=16)
    result = train(SMALL, Splits(numbers, numbers, numbers), sorter=Plain(), steps=2, test_lists=3)
    assert len(result.model.convolutions) == 4
    assert result.step == 2


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small data set in the files of MNIST, not compressed."""
    monkeypatch.setattr(mnist, "VALIDATION", 10)
    folder = tmp_path / "data"
    folder.mkdir()
    for part, some in (("train", bright(30)), ("t10k", bright(10, seed=2))):
        for kind, tensor in (("images-idx3", some.images), ("labels-idx1", some.labels)):
            header = b"\0\0\x08" + bytes([tensor.ndim])
            header += b"".join(n.to_bytes(4, "big") for n in tensor.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + tensor.numpy().tobytes())
    return folder


@pytest.fixture
def script(monkeypatch, tmp_path, folder):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    module = imported(monkeypatch, "sorting_mnist")
    common = ["--data", str(folder), "-o", str(tmp_path / "out"), "--batch", "2", "-n", "3"]
    common += ["--lists", "10", "--test-lists", "10", "--evaluate-every", "2"]
    return lambda *options: module.main([*common, *options])


def results(tmp_path):
    return json.loads((tmp_path / "out" / "results.json").read_text())


@pytest.mark.parametrize("method", ["odd_even", "bitonic", "neuralsort", "softsort", "sinkhorn",
                                    "permutahedron"])  # fmt: skip
def test_script(script, tmp_path, capsys, method):
    assert script("--method", method, "--steps", "4", "--threads", "1") == 0
    found = results(tmp_path)
    assert found["finished"]
    assert found["step"] == 4
    assert found["settings"]["method"] == method
    assert [row["step"] for row in found["history"]] == [1, 2, 3, 4]
    out = capsys.readouterr().out
    assert str(Metrics(**found["test"])) in out.splitlines()[1]
    assert found["sorter"] in out


def test_script_goes_on_after_a_signal(script, tmp_path, capsys):
    assert script("--steps", "6") == 0
    whole = results(tmp_path)
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    with signalled(RankingTraining, lambda training: training.step == 3):
        assert script("--steps", "6") == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert script("--steps", "6") == 2  # an accident must not cost a training
    assert "has a training already" in capsys.readouterr().err
    assert script("--steps", "6", "--resume") == 0
    rest = results(tmp_path)
    for name in ("history", "test", "best_step", "step"):
        assert rest[name] == whole[name]


def test_script_stops_in_time(script, tmp_path):
    assert script("--smoke", "--minutes", "0.002") == 0
    found = results(tmp_path)
    assert not found["finished"]
    assert found["settings"]["batch"] == 2  # what is given outweighs --smoke
    assert found["settings"]["steps"] == 200_000


def test_script_writes_for_tensorboard(script, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert script("--steps", "4", "--tensorboard") == 0
    assert script("--steps", "6", "--tensorboard", "--resume") == 0
    events = EventAccumulator(str(tmp_path / "out" / "tensorboard")).Reload()
    for name, steps in (("loss", range(1, 7)), ("em5", (2, 4, 6))):
        values = {event.step: event.value for event in events.Scalars(name)}
        rows = {row["step"]: row[name] for row in results(tmp_path)["history"] if name in row}
        assert sorted(values) == list(steps)
        assert values == pytest.approx(rows)


@for_each(
    "options, words",
    [
        (["--data", "nowhere"], "no train-images-idx3-ubyte.gz .* add --download"),
        (["--method", "quicksort"], "quicksort"),
        (["--method", "softsort", "--art", "0.5"], "for sorting networks"),
        (["--dist", "gaussian"], "no published steepness for gaussian"),
        (["--device", "abacus"], "no device 'abacus' here"),
        (["--steps", "0"], "steps must be >= 1"),
        (["--minutes", "0"], "--minutes must be > 0"),
        (["--threads", "0"], "--threads must be >= 1"),
        (["--resume"], "no checkpoint to resume from"),
        (["--task", "svhn"], "no train.tar.gz"),
    ],
)
def test_script_says_what_is_wrong(script, tmp_path, capsys, options, words):
    assert script(*options) == 2
    assert re.search(words, refusal(capsys, "sorting_mnist"))
    assert not (tmp_path / "out" / "checkpoint.pt").exists()
