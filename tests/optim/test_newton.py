"""Newton losses: their targets by SciPy, Hessians by autograd and by differences, odd losses."""

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F

from gendr import sorting
from gendr.optim import (
    BinaryCrossEntropy,
    Derivatives,
    NewtonLoss,
    SigmoidBinaryCrossEntropy,
    SoftmaxCrossEntropy,
    derivatives,
)
from gendr.relaxed import levenshtein, shortest_path
from gendr.topk import TopKCrossEntropy
from support.cases import for_each
from support.graphs import assert_graph

CLOSED = {
    SoftmaxCrossEntropy: lambda y, p: F.cross_entropy(y, p, reduction="none"),
    BinaryCrossEntropy: lambda y, p: F.binary_cross_entropy(y, p, reduction="none").sum(1),
    SigmoidBinaryCrossEntropy: lambda y, p: F.binary_cross_entropy_with_logits(
        y, p, reduction="none"
    ).sum(1),
}


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cosh(y, t):
    """A convex loss that is not quadratic; its samples have shape [2, 2]."""
    d = (y - t).flatten(1)
    return d.cosh().sum(1) + (d[:, 0] + 2 * d[:, 1] - d[:, 3]).square()


def expected_target(y, gradient, hessian, curvature, tikhonov):
    """Definitions 7.1 to 7.3 by SciPy."""
    g, h = gradient.numpy(), hessian.numpy()
    eye = np.eye(g.shape[1])
    means = {"hessian": h.mean(0), "fisher": sum(np.outer(row, row) for row in g) / len(g)}
    rows = []
    for i in range(len(g)):
        matrix = means.get(curvature, h[i])
        rows.append(scipy.linalg.solve(matrix + tikhonov * eye, g[i], assume_a="sym"))
    return y - torch.from_numpy(np.stack(rows)).reshape(y.shape)


@for_each(
    count=[1, 3, 9], curvature=["hessian", "fisher", "elementwise"], tikhonov=[1e-3, 0.1, 10.0]
)
def test_target_equals_a_solve_by_scipy(curvature, tikhonov, count):
    y, t = random(count, 2, 2), random(count, 2, 2, seed=1)
    x = y.clone().requires_grad_()
    (g,) = torch.autograd.grad(cosh(x, t).sum(), x)
    h = torch.stack(
        [
            torch.autograd.functional.hessian(lambda v, i=i: cosh(v[None], t[i : i + 1])[0], y[i])
            for i in range(count)
        ]
    ).reshape(count, 4, 4)
    expected = expected_target(y, g.reshape(count, 4), h, curvature, tikhonov)
    found = NewtonLoss(cosh, curvature, tikhonov=tikhonov).target(y, t)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_float32_targets_are_those_of_float64():
    y, t = random(8, 2, 2), random(8, 2, 2, seed=1)
    for curvature in ("hessian", "fisher", "elementwise"):
        exact = NewtonLoss(cosh, curvature).target(y, t)
        found = NewtonLoss(cosh, curvature).target(y.float(), t.float())
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)


def test_loss_and_its_gradient():
    y, t = random(6, 3).requires_grad_(), random(6, 3, seed=1)
    criterion = NewtonLoss(lambda y, t: (y - t).pow(4).sum(1), tikhonov=0.5)
    value = criterion(y, t)
    value.backward()
    z = criterion.target(y.detach(), t)
    torch.testing.assert_close(value, 0.5 * (z - y).square().sum(1).mean())
    torch.testing.assert_close(y.grad, (y.detach() - z) / 6)  # (7.27): z* is a constant
    torch.testing.assert_close(criterion.value, (y.detach() - t).pow(4).sum(1).mean())


def test_no_gradient_through_the_target_or_to_the_labels():
    y, t = random(4, 3).requires_grad_(), random(4, 3, seed=1).requires_grad_()
    NewtonLoss(lambda y, t: (y - t).cosh().sum(1))(y, t).backward()
    assert t.grad is None
    z = NewtonLoss(lambda y, t: (y - t).cosh().sum(1)).target(y, t)
    assert not z.requires_grad


