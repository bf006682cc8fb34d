"""A CDF of the user's own: the logistic written as one must behave like the logistic."""

import math

import pytest
import torch

import gendr
from gendr.distributions import CallableDistribution, from_callable, get
from support.cases import for_each
from support.graphs import assert_graph

F64 = torch.float64


def tent(z):
    """The CDF of the triangular distribution, valid on [-1, 1] only."""
    return torch.where(z < 0, 0.5 * (1 + z) ** 2, 1 - 0.5 * (1 - z) ** 2)


@for_each(form=["{}", "{}.reversed", "{}.shifted(0.4).squared", "{}.art(0.25)"])
def test_it_equals_the_distribution_it_copies(form):
    want = get(form.format("logistic"))
    got = from_callable(torch.sigmoid)
    got = got.reversed() if "reversed" in form else got
    got = got.shifted(0.4).squared() if "shifted" in form else got
    got = got.art(0.25) if "art" in form else got
    x = torch.linspace(-3, 3, 9, dtype=F64) + 0.1
    for part in ("cdf", "sf", "pdf"):
        assert torch.allclose(getattr(got, part)(x), getattr(want, part)(x), 0, 1e-13)
    assert not got.pdf(x).requires_grad
    assert torch.allclose(torch.func.vmap(got.pdf)(x), want.pdf(x), 0, 1e-13)
    slopes = [torch.func.vmap(torch.func.grad(dist.pdf))(x) for dist in (got, want)]
    assert torch.allclose(*slopes, 0, 1e-12)
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
    assert isinstance(from_callable(tent).squared().base, CallableDistribution)
    assert str(from_callable(tent).squared()) == "callable(tent).squared"


class Learnt(torch.nn.Module):
    """A CDF with float32 parameters, which takes no other dtype; it counts its calls."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = torch.nn.Linear(1, 1), 0
        torch.nn.init.constant_(self.layer.weight, 1e-5)  # wide

    def forward(self, z):
        self.calls += 1
        return torch.sigmoid(self.layer(z[..., None])[..., 0])


def test_what_is_no_cdf_is_refused():
    z = torch.zeros(2)
    for function, words in (
        (torch.relu, "at most 1, got"), (torch.tanh, "at least 0"), (torch.log, "number, got nan"),
        (lambda z: torch.sigmoid(-z), "never fall"), (lambda z: 0.5 + 0 * z, "from 0 to 1"),
        (lambda z: 0.5 + 0.3 * z / (1 + z.abs()), "from 0 to 1"),
    ):  # fmt: skip
        for call in (lambda d: d.cdf(z), lambda d: d.pdf(z), lambda d: d.icdf(z + 0.3)):
            with pytest.raises(ValueError, match=words):
                call(from_callable(function))
    with pytest.raises(ValueError, match="at most 1, got"):
        gendr.silhouette(torch.rand(1, 1, 3, 3) + 1, 4, dist=torch.relu)
    trap = from_callable(lambda z: torch.where(z > 0, 1 - torch.exp(-z), 0.0))
    assert trap.cdf(z).tolist() == [0, 0]
    with pytest.raises(ValueError, match="slope is NaN at z = -"):
        trap.cdf(z.clone().requires_grad_())


def test_every_cdf_is_taken_and_looked_at_once():
    z = torch.linspace(-3, 3, 7)
    for function, support in (
        (lambda z: (z >= 1e7).to(z.dtype), None), (lambda z: torch.sigmoid(1e9 * z), None),
        (lambda z: 0.5 + torch.atan(z.sign() * z.abs().log1p()) / math.pi, None),
        (lambda z: z**8 / (1 + z**8) * (z > 0), None), (torch.sqrt, (0, 1)),
        (lambda z: 0.5 + 0.5 * z, (0, 1)), (lambda z: z.clamp(0, 1), None),
        (torch.special.ndtr, None), (Learnt().forward, None),
    ):  # fmt: skip
        for x in (z, z.clone().requires_grad_()):
            assert from_callable(function, support).cdf(x).isfinite().all()
    learnt = Learnt()
    for _ in range(5):
        gendr.distributions.as_distribution(learnt).cdf(z)
        gendr.distributions.as_distribution(learnt.forward).cdf(z)
    assert learnt.calls == 10 + 2  # one for each, the module and its method
    compiled = torch.compile(from_callable(torch.sigmoid).cdf, fullgraph=True, backend="eager")
    assert torch.equal(compiled(z), torch.sigmoid(z))


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_graphs_break_at_densities():
    pdf, z = from_callable(torch.sigmoid).pdf, torch.linspace(-3, 3, 5, requires_grad=True)
    assert_graph(pdf, z, backend="aot_eager")


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
