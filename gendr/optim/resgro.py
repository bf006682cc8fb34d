"""RESGRO, the regularised sampling greedy optimiser: a step for objectives without gradients.

Around the output y of a network K samples are drawn, and the best of them is the target z*. The
mean of that over many sets of K is less noisy. The thesis (7.47) draws such sets out of M samples;
here their mean over all sets is taken in closed form: sorted from the best, sample r of M is the
best of a random set of K with the probability C(M - r, K - 1) / C(M, K).

Source: thesis, 7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gendr._common.checks import check_count, check_finite, check_number
from gendr._common.evaluations import Evaluations, Parallel
from gendr._common.words import worded
from gendr.distributions import Heaviside, as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.optim.split import checked_output, distance_to


@worded()
class RESGRO(nn.Module):
    """A loss whose gradient leads to the best of random samples around the output.

    >>> criterion = RESGRO(objective, k=10, m=100, scale=0.5)
    >>> criterion(model(x), y).backward()          # objective(z, y_i) for samples z of one output

    Args:
        objective: takes a sample, an array of the shape of one output, and one entry of each
            further argument; returns a number. Any function of Python or NumPy; it need not be
            continuous.
        k: how many samples the best is taken of; the fewer, the nearer z* stays to the output.
        m: how many samples are drawn, >= k; by default k, so that z* is the best of them, (7.46).
        scale: of the noise, in units of the output.
        dist: its distribution; any that can be sampled and has a width, all but "heaviside".
        minimize: whether the smallest value is the best; else the largest.
        batched: the objective takes stacks, [N * m, *event] and arguments of as many entries, and
            returns [N * m].
        workers: how many threads or processes evaluate it.
        parallel: "threads", or "processes" for functions that hold the lock of Python; these must
            be importable.
        seed: of the samples; by default the randomness of torch.

    Attributes:
        value: the mean over the batch of the best value among the m samples, in the last call;
            None before the first.

    Raises:
        TypeError: if the objective is no function, or a setting no number.
        ValueError: if a setting is out of range, or m < k.
    """

    value: Tensor | None

    def __init__(
        self,
        objective: Callable[..., Any],
        k: int,
        m: int | None = None,
        *,
        scale: float = 1.0,
        dist: DistributionLike = "gaussian",
        minimize: bool = True,
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.k = check_count("k", k)
        self.m = check_count("m", self.k if m is None else m)
        if self.m < self.k:
            raise ValueError(f"m must be >= k: the best of {k} is taken out of m samples, got {m}")
        self.scale = check_number("scale", scale, above=0)
        self.dist, self.minimize = as_distribution(dist), minimize
        if isinstance(self.dist, Heaviside):
            raise ValueError(
                "dist 'heaviside' makes no noise, so that all samples are the output itself; use "
                "'gaussian'"
            )
        self._objective = Evaluations(
            objective, batched=batched, workers=workers, parallel=parallel
        )
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.value = None

    def forward(self, output: Tensor, *args: Any) -> Tensor:
        """The mean of 1/2 ||z* - y||^2 over the samples of outputs [N, *event].

        Raises:
            TypeError: if the output is no tensor of floats.
            ValueError: if it has no gradient or is not finite, if an argument has not N entries, or
                if the objective returns something else than finite numbers.
        """
        return distance_to(self.target(checked_output(output), *args), output)

    def target(self, output: Tensor, *args: Any) -> Tensor:
        """The targets z* of outputs [N, *event], in their shape."""
        y = check_finite("output", output.detach())
        noise = self.dist.sample((self.m, *y.shape), generator=self._generator, dtype=y.dtype)
        samples = (y + self.scale * noise.to(y.device)).movedim(1, 0)  # [N, m, *event]
        values = self._objective.of_samples(samples, args)
        self.value = (values.amin(1) if self.minimize else values.amax(1)).mean()
        weights = _weights(values if self.minimize else -values, self.k).to(y)
        return (weights.reshape(*weights.shape, *(1 for _ in y.shape[1:])) * samples).sum(1)

    def close(self) -> None:
        """End the threads or processes of the objective."""
        self._objective.close()


def _weights(values: Tensor, k: int) -> Tensor:
    """The probability [N, m] of each sample to be the best of a random set of k; ties share it."""
    m = values.shape[1]
    rank = torch.arange(m, dtype=torch.float64, device="cpu")
    # C(m - 1 - r, k - 1) / C(m, k), by logarithms of factorials; 0 where fewer than k are left.
    left = m - 1 - rank
    some = left >= k - 1
    left = torch.where(some, left, float(k))
    logs = _log_binomial(left, k - 1) - _log_binomial(
        torch.tensor(float(m), dtype=torch.float64, device="cpu"), k
    )
    share = torch.where(some, logs.exp(), 0.0)
    sums = torch.cat([torch.zeros(1, dtype=torch.float64, device="cpu"), share.cumsum(0)])
    ordered = values.sort(1).values
    low = torch.searchsorted(ordered, values.contiguous(), side="left")
    high = torch.searchsorted(ordered, values.contiguous(), side="right")
    return (sums[high] - sums[low]) / (high - low)


def _log_binomial(n: Tensor, k: int) -> Tensor:
    down = torch.lgamma(torch.tensor(k + 1.0, dtype=torch.float64, device="cpu"))
    return torch.lgamma(n + 1) - torch.lgamma(n - k + 1) - down
