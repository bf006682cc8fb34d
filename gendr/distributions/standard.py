"""The standard distributions' base class; autograd functions that take the pdf for the slope.

A distribution only writes formulas for values: no `where` and no overflow in them can reach a
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from gendr._common.ranges import finite
from gendr._common.registry import Registered
from gendr._common.tracing import applied, constant, doubled
from gendr.distributions.base import BaseDistribution, Number, Part, number_text

INF = float("inf")


class StandardDistribution(Registered, BaseDistribution):
    """A distribution in standard form, of z alone; scale, shift and reversal are applied outside.

    A subclass is a frozen dataclass with the class attributes below and the hooks `_cdf`, `_sf`,
    `_pdf`, `_icdf`, `_isf` on tensors. Values enter finite; `_pdf` is plain differentiable torch
    whose first derivative is finite everywhere. A distribution with a parameter is `Shaped`.

    Attributes:
        name: as in the papers.
        aliases: other names that `get` understands.
        formula: F(z) in one line of text.
        support: the smallest closed interval outside of which F is 0 or 1.
        is_symmetric: whether F(z) = 1 - F(-z).
        in_float64: whether its formulas need float64 whatever the input.
        kernel_functions: the functions that compiled kernels take, by name
            (`gendr.distributions.kernel_functions`); None for those that stand in the file of the
            class. Two distributions in one file name theirs.

    Raises:
        ValueError: when a subclass is defined that takes a name of the package's; `Registered`.
    """

    name: ClassVar[str]
    kernel_functions: ClassVar[Mapping[str, Callable[..., Any]] | None] = None
    aliases: ClassVar[tuple[str, ...]] = ()
    formula: ClassVar[str]
    support: ClassVar[tuple[float, float]] = (-INF, INF)  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]  # a constant fills the property
    is_symmetric: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    in_float64: ClassVar[bool] = False

    @classmethod
    def examples(cls) -> tuple[StandardDistribution, ...]:
        """The instances that the tests run on."""
        return (cls(),)

    def _cdf(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _sf(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _pdf(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _icdf(self, q: Tensor) -> Tensor:
        raise NotImplementedError

    def _isf(self, q: Tensor) -> Tensor:
        raise NotImplementedError

    def _shape_slope(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _pdf_shape_slope(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    # -- evaluation

    def _bound(self, shape: Tensor | None) -> StandardDistribution:
        """This distribution with the shape tensor that autograd passes in, in place of its own."""
        return self if shape is None else cast("Any", replace)(self, shape=shape)

    def _inputs(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The argument and, if the shape is a tensor, the shape, alike in dtype and sizes."""
        shape = self.shape_parameter
        if self.in_float64 and x.device.type == "mps":  # which has none
            x = x.cpu()
        if not isinstance(shape, Tensor):
            return (x.double() if self.in_float64 else x), None
        x, shape = torch.broadcast_tensors(x, shape.to(x.device))
        dtype = torch.float64 if self.in_float64 else torch.result_type(x, shape)
        return x.to(dtype), shape.to(dtype)

    def _result_dtype(self, x: Tensor) -> torch.dtype:
        shape = self.shape_parameter
        wide = isinstance(shape, Tensor) and shape.ndim > 0
        return torch.promote_types(x.dtype, cast("Tensor", shape).dtype) if wide else x.dtype

    def tails_at(self, u: Tensor, parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
        """See `BaseDistribution`."""
        out = _tails(self, parts, *self._inputs(u))
        return tuple(v.to(u.device, self._result_dtype(u)) for v in out)

    def density_at(self, u: Tensor) -> Tensor:
        """See `BaseDistribution`."""
        z, shape = self._inputs(u)
        return _density(self._bound(shape), finite(z)).to(u.device, self._result_dtype(u))

    def quantile_at(self, q: Tensor, part: Part) -> Tensor:
        """See `BaseDistribution`."""
        out = _quantile(self, part, *self._inputs(q))
        return out.to(q.device, self._result_dtype(q))

    def median(self) -> Number:
        """See `BaseDistribution`."""
        if self.is_symmetric:
            return 0.0
        if isinstance(self.shape_parameter, Tensor):
            half = doubled(torch.tensor(0.5, device=self.shape_parameter.device))
            return self.quantile_at(half, "cdf")
        return _constant_median(type(self), self.shape_parameter)

    def __str__(self) -> str:
        names = [f.name for f in fields(cast("Any", self))]
        inside = ", ".join(f"{name}={number_text(getattr(self, name))}" for name in names)
        return f"{self.name}({inside})" if inside else self.name


class Symmetric(StandardDistribution):
    """A distribution with F(z) = 1 - F(-z), which needs only three hooks.

    `_cdf`, exact in its left tail; `_pdf`; `_icdf_lower`, the quantile of q <= 1/2.
    """

    is_symmetric: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def _icdf_lower(self, q: Tensor) -> Tensor:
        raise NotImplementedError

    def _sf(self, z: Tensor) -> Tensor:
        return self._cdf(-z)

    def _icdf(self, q: Tensor) -> Tensor:
        # 1 - q is exact for q >= 1/2, so the upper half loses nothing.
        upper = q > 0.5
        lower = self._icdf_lower(torch.where(upper, 1 - q, q))
        return torch.where(upper, -lower, lower)

    def _isf(self, q: Tensor) -> Tensor:
        return -self._icdf(q)


@constant
def _constant_median(cls: type[StandardDistribution], shape: float | None) -> float:
    """The median of a distribution whose parameters are numbers."""
    return _medians(cls, shape)


@lru_cache(maxsize=256)
def _medians(cls: type[StandardDistribution], shape: float | None) -> float:
    dist = cls() if shape is None else cls(shape)  # pyright: ignore[reportCallIssue]  # distributions are dataclasses
    return float(dist.quantile_at(torch.tensor(0.5, dtype=torch.float64, device="cpu"), "cdf"))


def _density(dist: StandardDistribution, z: Tensor) -> Tensor:
    out = dist._pdf(z)
    # A constant pdf would detach the graph, and a second derivative would raise instead of being 0.
    return out + 0 * z if z.requires_grad and not out.requires_grad else out


class _Tails(torch.autograd.Function):
    """cdf and / or sf of a distribution; the slope in z is +-pdf, in the shape +-dF/dshape.

    `torch.compile(dynamic=True)` makes inputs of floats that are global, and does not find them in
    a second call: formulas of distributions write such numbers out.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        dist: StandardDistribution, parts: tuple[Part, ...], z: Tensor, shape: Tensor | None
    ) -> tuple[Tensor, ...]:
        dist = dist._bound(shape)
        z = finite(z)
        return tuple(dist._cdf(z) if part == "cdf" else dist._sf(z) for part in parts)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.dist, ctx.parts, z, shape = inputs
        ctx.save_for_backward(z, shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        z, shape = ctx.saved_tensors
        z = finite(z)
        signed = [
            g if part == "cdf" else -g for part, g in zip(ctx.parts, grad_outputs, strict=True)
        ]
        grad = signed[0] if len(signed) == 1 else signed[0] + signed[1]
        slope = None
        if ctx.needs_input_grad[3]:
            slope = grad * _shape_slope(ctx.dist, z, shape)
        return None, None, grad * _density(ctx.dist._bound(shape), z), slope


class _ShapeSlope(torch.autograd.Function):
    """dF/dshape; its slope in z is dpdf/dshape, in the shape a central difference (1e-7 off)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(dist: StandardDistribution, z: Tensor, shape: Tensor) -> Tensor:
        return dist._bound(shape)._shape_slope(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.dist, z, shape = inputs
        ctx.save_for_backward(z, shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator is untyped
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[None, Tensor, Tensor | None]:
        (grad,) = grad_outputs
        z, shape = ctx.saved_tensors
        bend = None
        if ctx.needs_input_grad[2]:
            step = 1e-4 * shape
            above, below = (ctx.dist._bound(shape + h)._shape_slope(z) for h in (step, -step))
            bend = grad * (above - below) / (2 * step)
        return None, grad * ctx.dist._bound(shape)._pdf_shape_slope(z), bend


class _Quantile(torch.autograd.Function):
    """The inverse of cdf or sf; its slope is +-1 / pdf, 0 where the pdf vanishes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(dist: StandardDistribution, part: Part, q: Tensor, shape: Tensor | None) -> Tensor:
        dist = dist._bound(shape)
        out = dist._icdf(q) if part == "cdf" else dist._isf(q)
        return torch.where((q >= 0) & (q <= 1), out, float("nan"))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dist, ctx.part, _, shape = inputs
        ctx.save_for_backward(output, shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        z, shape = ctx.saved_tensors
        z = finite(z)
        pdf = _density(ctx.dist._bound(shape), z)
        known = pdf >= torch.finfo(pdf.dtype).tiny
        grad = torch.where(known, grad, 0.0) / torch.where(known, pdf, 1.0)
        slope = None
        if ctx.needs_input_grad[3]:
            slope = -grad * _shape_slope(ctx.dist, z, shape)
        return None, None, grad if ctx.part == "cdf" else -grad, slope


_tails, _shape_slope, _quantile = map(applied, (_Tails, _ShapeSlope, _Quantile))
