"""Losses whose derivatives are known in closed form. Source: thesis, Examples 7.2 to 7.4."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gendr._common.checks import check_classes, check_float, check_like, check_shape, shape_text
from gendr._common.tracing import all_hold, in_single
from gendr.optim.curvature import Derivatives


class SoftmaxCrossEntropy(nn.Module):
    """-sum of p log softmax(y): a number for each sample, (7.29)."""

    @in_single
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss [N] of scores [N, k].

        Args:
            output: scores y [N, k].
            target: the probabilities p [N, k] of the classes, or the true class of each, [N] of
                integers.

        Raises:
            TypeError: if the scores are no floats.
            ValueError: if the shapes do not fit, a class is out of range, or a probability is
                negative or NaN.
        """
        return -(self._probabilities(output, target) * output.log_softmax(1)).sum(1)

    @in_single
    def derivatives(self, output: Tensor, target: Tensor, *, hessian: bool = True) -> Derivatives:
        """Q - p and diag(q) - q q^T, the Hessian of (7.31), where p sums to 1."""
        p = self._probabilities(output, target)
        total = p.sum(1, keepdim=True)
        q = output.softmax(1)
        second = None
        if hessian:
            second = (torch.diag_embed(q) - q[:, :, None] * q[:, None]) * total[..., None]
        return Derivatives(self(output, target), total * q - p, second)

    @staticmethod
    def _probabilities(output: Tensor, target: Tensor) -> Tensor:
        check_shape("output", check_float("output", output), "[N, k]")
        if target.ndim == 1 and not target.is_floating_point():
            if len(target) != len(output):
                raise ValueError(
                    f"target must have one class for each of {len(output)} outputs, got "
                    f"{shape_text(target.shape)}"
                )
            check_classes(target, output.shape[1])
            return F.one_hot(target.long(), output.shape[1]).to(output)
        return _alike(output, target, most=math.inf)


class BinaryCrossEntropy(nn.Module):
    """-sum of p log y + (1 - p) log(1 - y): a number for each sample, (7.34).

    The Hessian in print, (7.36), has a wrong sign at (1 - p) / (1 - y)^2, and (7.38) at the
    gradient; the derivatives here are those of the loss, checked against autograd.
    """

    @in_single
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss [N] of probabilities y [N, m] in [0, 1], for p [N, m] in [0, 1].

        At y = 0 or 1 it has derivatives only where p is the same.

        Raises:
            TypeError: if one of them is no tensor of floats.
            ValueError: if the shapes differ, or numbers are out of range or NaN.
        """
        p = _alike(output, target)
        if not all_hold((output >= 0) & (output <= 1)):
            raise ValueError(
                f"output must have probabilities in [0, 1], got {output.min():g} to "
                f"{output.max():g}; scores belong to SigmoidBinaryCrossEntropy"
            )
        # torch limits logarithms to -100, so that y = 0 or 1 has a finite loss.
        return F.binary_cross_entropy(output, p, reduction="none").flatten(1).sum(1)

    @in_single
    def derivatives(self, output: Tensor, target: Tensor, *, hessian: bool = True) -> Derivatives:
        """(1 - p) / (1 - y) - p / y, and its slope on the diagonal.

        A term with p = 0 or 1 - p = 0 is zero for all y, at y = 0 and y = 1 too.
        """
        p = _alike(output, target)
        there, not_there = 1 / output, 1 / (1 - output)
        gradient = _times(1 - p, not_there) - _times(p, there)
        second = _times(p, there.square()) + _times(1 - p, not_there.square())
        return Derivatives(
            self(output, target), gradient.flatten(1), second.flatten(1) if hessian else None
        )


class SigmoidBinaryCrossEntropy(nn.Module):
    """`BinaryCrossEntropy` of sigmoid(y): a number for each sample, (7.39)."""

    @in_single
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss [N] of scores y [N, m], for p [N, m] in [0, 1].

        Raises:
            TypeError: if one of them is no tensor of floats.
            ValueError: if the shapes differ, or a probability is out of range or NaN.
        """
        p = _alike(output, target)
        each = F.binary_cross_entropy_with_logits(output, p, reduction="none")
        return each.flatten(1).sum(1)

    @in_single
    def derivatives(self, output: Tensor, target: Tensor, *, hessian: bool = True) -> Derivatives:
        """sigmoid(y) - p, and sigmoid(y) sigmoid(-y) on the diagonal, (7.41)."""
        p = _alike(output, target)
        q = output.sigmoid()
        second = (q * (-output).sigmoid()).flatten(1) if hessian else None
        return Derivatives(self(output, target), (q - p).flatten(1), second)


def _times(p: Tensor, x: Tensor) -> Tensor:
    """P x, and 0 for p = 0 whatever x is."""
    return torch.where(p > 0, p * x, 0.0)


def _alike(output: Tensor, target: Tensor, most: float = 1.0) -> Tensor:
    """The target if it is like the output, and its numbers are probabilities."""
    y = check_float("output", output)
    p = check_like("target", check_float("target", target), "output", y)
    if p.shape != y.shape or y.ndim < 2:
        raise ValueError(
            "output and target must have one shape, [N, ...], got "
            f"{shape_text(y.shape)} and {shape_text(p.shape)}"
        )
    if not all_hold((p >= 0) & (p <= most)):
        raise ValueError(
            f"target must have probabilities {'in [0, 1]' if most == 1 else '>= 0'}, got "
            f"{p.min():g} to {p.max():g}"
        )
    return p
