"""The 13 classes of ShapeNet that single-view reconstruction is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gendr._common.names import unknown

__all__ = ["CLASSES", "ShapeClass", "find_class"]


class ShapeClass(NamedTuple):
    """A class of shapes.

    Attributes:
        id: as files are named: the WordNet id of ShapeNet, or the name of a class of one's own.
        name: as tables and the command line name it.
    """

    id: str
    name: str


# In the order of thesis table 5.4, whose names these are.
CLASSES = (
    ShapeClass("02691156", "airplane"),
    ShapeClass("02828884", "bench"),
    ShapeClass("02933112", "dresser"),
    ShapeClass("02958343", "car"),
    ShapeClass("03001627", "chair"),
    ShapeClass("03211117", "display"),
    ShapeClass("03636649", "lamp"),
    ShapeClass("03691459", "speaker"),
    ShapeClass("04090263", "rifle"),
    ShapeClass("04256520", "sofa"),
    ShapeClass("04379243", "table"),
    ShapeClass("04401088", "phone"),
    ShapeClass("04530566", "vessel"),
)
_OTHER_NAMES = {
    "aeroplane": "airplane",
    "cabinet": "dresser",
    "loudspeaker": "speaker",
    "telephone": "phone",
    "watercraft": "vessel",
}


def find_class(text: str, others: Sequence[str] = ()) -> ShapeClass:
    """The class of a name or an id, such as "chair" or "03001627".

    Args:
        text: in capitals or not; the names that other papers use (cabinet, loudspeaker,
            telephone, watercraft) are known too.
        others: ids of classes that are no part of ShapeNet, whose names are the same.

    Raises:
        ValueError: for an unknown class.
    """
    name = _OTHER_NAMES.get(text.lower(), text.lower())
    for one in CLASSES:
        if name in (one.name, one.id):
            return one
    for other in others:
        if text in (other, other.lower()):
            return ShapeClass(other, other)
    raise ValueError(unknown("class", text, [*others, *(one.name for one in CLASSES)]))
