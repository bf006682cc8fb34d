"""Learning from edit distances: the scores and the losses."""

import itertools
from dataclasses import replace

import pytest
import torch

from gendr.relaxed import levenshtein
from lab.data import MultiDigits, Splits
from lab.studies.edit_distance import (
    EditSettings,
    EditTraining,
    classify,
    matched,
    scored,
    true_distances,
)

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