@for_each(form=CLOSED)
def test_closed_forms_equal_autograd(form):
    y, p = random(7, 5), random(7, 5, seed=1).softmax(1)
    y = y.sigmoid() if form is BinaryCrossEntropy else y
    exact = derivatives(CLOSED[form], y, p)
    found = derivatives(form(), y, p)
    hessian = found.hessian if found.hessian.ndim == 3 else torch.diag_embed(found.hessian)
    torch.testing.assert_close(found.values, exact.values)
    torch.testing.assert_close(found.gradient, exact.gradient)
    torch.testing.assert_close(hessian, exact.hessian)
    assert form().derivatives(y, p, hessian=False).hessian is None
    for curvature in ("hessian", "fisher", "elementwise"):
        closed = NewtonLoss(form(), curvature, tikhonov=0.01).target(y, p)
        auto = NewtonLoss(CLOSED[form], curvature, tikhonov=0.01).target(y, p)
        torch.testing.assert_close(closed, auto)


def test_binary_cross_entropy_of_saturated_outputs():
    """Sigmoids round to 1 in float32: right ones have derivatives, wrong ones have none."""
    y = torch.tensor([[0.0, 1.0, 0.5]], requires_grad=True)
    found = BinaryCrossEntropy().derivatives(y.detach(), torch.tensor([[0.0, 1.0, 1.0]]))
    torch.testing.assert_close(found.gradient, torch.tensor([[1.0, -1.0, -2.0]]))
    torch.testing.assert_close(found.hessian, torch.tensor([[1.0, 1.0, 4.0]]))
    NewtonLoss(BinaryCrossEntropy())(y, torch.tensor([[0.0, 1.0, 1.0]])).backward()
    assert torch.isfinite(y.grad).all()
    with pytest.raises(ValueError, match="gradient of the loss must be finite"):
        NewtonLoss(BinaryCrossEntropy())(y, torch.tensor([[1.0, 1.0, 1.0]]))


@for_each(bad=[-0.5, 3.0, torch.nan])
def test_closed_forms_refuse_what_is_no_probability(bad):
    y, p = torch.full((1, 2), 0.5), torch.tensor([[0.5, bad]])
    for form in (BinaryCrossEntropy(), SigmoidBinaryCrossEntropy()):
        with pytest.raises(ValueError, match=r"target must have probabilities in \[0, 1\], got"):
            form(y, p)
        with pytest.raises(ValueError, match=r"target must have probabilities in \[0, 1\], got"):
            NewtonLoss(form).target(y.requires_grad_(), p)
    with pytest.raises(ValueError, match=r"output must have .*SigmoidBinaryCrossEntropy"):
        BinaryCrossEntropy()(p, y)
    if bad != 3.0:
        with pytest.raises(ValueError, match="target must have probabilities >= 0, got"):
            SoftmaxCrossEntropy()(y, p)
    for form in (BinaryCrossEntropy(), SigmoidBinaryCrossEntropy(), SoftmaxCrossEntropy()):
        for call in (form, form.derivatives):
            with pytest.raises(ValueError, match=r"must have one shape, \[N, ...\], got \[3, 2\]"):
                call(y.expand(3, 2), y)


def test_classes_by_number():
    y, t = random(6, 4), torch.tensor([0, 3, 1, 1, 2, 0])
    found, exact = (derivatives(SoftmaxCrossEntropy(), y, p) for p in (t, F.one_hot(t, 4).to(y)))
    torch.testing.assert_close(found, exact)
    torch.testing.assert_close(found.values, F.cross_entropy(y, t, reduction="none"))


# -- losses of the package


METHODS = {
    "bitonic": {"dist": "logistic", "steepness": 4.0},
    "neuralsort": {"steepness": 1.0},
}


