"""Random numbers of every distribution, against its CDF."""

import numpy as np
import pytest
import scipy.stats
import torch

from gendr import distributions
from support.cases import for_each
from support.distributions import SMOOTH, forms

DISTRIBUTIONS = [*SMOOTH, *forms(distributions.get("gamma", shape=2.0))]


@for_each(scale=[1.0, 0.3], dist=DISTRIBUTIONS, rotating=4)
def test_numbers_have_the_cdf(dist, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    x = dist.sample((4000,), scale, generator=generator, dtype=torch.float64)
    # Kolmogorov and Smirnov; one of some ten thousand sets of samples is as far off.
    probability = scipy.stats.kstest(x.numpy(), lambda t: dist(torch.from_numpy(t), scale).numpy())
    assert probability.pvalue > 1e-4


def test_shapes_dtypes_and_seeds():
    dist = distributions.get("logistic")
    first, second = (
        dist.sample((3, 4), generator=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert torch.equal(first, second)
    assert first.shape == (3, 4)
    assert first.dtype == torch.get_default_dtype()
    assert dist.sample(dtype=torch.float64).dtype == torch.float64
    assert not torch.equal(dist.sample((9,)), dist.sample((9,)))
    assert torch.equal(distributions.get("heaviside").sample((5,)), torch.zeros(5))


def test_gradients_flow_to_scale_and_shape():
    scale = torch.tensor([0.5, 2.0], requires_grad=True)
    shape = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    dist = distributions.get("gamma", shape=shape)

    def draw(step=0.0):
        other = distributions.get("gamma", shape=shape.detach() + step)
        return other.sample((2,), generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    x = dist.sample((2,), scale, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    by_scale, by_shape = torch.autograd.grad(x.sum(), (scale, shape))
    np.testing.assert_allclose(by_scale.numpy(), draw().numpy(), rtol=1e-6)
    slope = ((draw(1e-4) - draw(-1e-4)) / 2e-4 * scale.detach()).sum()
    assert abs(by_shape - slope) < 1e-5


def test_a_scale_must_be_positive():
    with pytest.raises(ValueError, match="scale must be > 0"):
        distributions.get("logistic").sample((2,), -1.0)
