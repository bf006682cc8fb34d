"""Soft functions of tensors against torch's in the limit, and against the mean over noise."""

import pytest
import torch
from torch.testing import assert_close

from gendr import soft
from support.graphs import assert_graph

X = torch.tensor([-1.7, -1.0, -0.6, -0.3, 0.2, 0.5, 0.9, 1.4], dtype=torch.float64)
HARD = [
    ("heaviside", lambda f: f(X, 1e-3), (X > 0).double()),
    ("greater", lambda f: f(X, 0.3, 1e-3), (X > 0.3).double()),
    ("less", lambda f: f(X, 0.3, 1e-3), (X < 0.3).double()),
    ("equal", lambda f: f(X, 0.5, 1e-3), (X == 0.5).double()),
    ("sign", lambda f: f(X, 1e-3), X.sign()),
    ("abs", lambda f: f(X, 1e-3), X.abs()),
    ("relu", lambda f: f(X, 1e-3), X.relu()),
    ("clamp", lambda f: f(X, -0.5, 0.7, 1e-3), X.clamp(-0.5, 0.7)),
    ("clamp", lambda f: f(X, max=0.7, scale=1e-3), X.clamp(max=0.7)),
    ("round", lambda f: f(X + 0.05, 1e-3), (X + 0.05).round()),
    ("histogram", lambda f: f(X, 5, scale=1e-4), torch.histc(X, 5)),
    ("histogram", lambda f: f(X + 0.01, 4, (-2.0, 2.0), 1e-4), torch.histc(X + 0.01, 4, -2, 2)),
]


def test_in_the_limit_they_are_those_of_torch():
    for name, call, truth in HARD:
        assert_close(call(getattr(soft, name)), truth, rtol=0, atol=1e-5)


SMOOTH = [
    ("heaviside", {}), ("sign", {}), ("abs", {}), ("relu", {}), ("round", {}),
    ("clamp", {"min": -0.5, "max": 0.7}), ("histogram", {"bins": 4, "range": (-2.0, 2.0)}),
    ("equal", {"b": 0.1}), ("greater", {"b": 0.1}), ("less", {"b": 0.1}),
]  # fmt: skip


@pytest.mark.rotating(4, group="long")
def test_gradients():
    for name, options in SMOOTH:
        for dist in ("logistic", "gaussian", "cauchy"):
            scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
            x = (X + 0.013).requires_grad_()
            function = getattr(soft, name)
            call = lambda x, s, f=function, d=dist, o=options: f(x, scale=s, dist=d, **o)  # noqa: E731
            assert torch.autograd.gradcheck(call, (x, scale)), (name, dist)
            assert torch.autograd.gradgradcheck(call, (x, scale)), (name, dist)


