"""Labelled examples for classification: images or stored embeddings, and their splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.arrays import read_arrays
from gendr._common.checks import check_index, check_integer, check_shape
from lab.data.numbers import Stored

__all__ = ["ExampleSplits", "Examples", "read_embeddings", "split_by_group"]

# Parts of the data for validation and for the test, where a file says nothing about it.
HELD_OUT = (0.2, 0.2)


@final
@dataclass(frozen=True, eq=False)
class Examples(Stored):
    """Features with class labels, on one device.

    Attributes:
        features: [N, D] floating, or images [N, C, H, W], uint8.
        labels: [N], int64, 0 .. classes - 1.
        classes: how many there are.
    """

    features: Tensor
    labels: Tensor
    classes: int

    def __post_init__(self) -> None:
        sizes = check_shape("features", self.features, "[N, D] or [N, C, H, W]")
        check_shape("labels", check_integer("labels", self.labels), "[N]", N=sizes["N"])
        check_index("labels", self.labels, self.classes, "classes")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.features.shape[1:])

    def at(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Features, float32 (of images in [0, 1]), and labels of some of them."""
        features = self.features[index].float()
        return features / 255 if self.features.dtype == torch.uint8 else features, self.labels[
            index
        ]

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """`at` random places, with replacement."""
        size = (count,)
        index = torch.randint(len(self.labels), size, generator=generator, device=self.device)
        return self.at(index)


class ExampleSplits(NamedTuple):
    """Training data, validation data (which pick the best weights), and test data.

    Attributes:
        train: what is trained with.
        validation: says which weights are best.
        test: what the final numbers are from.
    """

    train: Examples
    validation: Examples
    test: Examples


def split_by_group(examples: Examples, groups: Tensor, seed: int = 0) -> ExampleSplits:
    """Split so that no group, such as the views of one object, is in two parts.

    Of every class, 60 % of the groups are for training, 20 % for validation, 20 % for the test.

    Args:
        examples: all of them.
        groups: [N], the number of the group of each example.
        seed: of the split.
    """
    generator = torch.Generator().manual_seed(seed)
    part = torch.zeros(len(groups), dtype=torch.int64)
    for label in range(examples.classes):
        members = groups[examples.labels == label].unique()
        members = members[torch.randperm(len(members), generator=generator)]
        first = round(len(members) * HELD_OUT[0])
        second = first + round(len(members) * HELD_OUT[1])
        part[torch.isin(groups, members[:first])] = 1
        part[torch.isin(groups, members[first:second])] = 2
    return ExampleSplits(*(_chosen(examples, part == number) for number in range(3)))


def _chosen(examples: Examples, mask: Tensor) -> Examples:
    return replace(examples, features=examples.features[mask], labels=examples.labels[mask])


def read_embeddings(path: str | Path, seed: int = 0) -> ExampleSplits:
    """Stored embeddings, such as those of a network before its last layer.

    Args:
        path: an npz file with `features` [N, D] and `labels` [N], integers from 0; and, if parts
            are given, `part` [N]: 0 training, 1 validation, 2 test. Without it every class is
            split 60 : 20 : 20.
        seed: of the split, if the file gives none.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no npz file, lacks an array, or holds something else.
    """
    path = Path(path)
    file = read_arrays(path, ("features", "labels", "part"))
    missing = [name for name in ("features", "labels") if name not in file]
    if missing:
        raise ValueError(
            f"{path} is no npz file of embeddings: it holds no {' and no '.join(missing)}"
        )
    features, labels, part = file["features"], file["labels"], file.get("part")
    if features.ndim != 2 or features.dtype.kind != "f" or not np.isfinite(features).all():
        raise ValueError(f"features in {path} must be finite floating numbers [N, D]")
    if labels.shape != features.shape[:1] or labels.dtype.kind not in "iu" or not len(labels):
        raise ValueError(f"labels in {path} must be integers [{len(features)}], got {labels.shape}")
    if labels.min() < 0:
        raise ValueError(f"labels in {path} must be >= 0, got {labels.min()}")
    examples = Examples(
        torch.from_numpy(features.astype(np.float32)),
        torch.from_numpy(labels.astype(np.int64)),
        int(labels.max()) + 1,
    )
    if part is None:
        return split_by_group(examples, torch.arange(len(labels)), seed)
    if part.shape != labels.shape or not np.isin(part, (0, 1, 2)).all():
        raise ValueError(f"part in {path} must hold 0, 1 or 2 for each of {len(labels)} examples")
    return ExampleSplits(
        *(_chosen(examples, torch.from_numpy(part == number)) for number in (0, 1, 2))
    )
