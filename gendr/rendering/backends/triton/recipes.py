"""One renderer as the operators take it: a text that names it, and a table of numbers per image.

The text is that of an instance, such as "gamma(shape=0.5).reversed.squared/yager(p=2.0)", so that
operators of PyTorch, which know tensors, numbers and text, can carry it. Laws and families go by
their `kernel_name`, which says which class and code is meant if they are the user's own. What is a
tensor stands in it as "{shift}", "{shape}", "{p}" or "{rate}", and its value is a column of the
table, through which gradients come back. In place of a T-conorm, colours have
"softmax(rate={rate})".

The text chooses the compiled kernels (`Recipe`), and what it says about numbers is put into a row
of the image table once and kept on the device (`image_table`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gendr._runtime.later import hold
from gendr._runtime.tracing import constant, lasting, once
from gendr.distributions import bodies as laws
from gendr.distributions.registry import read
from gendr.tnorms import bodies as families

if TYPE_CHECKING:
    from gendr.rendering.coverage import Coverage
    from gendr.tnorms import TConorm

SOFTMAX = "softmax"  # in place of a family
_FIELDS = ("shift", "shape", "p", "rate")  # of a text, in the order of the table's columns
_OF_LAW = ("shift", "shape")


# ---------------------------------------------------------------------------------------------
# Text and table
# ---------------------------------------------------------------------------------------------


def described(
    coverage: Coverage, tconorm: TConorm | None = None, rate: Tensor | None = None
) -> tuple[str, Tensor]:
    """The text of a renderer and its table [B, 1 + fields] float32; the first column is the scale.

    Args:
        coverage: by a law that is not the user's own.
        tconorm: what joins faces; None for colours.
        rate: [], of the softmax of colours.
    """
    dist = coverage.dist
    law = laws.kernel_name(type(cast("Any", dist.law)))
    shape, shift = dist.shape_parameter, dist.total_shift()
    family, p = SOFTMAX, None
    if tconorm is not None:
        family, p = families.kernel_name(type(tconorm)), tconorm.given_p
    tensors = [x for x in (shift, shape, p, rate) if isinstance(x, Tensor)]
    scale = coverage.scale.to(torch.float32)
    # A part that is a tensor leaves its field open.
    text = _text(
        law,
        "{shape}" if isinstance(shape, Tensor) else shape,
        "{shift}" if isinstance(shift, Tensor) else shift,
        dist.is_reversed,
        dist.is_squared,
        dist.art_exponent,
        family,
        "{p}" if isinstance(p, Tensor) else p,
        rate is not None,
    )
    spread = [x.to(scale).reshape(()).expand_as(scale) for x in tensors]
    return text, torch.stack([scale, *spread], -1)


@constant
def _text(
    law: str,
    shape: float | str | None,
    shift: float | str,
    is_reversed: bool,
    is_squared: bool,
    art: float,
    family: str,
    p: float | str | None,
    with_rate: bool,
) -> str:
    """The text of a renderer, of its parts: numbers, or fields that are left open."""
    words = [law if shape is None else f"{law}(shape={shape})"]
    words += [f"shifted({shift})"] if shift else []
    words += ["reversed"] * is_reversed + ["squared"] * is_squared
    words += [f"art({art})"] if art else []
    family += "" if p is None else f"(p={p})"
    family += "(rate={rate})" if with_rate else ""
    return f"{'.'.join(words)}/{family}"


# ---------------------------------------------------------------------------------------------
# What a text says
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """What the text of a renderer says about kernels and the table.

    Attributes:
        law: name of the base law, by its `kernel_name`.
        family: name of the family, by its `kernel_name`, or `SOFTMAX`.
        columns: names of the table's columns: "scale" and the fields that are open.
    """

    law: str
    family: str
    columns: tuple[str, ...]

    @staticmethod
    @lru_cache(maxsize=256)
    def of(text: str) -> Recipe:
        """The recipe that a text describes."""
        dist, _, rule = text.partition("/")
        fields = (name for name in _FIELDS if f"{{{name}}}" in text)
        return Recipe(_first_word(dist), _first_word(rule), ("scale", *fields))

    @once
    def kind(self) -> str:
        """How the family joins faces: by a generator, by the maximum or by the mean."""
        return families.bodies(self.family).cls.kind

    @once
    def is_product(self) -> bool:
        """Whether 1 - alpha is the product of 1 - a: then sums need neither logarithms nor exp."""
        return families.bodies(self.family).cls.is_product

    @once
    def is_exact(self) -> bool:
        """Whether forward and backward kernels must find the same bits: for ties of the maximum."""
        return self.family != SOFTMAX and self.kind == "max"

    @once
    def _found(self) -> dict[bool | None, dict[str, Any]]:
        """What `forward` (key None) and `backward` have found."""
        return {}

    def forward(self) -> dict[str, Any]:
        """The compiled functions of the forward kernel."""
        if None not in self._found:
            self._found[None] = self._forward()
        return self._found[None]

    def backward(self, scalars: bool) -> dict[str, Any]:
        """The compiled functions of the backward kernel, with those of open fields if wanted."""
        if scalars not in self._found:
            self._found[scalars] = self._backward(scalars)
        return self._found[scalars]

    def _forward(self) -> dict[str, Any]:
        from gendr.distributions import triton as of_laws
        from gendr.tnorms import triton as of_families

        functions: dict[str, Any] = {"CDF": of_laws.tails(self.law)}
        if self.family == SOFTMAX:
            return functions
        joined = self.kind == "archimedean" and not self.is_product
        return functions | {
            "GENERATOR": of_families.generator_function(self.family) if joined else None,
            "INVERSE": of_families.inverse_function(self.family) if joined else None,
            "KIND": self._kind_number(),
        }

    def _backward(self, scalars: bool) -> dict[str, Any]:
        from gendr.distributions import triton as of_laws
        from gendr.tnorms import triton as of_families

        with_shape, with_p = (scalars and x in self.columns for x in ("shape", "p"))
        functions: dict[str, Any] = {
            "CDF": of_laws.tails(self.law),
            "PDF": of_laws.density(self.law),
            "DSHAPE": of_laws.shape_slope(self.law) if with_shape else None,
            "SCALARS": scalars,
        }
        if self.family == SOFTMAX:
            return functions
        joined = self.kind == "archimedean"
        return functions | {
            "WEIGHT": of_families.weight_function(self.family) if joined else None,
            "WEIGHT_P": of_families.weight_p_function(self.family) if with_p else None,
            "KIND": self._kind_number(),
        }

    def _kind_number(self) -> int:
        from gendr.rendering.backends.triton import shared_kernels as shared

        if self.is_product:
            return shared.PRODUCT.value
        numbers = {
            "max": shared.MAXIMUM,
            "mean": shared.MEAN,
            "archimedean": shared.ARCHIMEDEAN,
        }
        return numbers[self.kind].value

    def in_columns(self, sums: Tensor) -> Tensor:
        """Gradients in the order of the table's columns.

        Args:
            sums: [B, GRAD_COLUMNS], as the kernels order them.
        """
        from gendr.rendering.backends.triton import shared_kernels as shared

        places = {
            "scale": shared.GRAD_SCALE,
            "shift": shared.GRAD_SHIFT,
            "shape": shared.GRAD_SHAPE,
            "p": shared.GRAD_LAST,
            "rate": shared.GRAD_LAST,
        }
        return torch.stack([sums[:, places[name].value] for name in self.columns], -1)


def _first_word(text: str) -> str:
    found = re.match(r"\w+", text)
    assert found is not None  # `_text` wrote it
    return found[0]


# ---------------------------------------------------------------------------------------------
# The image table
# ---------------------------------------------------------------------------------------------


def image_table(text: str, table: Tensor, cutoff: float) -> Tensor:
    """What the kernels read about every image, [B, IMAGE_COLUMNS] float32.

    The host reads nothing back from the device, unless the law has a field that is open: its reach
    and its constants are computed on the host.

    Args:
        text: of the renderer.
        table: [B, columns].
        cutoff: coverage at or below it counts as 0.
    """
    from gendr.rendering.backends.triton import shared_kernels as shared

    recipe = Recipe.of(text)
    if not len(table):
        return table.new_empty(0, shared.IMAGE_COLUMNS.value)
    if any(name in recipe.columns for name in _OF_LAW):
        values = dict(zip(recipe.columns, table[0].tolist(), strict=True))
        for name in _OF_LAW:
            if name in values:
                text = text.replace(f"{{{name}}}", repr(values[name]))
    constants, power = _constants(text, cutoff, len(table), table.device)
    hold(constants)
    images = constants.clone()
    scale = table[:, 0]
    images[:, shared.RADIUS.value].mul_(scale if power == 1.0 else scale**power)
    places = {
        "scale": shared.SCALE,
        "shift": shared.SHIFT,
        "shape": shared.SHAPE,
        "p": shared.FAMILY_P,
        "rate": shared.RATE,
    }
    for column, name in enumerate(recipe.columns):
        images[:, places[name].value] = table[:, column]
    return images


def numbered_table(
    text: str, scale: float, cutoff: float, images: int, device: torch.device
) -> Tensor:
    """`image_table` for a renderer without open fields and one scale; the host does not wait."""
    from gendr.rendering.backends.triton import shared_kernels as shared

    if not images:
        return torch.empty(0, shared.IMAGE_COLUMNS.value, dtype=torch.float32, device=device)
    with lasting():
        constants, power = _constants(text, cutoff, images, device)
        table = constants.clone()
        table[:, shared.SCALE.value] = scale
        table[:, shared.RADIUS.value] *= scale**power
    return table


@lru_cache(maxsize=64)
@lasting()
def _constants(text: str, cutoff: float, images: int, device: torch.device) -> tuple[Tensor, float]:
    """The image table at scale 1 without open fields, and the power of the scale in the radius.

    Args:
        text: of the renderer; no field of its law is open.
        cutoff: coverage at or below it counts as 0.
        images: B.
        device: where the table is to be.
    """
    from gendr.distributions.triton import parameters
    from gendr.rendering.backends.triton import shared_kernels as shared

    dist_text, _, rule = text.partition("/")
    dist = read(dist_text, lambda name: laws.bodies(name).cls)
    given = dist.shape_parameter
    law = Recipe.of(text).law
    shape, constant, psi = (0.0, 0.0, 0.0) if given is None else parameters(law, float(given))
    p = re.search(r"\(p=([^{}]*)\)", rule)
    columns = {
        shared.SHIFT: dist.total_shift(),
        shared.RADIUS: float(dist.radius(1.0, cutoff)),
        shared.FAMILY_P: float(p[1]) if p else 0.0,
        shared.SHAPE: shape,
        shared.CONSTANT: constant,
        shared.PSI: psi,
        shared.REVERSED: float(dist.is_reversed),
        shared.SQUARED: float(dist.is_squared),
        shared.ART: dist.art_exponent,
        shared.CUTOFF: cutoff,
    }
    table = torch.zeros(images, shared.IMAGE_COLUMNS.value, dtype=torch.float32)
    for column, value in columns.items():
        table[:, column.value] = value
    power = 0.5 if dist.is_squared else 1 / (1 - dist.art_exponent)
    return table.to(device), power
