"""What users of PyTorch expect of every sort, selection and loss, whatever it computes."""

import pytest
import torch

from gendr.sorting import (
    ApproxNDCG,
    KendallLoss,
    LambdaLoss,
    ListMLE,
    ListNet,
    MAPLoss,
    MRRLoss,
    NDCGLoss,
    RankNet,
    SoftPermutation,
    SoftQuantile,
    SoftRank,
    SoftSort,
    SpearmanLoss,
    names,
    permutation,
    soft_rank,
    soft_sort,
)
from gendr.sorting.losses import (
    element_match,
    exact_match,
    hard_ranks,
    kendall,
    ndcg,
    ndcg_of_ranks,
    permutation_matrix,
    ranking_cross_entropy,
    spearman,
)
from gendr.topk import SoftTopK, SoftTopKMask, TopKCrossEntropy, soft_topk, soft_topk_mask
from support.cases import for_each
from support.graphs import assert_graph, inductor

METHODS = [name for name in names() if name != "network"]  # that has no wires of its own
WITH_P = [name for name in METHODS if name != "permutahedron"]
MODULES = {
    **{f"sort {name}": (lambda name=name: SoftSort(name)) for name in METHODS},
    **{f"rank {name}": (lambda name=name: SoftRank(name)) for name in METHODS},
    **{f"matrix {name}": (lambda name=name: SoftPermutation(name)) for name in WITH_P},
    "hard": lambda: SoftSort(hard=True),
    "descending": lambda: SoftRank("softsort", descending=True),
    "quantile": lambda: SoftQuantile(0.5),
    "quantiles": lambda: SoftQuantile(torch.tensor([0.1, 0.9], device="cpu")),
    "top-k": lambda: SoftTopK(2),
    "attribution": lambda: SoftTopK(2, part="attribution"),
    "top-k neuralsort": lambda: SoftTopK(2, "neuralsort"),
    "mask": lambda: SoftTopKMask(2),
}
LOSSES = [
    NDCGLoss, SpearmanLoss, KendallLoss, LambdaLoss, ListMLE, MAPLoss, ListNet, RankNet,
    ApproxNDCG, MRRLoss,
]  # fmt: skip


@for_each(name=MODULES)
def test_a_default_device_does_not_matter(name):
    x = torch.randn(4, 6)
    want = MODULES[name]()(x)
    torch.set_default_device("meta")
    try:
        torch.testing.assert_close(MODULES[name]()(x), want)
    finally:
        torch.set_default_device(None)


def test_losses_on_another_default_device():
    x, grades = torch.randn(4, 6), torch.randint(3, (4, 6))
    torch.set_default_device("meta")
    try:
        for loss in LOSSES:
            assert loss()(x, grades).device.type == "cpu"
        assert TopKCrossEntropy([0.5, 0.5])(x, grades[:, 0]).device.type == "cpu"
    finally:
        torch.set_default_device(None)


@for_each(name=MODULES, dtype=[torch.bfloat16, torch.float16], rotating=4)
def test_half_precision_comes_back_and_is_computed_in_float32(name, dtype):
    x = torch.randn(4, 6).to(dtype).requires_grad_()
    found = MODULES[name]()(x)
    assert found.dtype == dtype
    torch.testing.assert_close(found, MODULES[name]()(x.float()).to(dtype))
    assert torch.autograd.grad(found.sum(), x)[0].dtype == dtype


@pytest.mark.rotating(4, group="long")
@for_each(name=MODULES, rotating=4)
def test_tensors_without_values_have_shapes(name):
    module = MODULES[name]()
    assert module(torch.rand(4, 6, device="meta")).shape == module(torch.rand(4, 6)).shape


@for_each(name=MODULES)
def test_empty_batches_and_lists(name):
    module = MODULES[name]()
    assert module(torch.rand(0, 6)).numel() == 0
    if not ("quantile" in name or "top-k" in name or name in ("attribution", "mask")):
        assert module(torch.rand(3, 0)).numel() == 0
    elif "quantile" not in name:
        module.k = 0
        assert module(torch.rand(3, 0)).numel() == 0
        assert module(torch.rand(3, 4)).sum() == 0


@for_each(name=MODULES)
def test_nan_stays_nan_where_nobody_checks(name):
    x = torch.randn(2, 6)
    x[0, 2] = torch.nan
    module = MODULES[name]()
    module.check = False
    found = module(x)
    found = found.movedim(1, 0) if name == "quantiles" else found
    if name != "hard":
        assert found[0].isnan().any()
    assert not found[1].isnan().any()


def test_the_gradient_of_neuralsorts_matrix_with_nan_ends():
    """Runs of equal values were looked for, and NaN equals none."""
    x = torch.tensor([[1.0, torch.nan, 2.0], [1.0, 2.0, 2.0]], requires_grad=True)
    permutation(x, "neuralsort", check=False).square().sum().backward()
    assert x.grad[0].isnan().all()
    assert x.grad[1].isfinite().all()


