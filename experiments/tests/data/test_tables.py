"""Tables of the UCI repository as bits, CIFAR-10: files in their layout, and the real ones."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.data import BitTable, cifar10, read_adult, read_breast_cancer, read_monk

DATA = Path(os.environ.get("GENDR_DATA", "data"))


def needs(folder):
    return pytest.mark.skipif(
        not (DATA / folder).is_dir(), reason=f"no folder {folder} in $GENDR_DATA"
    )


def monk(folder, train=" 1 1 2 1 3 4 2 data_1\n 0 3 1 2 1 1 1 data_2\n"):
    (folder / "monks-2.train").write_text(train)
    (folder / "monks-2.test").write_text(" 0 2 3 1 2 2 2 data_9\n")
    return folder


def test_a_row_of_a_monk(tmp_path):
    train, test = read_monk(monk(tmp_path), 2)
    assert train.bits.shape == (2, 17)
    assert train.labels.tolist() == [1, 0]
    on = [name for name, bit in zip(train.names, train.bits[0], strict=True) if bit]
    assert on == ["a1 = 1", "a2 = 2", "a3 = 1", "a4 = 3", "a5 = 4", "a6 = 2"]
    assert test.bits[0].tolist() == [0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1]


def test_damaged_monks(tmp_path):
    for text, match in (
        ("", "is empty"),
        ("1 1 2 1 3 5 2 d\n", "line 1 is no row"),
        ("1 1 2 1 3 4 2 d\n2 1 1 1 1 1 1 d\n", "line 2 is no row"),
        ("1 1 2 1 3 d\n", "line 1 is no row"),
    ):
        with pytest.raises(ValueError, match=match):
            read_monk(monk(tmp_path, text), 2)
    with pytest.raises(ValueError, match="problem must be 1, 2 or 3, got 4"):
        read_monk(tmp_path, 4)
    with pytest.raises(FileNotFoundError, match=r"no monks-3.train in"):
        read_monk(tmp_path, 3)


PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male"
)
ADULT = f"""{PERSON}, 2174, 0, 40, United-States, <=50K
50, ?, 83311, Bachelors, 9, Married, Sales, Husband, White, Male, 0, 0, 13, Cuba, >50K
20, Private, 83311, HS-grad, 9, Married, Sales, Wife, Black, Female, 0, 5, 20, ?, <=50K
"""


def test_adult(tmp_path):
    (tmp_path / "adult.data").write_text(ADULT)
    names = "age, workclass, fnlwgt, education, education-num, marital-status, occupation"
    names += ", relationship, race, sex, capital-gain, capital-loss, hours-per-week"
    test = f"{names}, native-country, outcome\n{PERSON}, 0, 0, 13, Peru, >50K.\n"
    (tmp_path / "adult.test").write_text(test)
    train, test = read_adult(tmp_path)
    assert train.labels.tolist() == [0, 1, 0]
    assert test.labels.tolist() == [1]
    assert train.names[:2] == ("age > 20", "age > 39")
    columns = {
        name: column.tolist() for name, column in zip(train.names, train.bits.T, strict=True)
    }
    assert columns["age > 20"] == [1, 1, 0]
    assert columns["age > 39"] == [0, 1, 0]
    assert columns["workclass = Private"] == [0, 0, 1]
    assert not any("?" in name or "fnlwgt" in name for name in train.names)
    other = {name: column.tolist() for name, column in zip(test.names, test.bits.T, strict=True)}
    assert other["native-country = Cuba"] == [0]  # a value that training has not seen has no bit
    assert other["capital-gain > 0"] == [0]
    for text, match in (
        ("1, 2\n", "line 1 must have 15 fields, got 2"),
        (ADULT.replace(">50K", "rich"), "must be one of <=50K, >50K, got 'rich'"),
        (ADULT.replace("50, ?", "old, ?"), "the column age must hold numbers"),
    ):
        (tmp_path / "adult.data").write_text(text)
        with pytest.raises(ValueError, match=match):
            read_adult(tmp_path)


def test_breast_cancer(tmp_path):
    rows = [
        "no-recurrence-events,30-39,premeno,30-34,0-2,no,3,left,left_low,no",
        "recurrence-events,40-49,premeno,20-24,0-2,?,2,right,right_up,no",
    ]
    (tmp_path / "breast-cancer.data").write_text("\n".join(rows) + "\n")
    table = read_breast_cancer(tmp_path)
    assert table.labels.tolist() == [0, 1]
    assert table.bits.sum(1).tolist() == [9, 8]
    assert "deg-malig = 3" in table.names


def test_splits_are_by_class():
    labels = torch.tensor([0] * 60 + [1] * 20)
    bits = torch.arange(80, dtype=torch.uint8)[:, None]
    table = BitTable(bits, labels, ("row",), ("a", "b"))
    train, test = table.split(0.75, seed=1)
    assert [int((part.labels == 1).sum()) for part in (train, test)] == [15, 5]
    assert sorted(torch.cat([train.bits, test.bits])[:, 0].tolist()) == list(range(80))
    assert not torch.equal(test.bits, table.split(0.75, seed=2)[1].bits)
    assert torch.equal(test.bits, table.split(0.75, seed=1)[1].bits)
    assert train.digest() != test.digest()
    with pytest.raises(ValueError, match="share must be"):
        table.split(1.0, seed=0)


@needs("monks")
def test_the_real_monks():
    sizes = {1: (124, 0.5), 2: (169, 142 / 432), 3: (122, 228 / 432)}
    for problem, (rows, share) in sizes.items():
        train, test = read_monk(DATA / "monks", problem)
        assert (len(train), len(test)) == (rows, 432)
        assert float(test.labels.double().mean()) == pytest.approx(share)
        assert (test.bits.sum(1) == 6).all()
    _, test = read_monk(DATA / "monks", 1)  # a1 = a2, or a5 = 1
    equal = (test.bits[:, 0:3] & test.bits[:, 3:6]).any(1)
    assert torch.equal((equal | test.bits[:, 11].bool()).long(), test.labels)


@needs("breast_cancer")
def test_the_real_breast_cancer():
    table = read_breast_cancer(DATA / "breast_cancer")
    assert torch.bincount(table.labels).tolist() == [201, 85]
    assert int((table.bits.sum(1) < 9).sum()) == 9


@needs("adult")
def test_the_real_adult():
    train, test = read_adult(DATA / "adult")
    assert (len(train), len(test)) == (32_561, 16_281)
    assert int(test.labels.sum()) == 3846


def record(label, value):
    return bytes([label]) + bytes([value]) * 1024 + bytes([value + 1]) * 1024 + bytes(1024)


def test_cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for k in range(1, 6):
        (folder / f"data_batch_{k}.bin").write_bytes(record(k, 10 * k) + record(9, 3))
    (folder / "test_batch.bin").write_bytes(record(2, 7))
    images, labels = cifar10(tmp_path, "train")
    assert images.shape == (10, 3, 32, 32)
    assert labels.tolist() == [1, 9, 2, 9, 3, 9, 4, 9, 5, 9]
    assert images[2].unique().tolist() == [0, 20, 21]
    assert images[2, 1].unique().tolist() == [21]
    assert cifar10(folder, "test")[1].tolist() == [2]
    for content, match in ((b"", "records of 3073 bytes, got 0"), (record(10, 1), "label 10"),
                           (record(1, 1)[:-1], "got 3072 bytes")):  # fmt: skip
        (folder / "test_batch.bin").write_bytes(content)
        with pytest.raises(ValueError, match=match):
            cifar10(tmp_path, "test")
    with pytest.raises(ValueError, match="part must be train or test"):
        cifar10(tmp_path, "val")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match="the binary version"):
        cifar10(tmp_path, "train")
    assert np.uint8(images[0, 0, 0, 0]) == 10
