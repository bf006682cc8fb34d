"""Learning from edit distances: the scores, the losses, the training, its script."""

import itertools
import json
import re
from dataclasses import replace
from functools import partial

import pytest
import torch

from gendr.data import HouseNumbers, MultiDigits, Splits
from gendr.relaxed import levenshtein
from lab.studies.edit_distance import (
    EditSettings,
    EditTraining,
    Scores,
    classify,
    matched,
    scored,
    train,
    true_distances,
)
from support.cases import for_each
from support.scripts import advanced, imported, refusal, signalled
from support.trainings import resumed

SMALL = EditSettings(length=6, steps=5, batch=2, evaluate_every=2, images=10, learning_rate=0.01)


def shaded(seed, count=24):
    """Images of 8 x 8 whose left half is the brighter, the more the digit."""
    labels = torch.arange(count).byte() % 4
    noise = torch.randint(0, 30, (count, 8, 8), generator=torch.Generator().manual_seed(seed))
    noise[..., :4] += 70 * labels[:, None, None]
    return MultiDigits(noise.byte(), labels)


@pytest.fixture(scope="module")
def data():
    return Splits(shaded(0), shaded(1), shaded(2))


def rows_of(result):
    return [tuple(sorted(row.items())) for row in result.history]


# -- the scores ---------------------------------------------------------------------------------


def test_classes_are_matched_as_well_as_can_be():
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        confusion = torch.randint(0, 9, (4, 4), generator=generator)
        best = max(
            sum(int(confusion[symbol, k]) for k, symbol in enumerate(order))
            for order in itertools.permutations(range(4))
        )
        found = matched(confusion)
        assert sorted(found.tolist()) == [0, 1, 2, 3]
        assert int(confusion[found, torch.arange(4)].sum()) == best
        assert scored(confusion).accuracy == pytest.approx(best / int(confusion.sum()))


def test_scores_by_hand():
    # Class 0 stands for symbol 1: 8 of its 10 images, and 1 of the 5 of symbol 0.
    found = scored(torch.tensor([[1, 4], [8, 2]]))
    assert found.accuracy == pytest.approx(12 / 15)
    precisions, recalls = (4 / 6, 8 / 9), (4 / 5, 8 / 10)
    f1 = [2 * p * r / (p + r) for p, r in zip(precisions, recalls, strict=True)]
    assert found.f1 == pytest.approx(sum(f1) / 2)
    # All in one class: the other symbol has an F1 of 0.
    assert scored(torch.tensor([[6, 0], [6, 0]])) == pytest.approx((0.5, 1 / 3))
    assert str(Scores(0.5, 1 / 3)) == "0.500 | 0.333"


def test_confusion_counts_each_image_once(data):
    training = EditTraining(replace(SMALL, alphabet=(3, 0)), data)

    class Oracle(torch.nn.Module):
        """Class 0 for what is bright."""

        def forward(self, images):
            bright = images[..., :4].mean((-3, -2, -1)) > 0.5
            return torch.nn.functional.one_hot((~bright).long(), 2).float()

    assert classify(Oracle(), training.test).tolist() == [[6, 0], [0, 6]]
    assert classify(Oracle(), training.test, 4).tolist() == [[2, 0], [0, 2]]


# -- the losses ---------------------------------------------------------------------------------


def test_losses_compare_with_the_true_distance(data):
    for method in ("levenshtein", "l1"):
        training = EditTraining(replace(SMALL, method=method, seed=3), data)
        generator = torch.Generator().manual_seed(3)
        images, (s, t) = training.train.draw(2, 6, generator)
        p, q = training.model(images).softmax(-1)
        want = levenshtein(p, q, steepness=9.0) if method == "levenshtein" else 0
        if method == "l1":
            want = torch.stack([sum((a - b).abs().sum() for a, b in zip(p[k], q[k], strict=True))
                                for k in range(2)])  # fmt: skip
        error = want - true_distances(torch.stack([s, t]))
        assert training.loss().item() == pytest.approx(error.square().mean().item(), rel=1e-5)


def test_true_distances_of_known_words():
    words = [("kitten", "sittin"), ("abcdef", "bcdefa"), ("aaaaaa", "aaaaaa")]
    pairs = torch.tensor([[[ord(c) for c in word] for word in side] for side in zip(*words)])  # noqa: B905
    assert true_distances(pairs).tolist() == [2, 2, 0]