@for_each(method=[*METHODS, "splitter", "mask"], backend=["auto", "reference"])
def test_lists_that_are_not_finite_are_nan(method, backend):
    """Kernels skipped what was far, or cut it off, and definitions cut gradients off."""
    keys = [[1.0, bad, 2.0, 0.5] for bad in (torch.nan, torch.inf, -torch.inf)]
    options = {"check": False} | ({} if method == "sinkhorn" else {"backend": backend})
    for dtype in (torch.float32, torch.float64):
        leaf = torch.tensor([*keys, [3.0, 1.0, 2.0, 2.5]], dtype=dtype, requires_grad=True)
        if method == "mask":
            results = [soft_topk_mask(leaf, 2, dist, **options) for dist in ("cauchy", "uniform")]
        elif method == "permutahedron":
            results = [f(leaf, method, **options) for f in (soft_sort, soft_rank)]
        else:
            results = [*soft_topk(leaf, 2, method, **options)]
        if method in METHODS and method != "permutahedron":
            results += [f(leaf, method, **options) for f in (soft_sort, soft_rank, permutation)]
        if method not in ("mask", "permutahedron"):  # of a single value too
            results += [*soft_topk(leaf[:, 1:2], 1, method, **options)]
        if method in METHODS:
            results += [f(leaf[:, 1:2], method, **options) for f in (soft_sort, soft_rank)]
        for found in results:
            assert found[:3].isnan().all()
            assert found[3].isfinite().all()
            (grad,) = torch.autograd.grad(found.square().sum(), leaf, retain_graph=True)
            used = slice(1, 2) if found.shape[1:].numel() == 1 else slice(None)
            assert grad[:3, used].isnan().all()
            assert grad[3].isfinite().all()


def test_batches_of_gradients_end_in_one_line():
    x = torch.randn(2, 4, dtype=torch.float64)
    for module in (SoftSort(), SoftRank("neuralsort"), SoftRank("permutahedron"), SoftTopKMask(2)):
        with pytest.raises(RuntimeError, match=r"is_grads_batched.*torch\.func\.jacrev"):
            torch.autograd.functional.jacobian(module, x, vectorize=True)


@for_each(loss=LOSSES)
def test_losses_come_in_the_dtype_of_scores(loss):
    grades, mask = torch.randint(3, (4, 6)), torch.rand(4, 6) < 0.8
    for dtype in (torch.bfloat16, torch.float16):
        scores = torch.randn(4, 6, dtype=dtype, requires_grad=True)
        for known in (None, mask):
            found = loss()(scores, grades, known)
            assert found.dtype == dtype
            want = loss()(scores.float(), grades, known)
            torch.testing.assert_close(found, want.to(dtype))
            (grad,) = torch.autograd.grad(found, scores)
            assert grad.dtype == dtype
        p, ranks = permutation(scores.detach()), soft_rank(scores.detach())
        for part in (
            ndcg(p, grades, descending=False),
            ndcg_of_ranks(ranks, grades, descending=False),
            ranking_cross_entropy(p, permutation_matrix(grades).to(dtype)),
            spearman(ranks, grades),
            kendall(ranks, grades),
            hard_ranks(ranks),
            permutation_matrix(ranks),
            exact_match(ranks, grades),
            element_match(ranks, grades),
        ):
            assert part.dtype == dtype


@pytest.mark.graphs
@pytest.mark.rotating(7, group="graphs")
@pytest.mark.parametrize("which", range(4))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
def test_graphs_with_a_dynamic_batch(which):
    module = (SoftRank(), SoftSort(), SoftSort(dist="gaussian"), SoftRank("softsort"))[which]
    cases = (torch.randn(batch, 2, requires_grad=True) for batch in (5, 3))
    assert_graph(module, *cases, rtol=1e-3, atol=1e-4, dynamic=True, backend="aot_eager")


@inductor
@for_each("method, n", [("softsort", 5), ("softsort", 20), ("bitonic", 5)])
def test_inductor(method, n):
    """Of quotients of columns and copies into expanded tensors it makes wrong code (torch 2.13).

    With free sizes, or with rows of 16 and more; of exponents of 16 doubles it makes none.
    """
    x = torch.randn(18, n, dtype=torch.float64, requires_grad=True)
    assert_graph(SoftRank(method, standardize=n > 16), x, dynamic=n < 16)


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
@for_each(method=["bitonic", "neuralsort", "softsort"], rotating=3)
def test_a_name_stays_in_a_graph(method):
    """Where networks are traced, and with a steepness of which nothing is known yet."""
    assert_graph(
        lambda x: soft_sort(x, method, steepness=7.25), torch.randn(3, 4),
        fullgraph=True, backend="eager",
    )  # fmt: skip


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # deprecated
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # sizes are constants of a trace
def test_traces_and_transforms_give_what_eager_calls_give():
    x, grades = torch.randn(4, 6), torch.randint(3, (4, 6))
    for module in (SoftSort(), SoftRank("softsort"), SoftRank(steepness=2.0)):
        traced = torch.jit.trace(module, x)
        y = torch.randn(4, 6)
        torch.testing.assert_close(traced(y), module(y))
    loss = MAPLoss("softsort")
    relevant = (grades > 0).float()
    eager = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(loss(eager, relevant), eager)
    torch.testing.assert_close(torch.func.grad(loss)(x, relevant), want)


def test_a_network_that_takes_minutes_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"permutahedron|softsort"):
        soft_rank(torch.zeros(1, 1_000_000), "bitonic")