def test_gradients_of_what_probabilities_choose():
    p = torch.rand(3, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    a, b = (torch.randn(3, 5, dtype=torch.float64).requires_grad_() for _ in range(2))
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(soft.where, (p, a, b))
        assert check(soft.take_along_dim, (a, p))


def test_they_are_means_over_noise():
    u = torch.rand(400_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = 0.3 * (u.log() - (-u).log1p())  # logistic
    noisy = X[:, None] + noise
    assert_close(soft.heaviside(X, 0.3), (noisy > 0).double().mean(-1), rtol=0, atol=3e-3)
    assert_close(soft.abs(X, 0.3), (X[:, None] * noisy.sign()).mean(-1), rtol=0, atol=5e-3)
    within = noise.abs() < 0.5
    assert_close(soft.round(X, 0.3), noisy[:, within].round().mean(-1), rtol=0, atol=5e-3)
    counts = torch.stack([torch.histc(row, 4, -2, 2) for row in noisy]).sum(0) / len(u)
    assert_close(soft.histogram(X, 4, (-2, 2), 0.3), counts.double(), rtol=0, atol=2e-2)


def test_round_is_monotonic_and_meets_integers():
    x = torch.linspace(-2, 2, 4001, dtype=torch.float64)
    for scale in (0.02, 0.3, 5.0):
        y = soft.round(x, scale, "cauchy")
        assert (y.diff() >= -1e-12).all()
        assert_close(y[::1000], x[::1000])


def test_where_leaves_out_what_is_not_taken():
    p = torch.tensor([0.0, 1.0, 0.25], requires_grad=True)
    a = torch.tensor([float("nan"), 1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, float("inf"), 4.0], requires_grad=True)
    y = soft.where(p, a, b)
    assert_close(y, torch.tensor([3.0, 1.0, 3.5]))
    y.sum().backward()
    assert_close(a.grad, torch.tensor([0.0, 1.0, 0.25]))
    assert_close(b.grad, torch.tensor([1.0, 0.0, 0.75]))
    assert p.grad is not None
    assert p.grad.isfinite().all()
    assert soft.where(torch.tensor([True, False]), 1.0, torch.zeros(2)).tolist() == [1, 0]
    wide = soft.where(p.double(), X[:3], X[3:6])  # in the dtype of the branches
    assert_close(soft.where(p.detach().half(), X[:3], X[3:6]), wide)


def test_soft_indices_take():
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    index = torch.tensor([4, 0])
    hard = torch.nn.functional.one_hot(index, 5).double()
    assert_close(soft.take_along_dim(x, hard, 1), x[:, index])
    with pytest.raises(ValueError, match="must end in 5"):
        soft.take_along_dim(x, hard[:, :4], 1)


def test_all_of_a_histogram_is_counted_by_default():
    x = torch.randn(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.rand(3, 20, dtype=torch.float64)
    found = soft.histogram(x, 7, scale=0.5, weight=weight)
    assert found.shape == (3, 7)
    assert_close(found.sum(-1), weight.sum(-1))
    assert soft.histogram(x[:, :0], 7).tolist() == 3 * [7 * [0]]


REFUSED = [
    (lambda: soft.clamp(X), "min, max or both"),
    (lambda: soft.sign(X, 0.0), "scale must be > 0"),
    (lambda: soft.round(X, dist="exponential"), "symmetric"),
    (lambda: soft.equal(X, 0.0, dist="heaviside"), "density at 0"),
    (lambda: soft.histogram(X, 0), "bins must be >= 1"),
    (lambda: soft.histogram(X, torch.tensor([1.0, 0.0])), "must ascend"),
    (lambda: soft.histogram(X, torch.tensor([0.0, torch.nan])), "must ascend"),
    (lambda: soft.histogram(X, 3, (1.0, 0.0)), "range must ascend"),
    (lambda: soft.histogram(X, 3, (0.0, torch.inf)), "range must ascend and be finite"),
    (lambda: soft.histogram(X / 0, 3), "x must be finite"),
    (lambda: soft.histogram(X, 3, weight=X[:2]), "shape of x"),
    (lambda: soft.histogram(X[0]), "single number"),
    (lambda: soft.clamp(X, 1.0, 0.0), "min <= max"),
    (lambda: soft.clamp(X, X, X - 1), "min <= max"),
    (lambda: soft.where(3 * X, X, X), r"\[0, 1\], got values from -5.1"),
    (lambda: soft.equal(X, 0.0, torch.tensor(-1.0)), "scale must be > 0"),
]


def test_bad_input_is_refused():
    for call, said in REFUSED:
        with pytest.raises(ValueError, match=said):
            call()
    for call, said in (
        (lambda: soft.sign(torch.tensor([1, 2])), "x must be"),
        (lambda: soft.histogram(X, 2.5), "bins must be an int"),
        (lambda: soft.histogram(X, 3, 2.0), "range must be a pair"),
        (lambda: soft.clamp(torch.tensor([1, 2]), 0, 1), "x must be floating"),
        (lambda: soft.round(X, "narrow"), "scale must be a number"),
        (lambda: soft.take_along_dim(X, torch.ones(1, 8)), "dtype of x, float64"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


def test_infinite_values():
    """As torch: relu of -inf is 0, an infinite limit none. Of an infinite scale round is x."""
    ends = torch.tensor([-torch.inf, torch.inf], dtype=torch.float64, requires_grad=True)
    assert soft.relu(ends).tolist() == [0.0, torch.inf]
    assert torch.autograd.grad(soft.relu(ends).sum(), ends)[0].tolist() == [0.0, 1.0]
    assert_close(soft.clamp(X, -torch.inf, 0.7), soft.clamp(X, max=0.7))
    assert soft.clamp(ends, 0.1, 0.7).tolist() == [0.1, 0.7]  # limits have all digits
    both = soft.clamp(ends, -1.0, 2.0)
    assert both.tolist() == [-1.0, 2.0]
    assert torch.autograd.grad(both.sum(), ends)[0].tolist() == [0.0, 0.0]
    # Nor do large ones cancel against the limits.
    assert_close(soft.clamp(torch.tensor([-1e30, 1e8]), -1.0, 2.0), torch.tensor([-1.0, 2.0]))
    assert (
        soft.clamp(torch.tensor(-1e30), min=-1.0) == -1.0 == -soft.clamp(torch.tensor(1e9), max=1.0)
    )
    assert soft.round(ends).tolist() == [-torch.inf, torch.inf]
    assert_close(soft.round(X.float(), 1e9), X.float(), rtol=0, atol=2e-4)


@pytest.mark.graphs
def test_half_precision_and_graphs():
    x = torch.randn(6, dtype=torch.bfloat16)
    assert {getattr(soft, n)(x, **o).dtype for n, o in SMOOTH} == {torch.bfloat16}
    # Inside they are wider: 299.9 is 300 in bfloat16.
    assert soft.greater(300 + 0 * x, 299.9).eq(torch.tensor(1.0).sigmoid().to(x)).all()
    exported = torch.export.export(
        _Round(), (torch.randn(4, 3),), dynamic_shapes=[{0: torch.export.Dim("b")}]
    )
    y = torch.randn(7, 3)
    assert_close(exported.module()(y), soft.round(y))


class _Round(torch.nn.Module):
    def forward(self, x):
        return soft.round(x)


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_limits_and_branches_are_one_graph():
    for call in (lambda x: soft.clamp(x, -1, 1), lambda x: soft.where(x.sigmoid(), x, 0.0)):
        assert_graph(call, X.clone(), fullgraph=True, backend="eager")
    types = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool)
    tensors = [torch.zeros(shape, dtype=dtype) for dtype in types for shape in ((), (1,))]
    for x in tensors[:8]:
        for other in (*tensors, 1, 2.0, True):
            assert soft._meeting(x, other) == torch.result_type(x, other)
