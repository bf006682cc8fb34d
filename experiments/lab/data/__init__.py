"""Data sets for experiments: readers of their files, and random lists drawn from them.

All images are kept on one device as bytes, and lists are drawn there.
"""

from lab.data.cifar import cifar10, cifar100_splits, download_cifar100, read_cifar100
from lab.data.examples import Examples, ExampleSplits, read_embeddings
from lab.data.mnist import MultiDigits, download_mnist, mnist_digits, mnist_splits, read_idx
from lab.data.numbers import Numbers, Splits
from lab.data.segments import segment_digits, segment_splits
from lab.data.strings import DigitStrings
from lab.data.svhn import HouseNumbers, house_numbers, svhn_splits
from lab.data.tables import (
    BitTable,
    TableSplits,
    read_adult,
    read_breast_cancer,
    read_monk,
)
from lab.data.warcraft import (
    TerrainMaps,
    TerrainSplits,
    cheapest_paths,
    generate_terrain,
    read_warcraft,
)

__all__ = [
    "BitTable",
    "DigitStrings",
    "ExampleSplits",
    "Examples",
    "HouseNumbers",
    "MultiDigits",
    "Numbers",
    "Splits",
    "TableSplits",
    "TerrainMaps",
    "TerrainSplits",
    "cheapest_paths",
    "cifar10",
    "cifar100_splits",
    "download_cifar100",
    "download_mnist",
    "generate_terrain",
    "house_numbers",
    "mnist_digits",
    "mnist_splits",
    "read_adult",
    "read_breast_cancer",
    "read_cifar100",
    "read_embeddings",
    "read_idx",
    "read_monk",
    "read_warcraft",
    "segment_digits",
    "segment_splits",
    "svhn_splits",
]
