"""Stochastic smoothing: the gradient of the expectation under noise on the input.

With noise of density f and s(e) = -f'(e) / f(e),

    grad E[g(x + scale e)] = E[(g(x + scale e) - c) s(e)] / scale

for any c that does not depend on e, the control variate.

Source: thesis, Lemma 2.1 (Abernethy et al., 2016); Kool et al. for leave-one-out, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_number
from gendr._common.evaluations import Evaluations
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.base import Estimator, Gradient

Control: TypeAlias = Literal["none", "value", "leave_one_out"]


@worded()
@dataclass(frozen=True)
class Smoothing(Estimator):
    """Stochastic smoothing of an algorithm, or of an algorithm and its loss as one function.

    Args:
        samples: of the noise, for each input.
        scale: of the noise, in units of the input.
        dist: its distribution; it must have a density without jumps or infinite slopes, as all
            distributions on the whole line have.
        control: what is subtracted from the results: nothing, the result without noise (one more
            evaluation), or the mean of the other samples.
        antithetic: every sample is used with both signs; symmetric distributions, even number of
            samples.
        result: what the function returns, the "mean" over the samples or the "hard" value.
    """

    name: ClassVar[str] = "smoothing"

    samples: int = 10
    scale: float = 1.0
    dist: DistributionLike = "gaussian"
    control: Control = "leave_one_out"
    antithetic: bool = False
    result: Literal["mean", "hard"] = "mean"

    def __post_init__(self) -> None:
        check_count("samples", self.samples)
        check_number("scale", self.scale, above=0)
        check_choice("control", self.control, ("none", "value", "leave_one_out"))
        check_choice("result", self.result, ("mean", "hard"))
        dist = as_distribution(self.dist)
        check_score(dist)
        if self.antithetic and (not dist.is_symmetric or bool(dist.total_shift())):
            raise ValueError(
                f"antithetic samples need a symmetric distribution without a shift, got {dist}"
            )
        if self.antithetic and self.samples % 2:
            raise ValueError(f"antithetic samples come in pairs, got {self.samples}")
        units = self.samples // 2 if self.antithetic else self.samples
        if self.control == "leave_one_out" and units < 2:
            raise ValueError(
                "control='leave_one_out' needs two samples (antithetic: two pairs) or more, "
                f"got {self.samples}; use 'value'"
            )

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        dist = as_distribution(self.dist)
        noise = drawn(dist, self.samples, x, generator, antithetic=self.antithetic)
        inputs = x + self.scale * noise
        results = function(inputs.flatten(0, 1)).unflatten(0, (self.samples, len(x)))
        own = None
        if self.control == "value" or self.result == "hard":
            own = function(x)
        result = own if self.result == "hard" and own is not None else results.mean(0)
        return result, (noise, results, own)

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        noise, results, own = saved
        dims = tuple(range(2, results.ndim))
        losses = (results * grad).sum(dims) if dims else results * grad  # [S, N]
        units = self.samples // 2 if self.antithetic else self.samples
        pairs = losses.unflatten(0, (-1, units)) if self.antithetic else losses[None]
        if self.control == "value":
            pairs = pairs - (own * grad).reshape(len(x), -1).sum(1)
        elif self.control == "leave_one_out":
            means = pairs.mean(0)
            pairs = pairs - (means.sum(0) - means) / (units - 1)
        score = score_of(as_distribution(self.dist), noise) / self.scale
        score = score.unflatten(0, (-1, units)) if self.antithetic else score[None]
        weight = pairs.reshape(*pairs.shape, *(1 for _ in x.shape[1:]))
        each = (weight * score).mean(0)  # [units, N, *event], one estimate each
        variance = each.var(0) / units if units > 1 else torch.full_like(x, torch.nan)
        return Gradient(each.mean(0), variance)


def drawn(
    dist: Distribution,
    samples: int,
    x: Tensor,
    generator: torch.Generator | None,
    *,
    antithetic: bool = False,
) -> Tensor:
    """Noise [S, *x.shape] of scale 1; antithetic: the second half is the negative of the first."""
    count = samples // 2 if antithetic else samples
    noise = dist.sample((count, *x.shape), generator=generator, dtype=x.dtype).to(x.device)
    return torch.cat([noise, -noise]) if antithetic else noise


def score_of(dist: Distribution, noise: Tensor) -> Tensor:
    """-f'(e) / f(e), the negative slope of the logarithm of the density."""
    with torch.enable_grad():
        e = noise.detach().requires_grad_()
        pdf = dist.pdf(e)
        (slope,) = torch.autograd.grad(pdf.sum(), e)
    pdf = pdf.detach()
    return -slope / torch.where(pdf > 0, pdf, 1.0)


def curvature_of(dist: Distribution, noise: Tensor) -> Tensor:
    """f''(e) / f(e), the second derivative of the density over itself."""
    with torch.enable_grad():
        e = noise.detach().requires_grad_()
        (slope,) = torch.autograd.grad(dist.pdf(e).sum(), e, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), e)
    pdf = dist.pdf(noise)
    return second / torch.where(pdf > 0, pdf, 1.0)


def check_curvature(dist: Distribution) -> None:
    """Refuse a distribution whose density has a kink: `curvature_of` does not see it.

    The mean of the curvature is 0 for others, as the slope of the density is so at both ends.

    Raises:
        ValueError: it has one.
    """
    levels = (torch.arange(1000, dtype=torch.float64, device="cpu") + 0.5) / 1000
    curvature = curvature_of(dist, dist.icdf(levels).detach())
    if not bool(curvature.mean().abs() < 0.5 * curvature.abs().mean()):
        raise ValueError(
            f"a Hessian needs a density without kinks, got {dist}; use gaussian, logistic, cauchy, "
            'or NewtonLoss(loss, "fisher")'
        )


def check_score(dist: Distribution) -> None:
    """Refuse a distribution whose density jumps: then the slope of its logarithm is not enough.

    Where the density has an infinite slope, that of its logarithm has an infinite variance.

    Raises:
        ValueError: its density has one of these at an end of its support, or it is a step.
    """
    for end, side in zip(dist.support, (1, -1), strict=True):
        if abs(end) == float("inf"):
            continue
        inside = torch.tensor([end + side * 1e-6, end + side * 1e-9], dtype=torch.float64)
        near, nearer = dist.pdf(inside)
        if dist.support[0] == dist.support[1] or bool(near < 900 * nearer):
            raise ValueError(
                f"smoothing needs a density without jumps or infinite slopes, got {dist}; use "
                "gaussian, logistic, cauchy or another distribution on the whole line"
            )
