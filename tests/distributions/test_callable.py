"""A CDF of the user's own: the logistic written as one must behave like the logistic."""

import pytest
import torch

from gendr.distributions import CallableDistribution, from_callable, get

F64 = torch.float64


def tent(z):
    """The CDF of the triangular law, valid on [-1, 1] only."""
    return torch.where(z < 0, 0.5 * (1 + z) ** 2, 1 - 0.5 * (1 - z) ** 2)


@pytest.mark.parametrize("form", ["{}", "{}.reversed", "{}.shifted(0.4).squared", "{}.art(0.25)"])
def test_it_equals_the_law_it_copies(form):
    want = get(form.format("logistic"))
    got = from_callable(torch.sigmoid)
    for word in form.split(".")[1:]:
        name = word.partition("(")[0]
        if name in ("reversed", "squared"):
            got = getattr(got, name)()
    got = got.shifted(0.4) if "shifted" in form else got
    got = got.art(0.25) if "art" in form else got
    x = torch.linspace(-3, 3, 9, dtype=F64) + 0.1
    for part in ("cdf", "sf", "pdf"):
        assert torch.allclose(getattr(got, part)(x), getattr(want, part)(x), 0, 1e-13)
    q = torch.tensor([1e-4, 0.1, 0.5, 0.9], dtype=F64)
    for part in ("icdf", "isf"):
        assert torch.allclose(getattr(got, part)(q), getattr(want, part)(q), 1e-11, 1e-12)
    inputs = (x.clone().requires_grad_(), torch.tensor(0.7, dtype=F64, requires_grad=True))
    assert torch.autograd.gradcheck(got.coverage, inputs)
    assert torch.autograd.gradgradcheck(got.coverage, inputs, fast_mode=True)


def test_outside_its_support_it_is_not_called():
    dist = from_callable(tent, (-1, 1))
    x = torch.tensor([-float("inf"), -7.0, -1.0, 0.0, 1.0, 7.0], dtype=F64, requires_grad=True)
    assert dist.cdf(x).tolist() == [0, 0, 0, 0.5, 1, 1]
    (slope,) = torch.autograd.grad(dist.cdf(x).sum(), x)
    assert slope[[0, 1, 5]].tolist() == [0, 0, 0]
    assert dist.icdf(torch.tensor([0.0, 1.0], dtype=F64)).tolist() == [-1, 1]
    assert dist.reversed().squared().support == (-1, 1)


def test_radius():
    assert from_callable(torch.sigmoid).radius(0.1, 1e-2) == float("inf")
    assert from_callable(tent, (-1, 1)).radius(0.1, 0.0).item() == pytest.approx(0.1, rel=2e-5)
    one_sided = from_callable(lambda z: 1 - torch.exp(-z), (0, float("inf")))
    assert one_sided.radius(0.1, 1e-3) == 0
    assert one_sided.reversed().radius(0.1, 1e-3) == float("inf")


def test_parameters_of_the_callable_receive_gradients():
    slope = torch.tensor(1.3, dtype=F64, requires_grad=True)
    x = torch.tensor([-0.4, 0.9], dtype=F64)

    def values(slope):
        skewed = from_callable(lambda z: torch.sigmoid(slope * z) ** slope)
        return (*skewed.centred().coverage(x, 0.5), skewed.icdf(torch.tensor([0.2]).double()))

    assert torch.autograd.gradcheck(values, (slope,))


def test_a_step_has_no_gradient():
    step = from_callable(lambda z: (z >= 0.25).to(z.dtype))
    x = torch.tensor([0.0, 1.0], dtype=F64, requires_grad=True)
    assert (step.pdf(x) == 0).all()
    assert step.icdf(torch.tensor(0.5, dtype=F64)).item() == pytest.approx(0.25, abs=1e-15)


def test_identity_and_text():
    assert from_callable(tent) == from_callable(tent)
    assert from_callable(tent) != from_callable(tent, (-1, 1))
    assert isinstance(from_callable(tent).squared().law, CallableDistribution)
    assert str(from_callable(tent).squared()) == "callable(tent).squared"


def test_bad_callables():
    for call in (
        lambda: from_callable("logistic"),
        lambda: from_callable(torch.nn.Sigmoid),
        lambda: from_callable(tent, 1),
        lambda: from_callable(tent, (1, 2, 3)),
        lambda: from_callable(lambda z: 0.5).cdf(0.0),
        lambda: from_callable(torch.sum).cdf(torch.zeros(3)),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="low < high"):
        from_callable(tent, (1, -1))