# -- the training -------------------------------------------------------------------------------


def test_a_network_learns_from_edit_distances(data):
    settings = replace(SMALL, alphabet=(0, 3), length=12, steps=60, batch=8, evaluate_every=60)
    result = train(settings, data)
    assert result.test.accuracy > 0.95
    assert result.test.f1 > 0.95
    losses = [row["loss"] for row in result.history]
    assert losses[-1] < 0.5 * losses[0]
    plain = result.describe()
    assert json.loads(json.dumps(plain)) == plain


def test_resuming_changes_nothing(data, tmp_path):
    whole = train(SMALL, data)
    file = tmp_path / "checkpoint.pt"
    result, steps = resumed(partial(train, SMALL, data), file, at=3)
    assert steps == [4, 5]
    assert rows_of(result) == rows_of(whole)
    assert result.confusion.tolist() == whole.confusion.tolist()
    with pytest.raises(ValueError, match=r"with batch = 2, now it is 3; resume with the same"):
        train(replace(SMALL, batch=3), data, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="with data = "):
        train(SMALL, data._replace(train=shaded(9)), checkpoint=file, resume=True)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"method": "hamming"}, ValueError, "method"),
        ({"length": 3}, ValueError, "length must be >= 4"),
        ({"batch": 2.0}, TypeError, "batch must be an int"),
        ({"steepness": 0.0}, ValueError, "steepness must be > 0"),
        ({"dist": "gumbel_max"}, ValueError, "symmetric"),
    ],
)
def test_bad_settings(changes, error, words):
    with pytest.raises(error, match=words):
        replace(SMALL, **changes)


def test_data_must_be_digits(data):
    other = HouseNumbers(torch.zeros(1, 3, 20, 20).byte(), torch.zeros(1).long(), window=16)
    with pytest.raises(TypeError, match="must be MultiDigits, got HouseNumbers"):
        EditTraining(SMALL, data._replace(test=other))
    with pytest.raises(ValueError, match="there is no image of 7"):
        EditTraining(replace(SMALL, alphabet=(0, 7)), data)


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.setattr("lab.trials.has_tensorboard", lambda: False)
    module = imported(monkeypatch, "levenshtein")
    return lambda *options: module.main(["--smoke", "-o", str(tmp_path / "out"), *options])


def test_script_goes_on_after_a_signal(script, tmp_path, capsys):
    assert script("-o", str(tmp_path / "whole")) == 0
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())["trainings"]
    assert [*whole] == ["levenshtein-01-seed0", "l1-01-seed0"]
    assert (tmp_path / "whole" / "picture.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    for one in whole.values():
        assert f"| {one['test']['accuracy']:.3f} |" in printed
        assert one["settings"]["length"] == 8
    with signalled(EditTraining, lambda t: t.step == 3 and t.settings.method == "l1"):
        assert script() == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert script() == 2  # an accident must not cost a training
    assert "has trainings already" in capsys.readouterr().err
    with advanced(EditTraining) as steps:
        assert script("--resume") == 0
    assert steps == [3]  # the first method is not trained again, the second goes on
    rest = json.loads((tmp_path / "out" / "results.json").read_text())["trainings"]
    for name, one in rest.items():
        for key in ("history", "confusion", "example", "settings"):
            assert one[key] == whole[name][key]
    assert script("--resume", "--steps", "2") == 2
    assert "has 4 steps, more than the 2 asked for" in capsys.readouterr().err


@for_each(
    "options, words",
    [
        (["--data", "nowhere"], "no train-images-idx3-ubyte.gz .* add --download"),
        (["--alphabets", "0"], "two different digits or more, .* got '0'"),
        (["--alphabets", "0x"], "two different digits or more, .* got '0x'"),
        (["--alphabets", "01", "01"], "named twice"),
        (["--methods", "hamming"], "hamming"),
        (["--length", "3"], "must be a whole number >= 4"),
        (["--device", "abacus"], "no device 'abacus' here"),
        (["--threads", "0"], "--threads must be >= 1"),
    ],
)
def test_script_says_what_is_wrong(script, tmp_path, capsys, options, words):
    assert script(*options) == 2
    assert re.search(words, refusal(capsys, "levenshtein"))
    assert not (tmp_path / "out" / "results.json").exists()
