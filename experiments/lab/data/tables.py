"""Tables of the UCI repository as bits: MONK's problems, Adult, Breast Cancer.

A category becomes one bit for each of its values, a number one bit for each of some thresholds,
whether it is above. What is missing ("?") has no bit.

    >>> train, test = read_monk("data/monks", 1)
    >>> train.bits.shape, train.names[0]
    (torch.Size([124, 17]), 'a1 = 1')

Source: thesis, sections 6.4.1 and 6.4.2; Thrun et al., The MONK's Problems, 1991; Kohavi, Scaling
Up the Accuracy of Naive-Bayes Classifiers, 1996; Zwitter and Soklic, Breast Cancer Data, 1988.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import contains
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_number, check_shape
from lab.data.numbers import Stored

__all__ = ["BitTable", "TableSplits", "read_adult", "read_breast_cancer", "read_monk"]

# How many values the attributes of MONK's problems have: 17 bits.
MONK_VALUES = (3, 3, 2, 3, 4, 2)
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country",
)  # fmt: skip
# Bits of the numbers of Adult. The sampling weight fnlwgt says nothing of the person, education is
# what education-num counts.
ADULT_NUMBERS = {
    "age": 16,
    "education-num": 15,
    "capital-gain": 16,
    "capital-loss": 16,
    "hours-per-week": 10,
}
ADULT_LEFT_OUT = ("fnlwgt", "education")
ADULT_CLASSES = ("<=50K", ">50K")
CANCER_COLUMNS = (
    "age", "menopause", "tumor-size", "inv-nodes", "node-caps", "deg-malig", "breast",
    "breast-quad", "irradiat",
)  # fmt: skip
CANCER_CLASSES = ("no-recurrence-events", "recurrence-events")
MISSING = "?"


@dataclass(frozen=True, eq=False)
class BitTable(Stored):
    """Rows of bits with their classes.

    Attributes:
        bits: [N, F] uint8, 0 or 1.
        labels: [N] int64, indices of classes.
        names: of the bits.
        classes: their names.
    """

    bits: Tensor
    labels: Tensor
    names: tuple[str, ...]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        check_shape("bits", self.bits, "[N, F]", F=len(self.names))
        check_shape("labels", self.labels, "[N]", N=len(self.bits))

    def __len__(self) -> int:
        return len(self.bits)

    def split(self, share: float, seed: int) -> TableSplits:
        """A random part of the rows for training, the others for the test.

        Each class is split by itself, so that both parts have as much of it.

        Args:
            share: of the rows for training, in (0, 1).
            seed: of the draw.
        """
        check_number("share", share, above=0, below=1)
        generator = torch.Generator().manual_seed(check_count("seed", seed, least=0))
        chosen = torch.zeros(len(self), dtype=torch.bool)
        for k in range(len(self.classes)):
            rows = (self.labels.cpu() == k).nonzero()[:, 0]
            order = torch.randperm(len(rows), generator=generator)
            chosen[rows[order[: round(share * len(rows))]]] = True
        chosen = chosen.to(self.bits.device)
        return TableSplits(
            *(replace(self, bits=self.bits[m], labels=self.labels[m]) for m in (chosen, ~chosen))
        )


class TableSplits(NamedTuple):
    """Rows for training and for the test.

    Attributes:
        train: the rows to train with.
        test: the rows to test with.
    """

    train: BitTable
    test: BitTable


def read_monk(folder: str | Path, problem: int) -> TableSplits:
    """One of MONK's problems.

    Args:
        folder: with `monks-1.train`, `monks-1.test` and so on, lines "class a1 .. a6 id".
        problem: 1, 2 or 3.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is something else, or there is no such problem.
    """
    if problem not in (1, 2, 3):
        raise ValueError(f"problem must be 1, 2 or 3, got {problem!r}")
    parts = [_monk(Path(folder) / f"monks-{problem}.{part}") for part in ("train", "test")]
    return TableSplits(*parts)


def _monk(path: Path) -> BitTable:
    allowed = [("0", "1"), *([str(k + 1) for k in range(n)] for n in MONK_VALUES)]
    lines = _lines(path)
    rows = [line.split()[: len(allowed)] for line in lines]
    for number, (line, row) in enumerate(zip(lines, rows, strict=True), 1):
        if len(row) < len(allowed) or not all(map(contains, allowed, row)):
            raise ValueError(f"{path}, line {number} is no row of a MONK's problem: {line!r}")
    names = ("class", *(f"a{i + 1}" for i in range(len(MONK_VALUES))))
    columns = list(zip(names[1:], allowed[1:], strict=True))
    return _encoded(rows, names, columns, ("0", "1"), 0)


def read_adult(folder: str | Path) -> TableSplits:
    """Adult: does a person earn more than 50,000 dollars a year?

    Categories and thresholds are those of the training part.

    Args:
        folder: with `adult.data` and `adult.test`, comma-separated, with or without a line of
            names; classes of the second may end with a dot, as published.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is something else.
    """
    parts = [_rows(Path(folder) / f"adult.{part}", ADULT_COLUMNS) for part in ("data", "test")]
    train, test = ([row for row in part if row[0] != ADULT_COLUMNS[0]] for part in parts)
    columns: list[tuple[str, Sequence[str | float]]] = []
    for name, column in zip(ADULT_COLUMNS, zip(*train, strict=True), strict=False):
        if name in ADULT_NUMBERS:
            columns.append((name, _thresholds(column, ADULT_NUMBERS[name], name)))
        elif name not in ADULT_LEFT_OUT:
            columns.append((name, sorted(set(column) - {MISSING})))
    return TableSplits(
        *(_encoded(part, ADULT_COLUMNS, columns, ADULT_CLASSES, -1) for part in (train, test))
    )


def read_breast_cancer(folder: str | Path) -> BitTable:
    """Breast Cancer (Ljubljana): does it come back? The file has no test part: see `split`.

    Args:
        folder: with `breast-cancer.data`, comma-separated, the class first.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if it is something else.
    """
    rows = _rows(Path(folder) / "breast-cancer.data", CANCER_COLUMNS)
    _, *values = zip(*rows, strict=True)
    categories = [sorted(set(column) - {MISSING}) for column in values]
    columns = list(zip(CANCER_COLUMNS, categories, strict=True))
    return _encoded(rows, ("class", *CANCER_COLUMNS), columns, CANCER_CLASSES, 0)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name} in {path.parent}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text file") from None
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"{path} is empty; get it again")
    return lines


def _rows(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The fields of all rows; one is the class."""
    rows = [[word.strip() for word in row] for row in csv.reader(_lines(path))]
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns) + 1:
            raise ValueError(
                f"{path}, line {number} must have {len(columns) + 1} fields, got {len(row)}"
            )
    return rows


