"""What the CPU kernels are given, as named tuples of arrays and numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class FaceTables(NamedTuple):
    """The arrays that describe faces and images to the kernels."""

    corners: np.ndarray  # [T, N, 2] float64
    offsets: np.ndarray  # [B + 1] int64
    image_of_face: np.ndarray  # [T] int64
    boxes: np.ndarray  # [T, 4] int32
    images: np.ndarray  # [B, 4] float64
    grid: tuple[np.ndarray, np.ndarray]  # x of the columns and y of the rows, both and LANES more


class AlphaRecords(NamedTuple):
    """What the backward kernel of alpha reads about every pixel."""

    grad: np.ndarray  # [P + LANES] of alpha; 0 for saturated pixels, which have no gradient
    alpha: np.ndarray  # [P + LANES]
    rest: np.ndarray  # [P + LANES], 1 - alpha
    ties: np.ndarray  # [P] int32, the faces that reach the maximum


class Formulas(NamedTuple):
    """A distribution and a T-conorm as the kernels take them: flags, parameters and addresses.

    An address is 0 if there is no such compiled function, or if nobody wants it.

    Attributes:
        reversed: whether the distribution is.
        squared: whether it is.
        idempotent: whether the maximum joins faces.
        scalars: whether the gradients of scalars are wanted.
        shape: of the distribution.
        art: the exponent of the activation replacement trick.
        cutoff: coverage at or below it counts as 0.
        cdf: address of the tails of the distribution; and so the next ones.
        cdf_and_pdf: of both, and its density.
        dshape: of the derivative by its shape.
        generator: of the family.
        weight: of its weight.
        weight_p: of the weight of its parameter.
        inverse: of the inverse of its generator; 0 for the mean and the maximum.
        product: whether the T-conorm is the probabilistic sum, and ordered joining asks.
    """

    reversed: bool
    squared: bool
    idempotent: bool
    scalars: bool
    shape: float
    art: float
    cutoff: float
    cdf: int
    cdf_and_pdf: int
    dshape: int
    generator: int
    weight: int
    weight_p: int
    inverse: int = 0
    product: bool = False


class Layers(NamedTuple):
    """The faces of every tile of a batch, and what puts them into order.

    Attributes:
        across: tiles in a row of an image.
        down: tiles in a column.
        starts: [tiles + 1] int64, the entries of a tile.
        areas: [tiles] int64, at least as many as a tile has pairs.
        firsts: [tiles] int64, where its pairs begin; the kernel that finds them closes gaps.
        faces: [E] int32, the face of every entry; in a tile the nearest first.
        places: [E] int64, its row in the table of gradients, where the rows of a face follow each
            other.
        planes: [T, 3], the keys p x + q y + r of faces, which grow towards the camera.
        limits: [T, 2], the least and the greatest key of a face, to which keys are clamped.
        enough: the sum of generators from which on a pixel shows nothing farther.
        sorts: whether keys vary over faces; otherwise all pixels have the order of entries.
    """

    across: int
    down: int
    starts: np.ndarray
    areas: np.ndarray
    firsts: np.ndarray
    faces: np.ndarray
    places: np.ndarray
    planes: np.ndarray
    limits: np.ndarray
    enough: float
    sorts: bool
