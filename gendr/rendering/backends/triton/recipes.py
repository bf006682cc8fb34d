"""One renderer as the kernels take it: what chooses them, and a table of numbers per image.

Distributions and families go by their `kernel_name`, which says which class and code is meant if
they are the user's own. What is a tensor is a column of the table, through which gradients come
back; all other numbers stand in the recipe, and are put into a row of the image table once and kept
on the device (`image_table`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from gendr._common.readback import hold
from gendr._common.tracing import lasting
from gendr.distributions import kernel_functions as distributions
from gendr.distributions.base import Transformed
from gendr.tnorms import kernel_functions as families

if TYPE_CHECKING:
    from gendr.distributions.base import Number
    from gendr.rendering.coverage import Coverage
    from gendr.tnorms import TConorm

SOFTMAX = "softmax"  # in place of a family, for colours
_EVERYWHERE = 1e30  # a radius, of tails so heavy that theirs is no float32


class Recipe(NamedTuple):
    """A renderer without its tensors.

    Attributes:
        dist: name of the base distribution, by its `kernel_name`.
        family: name of the family, by its `kernel_name`, or `SOFTMAX`.
        columns: names of the table's columns: "scale", and which of "shift", "shape", "p" and
            "rate" are tensors.
        shape: of the distribution, None if it has none or a tensor.
        shift: as `Distribution.total_shift`, 0 if it is a tensor.
        mirrored: whether the distribution is reversed.
        squared: whether it is squared.
        art: the exponent of the activation replacement trick.
        p: of the family, None if it has none or a tensor.
    """

    dist: str
    family: str
    columns: tuple[str, ...] = ("scale",)
    shape: float | None = None
    shift: float = 0.0
    mirrored: bool = False
    squared: bool = False
    art: float = 0.0
    p: float | None = None

    @property
    def code(self) -> Recipe:
        """What chooses the kernels: the recipe without its numbers."""
        return Recipe(self.dist, self.family, self.columns)

    @property
    def kind(self) -> str:
        """How the family joins faces: by a generator, by the maximum or by the mean."""
        return families.kernel_functions(self.family).cls.kind

    @property
    def is_product(self) -> bool:
        """Whether 1 - alpha is the product of 1 - a: then sums need neither logarithms nor exp."""
        return families.kernel_functions(self.family).cls.is_product

    @property
    def is_scaled(self) -> bool:
        """Whether generators, which are powers, are summed up in units of the largest."""
        return families.is_scaled(self.family)

    @property
    def is_exact(self) -> bool:
        """Whether forward and backward kernels must find the same bits: for ties of the maximum."""
        return self.family != SOFTMAX and self.kind == "max"

    def forward(self) -> dict[str, Any]:
        """The compiled functions of the forward kernel."""
        from gendr.distributions import triton as of_distributions
        from gendr.tnorms import triton as of_families

        functions: dict[str, Any] = {"CDF": of_distributions.function(self.dist, "tails")}
        if self.family == SOFTMAX:
            return functions
        kinds = ("scaled", "unscaled") if self.is_scaled else ("generator", "inverse")
        joined = self.kind == "archimedean" and not self.is_product
        generator, inverse = (of_families.function(self.family, x) if joined else None
                              for x in kinds)  # fmt: skip
        return functions | {
            "GENERATOR": generator, "INVERSE": inverse, "KIND": self._kind_number(),
        }  # fmt: skip

    def backward(self, scalars: bool) -> dict[str, Any]:
        """The compiled functions of the backward kernel, with those of the columns if wanted."""
        from gendr.distributions import triton as of_distributions
        from gendr.tnorms import triton as of_families

        with_shape, with_p = (scalars and x in self.columns for x in ("shape", "p"))
        functions: dict[str, Any] = {
            "CDF": of_distributions.function(self.dist, "tails"),
            "PDF": of_distributions.function(self.dist, "density"),
            "DSHAPE": of_distributions.function(self.dist, "shape_slope") if with_shape else None,
            "SCALARS": scalars,
        }
        if self.family == SOFTMAX:
            return functions
        joined = self.kind == "archimedean"
        return functions | {
            "WEIGHT": of_families.function(self.family, "weight") if joined else None,
            "WEIGHT_P": of_families.function(self.family, "weight_p") if with_p else None,
            "KIND": self._kind_number(),
        }

    def _kind_number(self) -> int:
        from gendr.rendering.backends.triton import shared_kernels as shared

        if self.is_product:
            return shared.PRODUCT.value
        if self.is_scaled:
            return shared.SCALED.value
        return {"max": shared.MAXIMUM, "mean": shared.MEAN}.get(
            self.kind, shared.ARCHIMEDEAN
        ).value  # fmt: skip

    def in_columns(self, sums: Tensor) -> Tensor:
        """Gradients [B, GRAD_COLUMNS], as the kernels order them, as those of the columns."""
        from gendr.rendering.backends.triton import shared_kernels as shared

        places = {
            "scale": shared.GRAD_SCALE, "shift": shared.GRAD_SHIFT, "shape": shared.GRAD_SHAPE,
            "p": shared.GRAD_LAST, "rate": shared.GRAD_LAST,
        }  # fmt: skip
        return torch.stack([sums[:, places[name].value] for name in self.columns], -1)


def described(
    coverage: Coverage, tconorm: TConorm | None = None, rate: Tensor | None = None
) -> tuple[Recipe, list[Tensor]]:
    """The recipe of a renderer, and its tensors in the order of the columns after the scale.

    Args:
        coverage: by a distribution that is not the user's own.
        tconorm: what joins faces; None for colours.
        rate: [], of the softmax of colours.
    """
    dist = coverage.dist
    fields: dict[str, Any] = {
        "shift": dist.total_shift(),
        "shape": dist.shape_parameter,
        "p": None if tconorm is None else tconorm.given_p,
        "rate": rate,
    }
    tensors = {name: x for name, x in fields.items() if isinstance(x, Tensor)}
    recipe = Recipe(
        distributions.kernel_name(type(cast("Any", dist.base))),
        SOFTMAX if tconorm is None else families.kernel_name(type(tconorm)),
        ("scale", *tensors),
        None if "shape" in tensors else fields["shape"],
        0.0 if "shift" in tensors else fields["shift"],
        dist.is_reversed,
        dist.is_squared,
        dist.art_exponent,
        None if "p" in tensors else fields["p"],
    )
    return recipe, list(tensors.values())


def table_of(coverage: Coverage, tensors: list[Tensor]) -> Tensor:
    """The table [B, columns] float32 of a renderer; see `described`."""
    scale = coverage.scale.to(torch.float32)
    return torch.stack([scale, *(x.to(scale).reshape(()).expand_as(scale) for x in tensors)], -1)


def image_table(recipe: Recipe, table: Tensor, cutoff: float) -> Tensor:
    """What the kernels read about every image, [B, IMAGE_COLUMNS] float32.

    The host reads nothing back from the device, unless shift or shape of the distribution is a
    tensor: its reach and its constants are computed on the host.

    Args:
        recipe: of the renderer.
        table: [B, columns].
        cutoff: coverage at or below it counts as 0.
    """
    from gendr.rendering.backends.triton import shared_kernels as shared

    if not len(table):
        return table.new_empty(0, shared.IMAGE_COLUMNS.value)
    if any(name in recipe.columns for name in ("shift", "shape")):
        values = dict(zip(recipe.columns, table[0].tolist(), strict=True))
        known = {name: values[name] for name in ("shift", "shape") if name in values}
        constants, power = _constants(recipe._replace(**known), cutoff, len(table), table.device)
    else:
        constants, power = _constants(recipe, cutoff, len(table), table.device)
    hold(constants)
    images = constants.clone()
    scale = table[:, 0]
    images[:, shared.RADIUS.value].mul_(scale if power == 1.0 else scale**power)
    places = {
        "scale": shared.SCALE, "shift": shared.SHIFT, "shape": shared.SHAPE,
        "p": shared.FAMILY_P, "rate": shared.RATE,
    }  # fmt: skip
    for column, name in enumerate(recipe.columns):
        images[:, places[name].value] = table[:, column]
    return images


@lru_cache(maxsize=64)
@lasting()
def numbered_table(
    recipe: Recipe, scale: float, cutoff: float, images: int, device: torch.device
) -> Tensor:
    """`image_table` for a renderer of numbers with one scale; kept, so that nobody may write to it.

    Raises:
        ValueError: the recipe has other columns than the scale.
    """
    if len(recipe.columns) > 1:
        raise ValueError(f"a table of numbers has no column for {recipe.columns[1]}")
    table = torch.full((images, 1), scale, dtype=torch.float32, device=device)
    return image_table(recipe, table, cutoff)


def rows_of_faces(
    recipe: Recipe, coverage: Coverage, shift: Number, shape: Number | None, p: Number | None
) -> Tensor:
    """The image table with one row for every face, [T, IMAGE_COLUMNS] float32.

    Args:
        recipe: of the renderer.
        coverage: whose scale is [T].
        shift: of the distribution, a number, [] or [T].
        shape: of the distribution, the same; None if it has none.
        p: of the family, a number or [].
    """
    from gendr.distributions.triton import parameters
    from gendr.rendering.backends.triton import shared_kernels as shared

    scale = coverage.scale
    learnt = isinstance(shift, Tensor) or isinstance(shape, Tensor)
    known = recipe._replace(shape=None) if learnt else recipe
    constants, power = _constants(known, coverage.cutoff, 1, scale.device)
    rows = constants.repeat(len(scale), 1)
    if learnt:
        rows[:, shared.RADIUS.value] = coverage.radius()
        rows[:, shared.SHIFT.value] = shift
        if shape is not None:
            values = parameters(recipe.dist, torch.as_tensor(shape, device=scale.device))
            for column, value in zip(
                (shared.SHAPE, shared.CONSTANT, shared.PSI), values, strict=True
            ):
                rows[:, column.value] = value
    else:
        rows[:, shared.RADIUS.value] *= scale if power == 1.0 else scale**power
    rows[:, shared.SCALE.value] = scale
    if p is not None:
        rows[:, shared.FAMILY_P.value] = p
    return rows


@lru_cache(maxsize=64)
@lasting()
def _constants(
    recipe: Recipe, cutoff: float, images: int, device: torch.device
) -> tuple[Tensor, float]:
    """The image table at scale 1, and the power of the scale in the radius.

    Args:
        recipe: of the renderer, with a number for every parameter of its distribution.
        cutoff: coverage at or below it counts as 0.
        images: B.
        device: where the table is to be.
    """
    from gendr.distributions.triton import parameters
    from gendr.rendering.backends.triton import shared_kernels as shared

    known = {} if recipe.shape is None else {"shape": recipe.shape}
    base = distributions.kernel_functions(recipe.dist).cls(**known)
    dist = Transformed(
        base, recipe.mirrored, recipe.shift or None, False, recipe.squared, recipe.art
    )
    constants = (0.0, 0.0, 0.0)
    if recipe.shape is not None:
        given = torch.tensor(recipe.shape, dtype=torch.float64, device="cpu")
        constants = tuple(x.item() for x in parameters(recipe.dist, given))
    columns = (
        (shared.SHIFT, recipe.shift),
        (shared.RADIUS, min(float(dist.radius(1.0, cutoff)), _EVERYWHERE)),
        (shared.FAMILY_P, recipe.p or 0.0),
        (shared.SHAPE, constants[0]),
        (shared.CONSTANT, constants[1]),
        (shared.PSI, constants[2]),
        (shared.REVERSED, recipe.mirrored),
        (shared.SQUARED, recipe.squared),
        (shared.ART, recipe.art),
        (shared.CUTOFF, cutoff),
    )
    table = torch.zeros(images, shared.IMAGE_COLUMNS.value, dtype=torch.float32, device="cpu")
    for column, value in columns:
        table[:, column.value] = value
    power = 0.5 if recipe.squared else 1 / (1 - recipe.art)
    return table.to(device), power
