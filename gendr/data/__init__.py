"""Data sets for experiments: readers of their files, and random lists drawn from them.

All images are kept on one device as bytes, and lists are drawn there.
"""

from gendr.data.mnist import MultiDigits, download_mnist, mnist_digits, mnist_splits, read_idx
from gendr.data.numbers import Numbers, Splits
from gendr.data.svhn import HouseNumbers, house_numbers, svhn_splits

__all__ = [
    "HouseNumbers",
    "MultiDigits",
    "Numbers",
    "Splits",
    "download_mnist",
    "house_numbers",
    "mnist_digits",
    "mnist_splits",
    "read_idx",
    "svhn_splits",
]