def ranks_by(regularization):
    method = sorting.get("permutahedron", regularization=regularization, steepness=0.3)
    return lambda y, t: (method.ranks(y) - t).pow(4).sum(1)


# The other losses of the package: the function, the shape of an output, and what else it takes.
LOSSES = {
    "permutahedron, entropic": (ranks_by("entropic"), (5,), random(3, 5, seed=1)),
    "top-k cross-entropy": (
        TopKCrossEntropy([0.5, 0.0, 0.5], m=5, reduction="none"), (7,), torch.tensor([6, 0, 3]),
    ),
    "shortest path": (
        lambda y, t: (shortest_path(y.exp()) - t).square().flatten(1).sum(1),
        (3, 4),
        (random(3, 3, 4, seed=1) > 0).double(),
    ),
    "edit distance": (
        lambda y, t: levenshtein(y.softmax(2), t.softmax(2)), (4, 3), 3 * random(3, 3, 3, seed=1),
    ),
}  # fmt: skip


@pytest.mark.rotating(4, group="long")
@for_each(rotating=2, name=LOSSES)
def test_newton_losses_of_the_package(name):
    """Hessians equal central differences, and all curvatures give a step that goes downhill."""
    loss, shape, target = LOSSES[name]
    y = random(3, *shape)
    found = derivatives(loss, y, target)
    assert found.hessian is not None
    assert found.hessian.abs().max() > 0
    step = 1e-5
    size = y[0].numel()
    for j in range(0, size, 1 + size // 4):
        e = torch.zeros(size, dtype=y.dtype)
        e[j] = step
        up, down = (
            derivatives(loss, z, target, hessian=False).gradient
            for z in (y + e.reshape(shape), y - e.reshape(shape))
        )
        torch.testing.assert_close(
            found.hessian[:, j], (up - down) / (2 * step), rtol=1e-5, atol=1e-5
        )
    differences = derivatives(loss, y, target, second="differences").hessian
    torch.testing.assert_close(differences, found.hessian, rtol=1e-3, atol=1e-3)
    for curvature in ("hessian", "fisher", "elementwise"):
        moved = NewtonLoss(loss, curvature, tikhonov=1.0).target(y, target) - y
        assert bool(((moved.flatten(1) * found.gradient).sum(1) < 0).all())


@for_each(dtype=[torch.float32, torch.float64], name=METHODS, rotating=3)
def test_hessians_by_differences(name, dtype, monkeypatch):
    method = sorting.SoftSorter(name, **METHODS[name])

    def loss(y, t, *, labels):
        assert len(labels) == len(y)
        return (
            -(method(y).permutation.clamp(min=1e-6).log() * t).flatten(1).sum(1) * labels
        ).clone()

    y, labels = random(3, 4, dtype=dtype), torch.tensor([1, 2, 3])
    t = sorting.losses.permutation_matrix(random(3, 4, seed=1)).to(dtype)
    exact = derivatives(loss, y.double(), t.double(), labels=labels)
    for columns in (4, 1, 3):  # of a pass
        monkeypatch.setattr("gendr.optim.curvature.AT_ONCE", columns * y.numel())
        found = derivatives(loss, y, t, labels=labels, second="differences")
        for a, b in zip(found, exact, strict=True):
            assert a.dtype is dtype
            torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


class Cube(torch.autograd.Function):
    """x^3 by a kernel that is differentiable once."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def test_differences_need_first_derivatives_only():
    y, weights = random(3, 2, 2), random(3).numpy()

    def loss(y, weights):
        return Cube.apply(y).flatten(1).sum(1) * torch.from_numpy(weights)  # pyright: ignore[reportOptionalMemberAccess]

    found = derivatives(loss, y, weights, second="differences").hessian
    expected = torch.diag_embed(6 * y.flatten(1) * torch.from_numpy(weights)[:, None])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    y = random(3, 2).requires_grad_()
    with pytest.raises(ValueError, match="twice differentiable, and Cube is not; use"):
        NewtonLoss(lambda y: Cube.apply(y).sum(1) + y.pow(4).sum(1))(y)
    NewtonLoss(lambda y: Cube.apply(y).sum(1), "fisher")(y).backward()


def test_differences_with_arguments_for_all_samples():
    """Weights of classes, in float32: no entry for each sample, and not repeated."""
    y, t, w = random(6, 3).float(), torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([1.0, 2.0, 0.5])

    def loss(y, t, w):
        return F.cross_entropy(y, t, w, reduction="none")

    found = derivatives(loss, y, t, w, second="differences").hessian
    torch.testing.assert_close(found, derivatives(loss, y, t, w).hessian, rtol=1e-4, atol=1e-5)


def test_differences_of_a_loss_that_draws_are_an_error():
    def loss(y):
        return (y + torch.rand_like(y)).square().sum(1)

    with pytest.raises(ValueError, match="equal outputs have different losses"):
        NewtonLoss(loss, second="differences").target(random(3, 2))


def test_differences_of_a_loss_that_holds_its_labels_are_an_error():
    y, t = random(4, 3), torch.tensor([0, 2, 1, 1])
    match = r"batch of 4 outputs repeated, 20 in all.*must be an argument"
    with pytest.raises(ValueError, match=match):
        derivatives(lambda y: F.cross_entropy(y, t, reduction="none"), y, second="differences")


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_graphs_break_at_second_derivatives():
    loss = NewtonLoss(lambda y: y.softmax(1)[:, 0].square())
    assert_graph(loss, random(4, 3).requires_grad_(), backend="aot_eager")


def test_large_matrices_have_the_steps_of_small_ones():
    """Cholesky, with the eigenvalues where it does not work: beyond m = 24."""
    q, g = torch.linalg.qr(random(3, 30, 30)).Q, random(3, 30, seed=1)
    values = random(3, 30, seed=2).abs() + 0.1
    values[1, 0], values[2, :2] = -2.0, 0.0
    expected = ((g[:, None] @ q)[:, 0] / (values.abs() + 0.3))[:, None] @ q.mT

    def step(rows):
        hessian = q[rows] @ torch.diag_embed(values[rows]) @ q[rows].mT
        y = torch.zeros_like(g[rows])
        quadratic = NewtonLoss(
            lambda y: (g[rows] * y + y * (hessian @ y[..., None])[..., 0] / 2).sum(1),
            "elementwise",
            tikhonov=0.3,
        )
        return -quadratic.target(y)

    found = step(slice(3))
    torch.testing.assert_close(found, expected[:, 0])
    for i in range(3):
        torch.testing.assert_close(step(slice(i, i + 1)), found[i : i + 1])


def test_in_inference_mode_there_is_a_value():
    y, t = random(4, 3), torch.tensor([0, 1, 2, 0])

    def loss(y, t):
        return F.cross_entropy(y, t, reduction="none")

    expected = NewtonLoss(loss).target(y, t)
    with torch.inference_mode():
        for of in (y, y * 1):  # made outside, and in it
            torch.testing.assert_close(NewtonLoss(loss).target(of, t * 1), expected)


# -- what has no ordinary step


def test_indefinite_hessian_goes_downhill():
    """|H| + t I: the step along an eigenvector of eigenvalue -2 is g / (2 + t)."""
    vectors = torch.linalg.qr(random(3, 3)).Q
    h = vectors @ torch.diag(torch.tensor([3.0, -2.0, 0.5]).double()) @ vectors.mT
    y = random(2, 3, seed=1)
    quadratic = NewtonLoss(lambda y: 0.5 * (y @ h * y).sum(1), tikhonov=0.25)
    g = y @ h
    expected = (g @ vectors / torch.tensor([3.25, 2.25, 0.75]).double()) @ vectors.mT
    torch.testing.assert_close(y - quadratic.target(y), expected)
    assert bool((((y - quadratic.target(y)) * g).sum(1) > 0).all())


def test_singular_hessian():
    """A flat direction is not walked along: by the pseudo-inverse, or by damping."""
    y, t = random(4, 3), torch.tensor([1, 0, 2, 2])
    z = NewtonLoss(SoftmaxCrossEntropy(), tikhonov=0.0).target(y, t)
    assert torch.isfinite(z).all()
    torch.testing.assert_close((z - y).sum(1), torch.zeros(4, dtype=y.dtype), atol=1e-9, rtol=0)
    linear = NewtonLoss(lambda y: y.sum(1), "elementwise", tikhonov=0.0)
    torch.testing.assert_close(linear.target(y), y)
    linear = NewtonLoss(lambda y: y.sum(1), tikhonov=2.0)
    torch.testing.assert_close(linear.target(y), y - 0.5)


def test_what_is_not_finite_is_an_error():
    y = torch.tensor([[0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    for curvature in ("hessian", "fisher", "elementwise"):
        with pytest.raises(ValueError, match="gradient of the loss must be finite, got 1 NaN or"):
            NewtonLoss(lambda y: y.sqrt().sum(1), curvature)(y)
    with pytest.raises(ValueError, match="Hessian of the loss must be finite"):
        NewtonLoss(lambda y: y.pow(1.5).sum(1))(y)
    NewtonLoss(lambda y: y.pow(1.5).sum(1), "fisher")(y).backward()
    assert torch.isfinite(y.grad).all()


def test_losses_that_know_their_derivatives():
    class Known:
        def __call__(self, y):
            raise AssertionError("not asked")

        def derivatives(self, y, hessian=True):
            return Derivatives(y.sum(1), torch.ones_like(y), torch.full_like(y, 4.0))

    y = random(3, 2)
    torch.testing.assert_close(NewtonLoss(Known(), tikhonov=0.0).target(y), y - 0.25)


# -- bad input


@for_each(
    "build, error, message",
    [
        (lambda y: NewtonLoss(cosh, "hesse"), ValueError, "curvature 'hesse'"),
        (
            lambda y: NewtonLoss(cosh, tikhonov=-1.0),
            ValueError,
            r"tikhonov must be >= 0, got -1\.0",
        ),
        (lambda y: NewtonLoss(cosh, lr=0.0), ValueError, "lr must be > 0, got 0.0"),
        (lambda y: NewtonLoss(cosh, second="numbers"), ValueError, "unknown second 'numbers'"),
        (lambda y: NewtonLoss(3), TypeError, "loss must be a function"),
        (
            lambda y: NewtonLoss(SoftmaxCrossEntropy),
            TypeError,
            r"got the class SoftmaxCrossEntropy; make one of it, SoftmaxCrossEntropy\(\)",
        ),
        (
            lambda y: NewtonLoss(lambda y: y.sum())(y),
            ValueError,
            r"one number for each sample, \[4\].*reduction='none'",
        ),
        (lambda y: NewtonLoss(lambda y: y.square())(y), ValueError, r"\[4\].*got \[4, 3\]"),
        (lambda y: NewtonLoss(cosh)(y.detach(), 0), ValueError, "output has no gradient"),
        (
            lambda y: NewtonLoss(lambda y: y.detach().sum(1))(y),
            ValueError,
            "loss has no gradient by the output",
        ),
        (lambda y: NewtonLoss(cosh)([1.0]), TypeError, "output must be"),
        (lambda y: NewtonLoss(cosh)(y[:0]), ValueError, "a batch of numbers"),
    ],
)
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build(random(4, 3).requires_grad_())


def test_without_gradients_there_is_a_value():
    with torch.no_grad():
        assert NewtonLoss(lambda y: y.sum(1))(random(4, 3)) > 0
