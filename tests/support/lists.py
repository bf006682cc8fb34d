"""Masked results held against those of every list alone, without what is absent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0],
     [1, 1, 0, 0, 0, 1], [0, 1, 1, 1, 1, 0]],
    dtype=torch.bool,
)  # fmt: skip


def poisoned(x: Tensor, mask: Tensor = MASK) -> Tensor:
    """x with NaN and infinities where it is absent; requires a gradient."""
    bad = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=x.dtype)
    return torch.where(mask, x, bad[torch.arange(x.shape[-1]) % 3]).requires_grad_()


def assert_of_lists(
    masked: Tensor,
    of_list: Callable[[Tensor, int], Tensor],
    x: Tensor,
    *,
    dims: str,
    mask: Tensor = MASK,
) -> None:
    """Values and gradients of masked [..., *dims] are those of `of_list` of every list alone."""
    torch.manual_seed(3)
    weights = torch.randn(masked.shape, dtype=masked.dtype)
    (got,) = torch.autograd.grad((masked * weights).sum(), x, retain_graph=True)
    want, gradient = torch.zeros_like(masked), torch.zeros_like(x)
    for row, here in enumerate(mask):
        if not here.any():
            continue
        alone = x.detach()[row, here].requires_grad_()
        places = here.nonzero()[:, 0]
        result = of_list(alone, row)
        at = [row]
        for letter, size in zip(dims, result.shape, strict=True):
            at.append(places if letter == "n" else torch.arange(size))
        index = torch.meshgrid(*[torch.as_tensor([a]) if isinstance(a, int) else a for a in at],
                               indexing="ij")  # fmt: skip
        want[index] = result.detach()[None]
        part = (result * weights[index][0]).sum() + 0 * alone.sum()
        gradient[row, here] = torch.autograd.grad(part, alone)[0]
    torch.testing.assert_close(masked.detach(), want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(got, gradient, rtol=1e-8, atol=1e-10)
    assert (got[~mask] == 0).all()
