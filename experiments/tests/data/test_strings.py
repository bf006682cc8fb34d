"""Digits of seven segments, and pairs of strings of images that differ by edits."""

import numpy as np
import pytest
import torch

from lab.data import DigitStrings, MultiDigits, segment_digits, segment_splits, segments


def edit_distance(s, t):
    """Wagner and Fischer, 1974."""
    row = list(range(len(t) + 1))
    for i, a in enumerate(s, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(t, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def digits():
    """Images of 3 x 3 whose brightness tells which digit they show."""
    labels = torch.tensor([0, 1, 2, 3, 3, 2, 1, 0, 3, 3, 3]).byte()
    return MultiDigits((labels[:, None, None] * 20 + 5).expand(-1, 3, 3), labels, digits=1)


def test_segment_digits_can_be_told_apart():
    images, labels = segment_digits(500, seed=1)
    assert images.shape == (500, 28, 28)
    assert images.dtype == labels.dtype == torch.uint8
    assert labels.bincount().tolist() == [50] * 10
    assert torch.equal(segment_digits(500, seed=1)[0], images)
    assert not torch.equal(segment_digits(500, seed=2)[0], images)
    # The most similar of them names most others, so that they show what the label says.
    known = torch.nn.functional.normalize(images.flatten(1).float(), dim=1)
    others, truth = segment_digits(200, seed=3)
    found = labels[(known @ others.flatten(1).float().T).argmax(0)]
    assert (found == truth).float().mean() > 0.5  # 0.1 by chance
    assert [len(set(lit)) for lit in segments.LIT] == [6, 2, 5, 5, 4, 5, 6, 3, 7, 6]
    # One is two segments, eight is all seven.
    ink = images.float().mean((1, 2))
    assert ink[labels == 8].mean() > 1.5 * ink[labels == 1].mean()


def test_segment_splits_are_three_different_parts():
    splits = segment_splits(30, 20, 10)
    assert [len(part.images) for part in splits] == [30, 20, 10]
    assert len({part.digest() for part in splits}) == 3
    assert splits.train.shape == (1, 28, 112)
    for count, seed, error in ((0, 0, ValueError), (2.0, 0, TypeError), (1, -1, ValueError)):
        with pytest.raises(error, match="must be"):
            segment_digits(count, seed)


def test_strings_show_their_symbols(digits):
    strings = DigitStrings.of(digits, (3, 1))
    images, symbols = strings.draw(5, 7, seeded())
    assert images.shape == (2, 5, 7, 1, 3, 3)
    assert images.dtype == torch.float32
    shown = torch.tensor([65 / 255, 25 / 255])[symbols]
    torch.testing.assert_close(images.mean((-3, -2, -1)), shown)
    assert strings.shape == (1, 3, 3)
    assert (
        strings.to("cpu").digest() == strings.digest() != DigitStrings.of(digits, (1, 3)).digest()
    )


def test_each_image_of_a_symbol_is_drawn(digits):
    numbered = MultiDigits(torch.arange(11).byte()[:, None, None].expand(-1, 3, 3), digits.labels)
    images, symbols = DigitStrings.of(numbered, (2, 3)).draw(40, 32, seeded())
    number = (images[..., 0, 0, 0] * 255).round().long()
    assert set(number[symbols == 0].tolist()) == {2, 5}
    assert number[symbols == 1].bincount(minlength=11)[[3, 4, 8, 9, 10]].min() > 200


@pytest.mark.parametrize(("alphabet", "published"), [((0, 1), 4.25), ((0, 1, 2, 3), 5.0)])
def test_edit_distances_are_the_published_ones(digits, alphabet, published):
    _, (s, t) = DigitStrings.of(digits, alphabet).draw(600, 32, seeded(1))
    distances = np.array([edit_distance(a, b) for a, b in zip(s.tolist(), t.tolist(), strict=True)])
    # The standard error is 0.055. Other orders of the edits miss by 0.2 or more.
    assert abs(distances.mean() - published) < 0.16
    assert distances.max() <= 8  # four deletions and four insertions


def test_seeds_and_bad_arguments(digits):
    strings = DigitStrings.of(digits, (0, 1))
    one, other = (strings.draw(3, 8, seeded(4)) for _ in range(2))
    assert all(map(torch.equal, one, other))
    assert not torch.equal(strings.draw(3, 8, seeded(5))[1], one[1])
    for alphabet in ((), (1,), (1, 1), (0, 7)):
        with pytest.raises(ValueError, match=r"two different digits|no image of 7"):
            DigitStrings.of(digits, alphabet)
    with pytest.raises(ValueError, match="length must be >= 4"):
        strings.draw(1, 3, seeded())