def _thresholds(column: Sequence[str], bits: int, name: str) -> list[float]:
    """Thresholds at equal steps in the list of the distinct numbers; rare large ones count too."""
    try:
        distinct = sorted({float(word) for word in column})
    except ValueError:
        raise ValueError(f"the column {name} must hold numbers, got {column[0]!r} ..") from None
    bits = min(bits, len(distinct) - 1)
    return [distinct[(len(distinct) - 1) * k // bits] for k in range(bits)]


def _encoded(
    rows: list[list[str]],
    names: Sequence[str],
    columns: Sequence[tuple[str, Sequence[str | float]]],
    classes: tuple[str, ...],
    place: int,
) -> BitTable:
    """Rows as bits; `columns` has the categories, or the thresholds, of each that counts."""
    labels = [row[place].removesuffix(".") for row in rows]
    if strange := sorted(set(labels) - set(classes)):
        raise ValueError(f"the class must be one of {', '.join(classes)}, got {strange[0]!r}")
    parts: list[Tensor] = []
    texts: list[str] = []
    for name, values in columns:
        column = [row[names.index(name)] for row in rows]
        if isinstance(values[0], float):
            numbers = torch.tensor([float(word) for word in column], dtype=torch.float64)
            parts.append(numbers[:, None] > torch.tensor(values, dtype=torch.float64))
            texts += [f"{name} > {value:g}" for value in values]
        else:
            known = {value: k for k, value in enumerate(values)}
            index = torch.tensor([known.get(word, -1) for word in column])
            parts.append(index[:, None] == torch.arange(len(values)))
            texts += [f"{name} = {value}" for value in values]
    bits = torch.cat(parts, 1).byte()
    return BitTable(bits, torch.tensor([classes.index(x) for x in labels]), tuple(texts), classes)
